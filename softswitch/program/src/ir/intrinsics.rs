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
