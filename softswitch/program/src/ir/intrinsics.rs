// SPDX-License-Identifier: Apache-2.0
//! Standard metadata.

use super::Slot;

/// The fields that the switch itself reads or writes; None: the program has no such field, or never reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Intrinsics {
    pub ingress_port: Option<Slot>,
    pub egress_spec: Option<Slot>,
    pub egress_port: Option<Slot>,
    pub instance_type: Option<Slot>,
    pub packet_length: Option<Slot>,
    pub enq_timestamp: Option<Slot>,
    pub enq_qdepth: Option<Slot>,
    pub deq_timedelta: Option<Slot>,
    pub deq_qdepth: Option<Slot>,
    pub ingress_timestamp: Option<Slot>,
    pub egress_timestamp: Option<Slot>,
    pub mcast_grp: Option<Slot>,
    pub egress_rid: Option<Slot>,
    pub checksum_error: Option<Slot>,
    pub parser_error: Option<Slot>,
    pub priority: Option<Slot>,
    pub qid: Option<Slot>,
}

impl Intrinsics {
    /// The fields that the program has.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        let Self {
            ingress_port,
            egress_spec,
            egress_port,
            instance_type,
            packet_length,
            enq_timestamp,
            enq_qdepth,
            deq_timedelta,
            deq_qdepth,
            ingress_timestamp,
            egress_timestamp,
            mcast_grp,
            egress_rid,
            checksum_error,
            parser_error,
            priority,
            qid,
        } = *self;
        let all = [
            ingress_port,
            egress_spec,
            egress_port,
            instance_type,
            packet_length,
            enq_timestamp,
            enq_qdepth,
            deq_timedelta,
            deq_qdepth,
            ingress_timestamp,
            egress_timestamp,
            mcast_grp,
            egress_rid,
            checksum_error,
            parser_error,
            priority,
            qid,
        ];
        all.into_iter().flatten()
    }
}
