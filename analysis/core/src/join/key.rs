// SPDX-License-Identifier: Apache-2.0
//! The key that identifies a packet in the captures of sender and receiver, and in a drop report.

use crate::segment::Segment;

/// Header fields that are equal in two captures of one packet, and almost never in two packets.
///
/// The id distinguishes retransmissions, but wraps; the TCP fields distinguish packets with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct MatchKey {
    pub(super) flow: u32,
    id: u32,
    seq: u32,
    ack: u32,
    length: u32,
    tsval: u32,
    flags: u8,
}

impl MatchKey {
    pub(super) fn new(flow: u32, segment: &Segment) -> Self {
        let id = segment.id;
        let Some(tcp) = &segment.tcp else {
            return Self {
                flow,
                id,
                seq: 0,
                ack: 0,
                length: segment.ip_length,
                tsval: 0,
                flags: 0,
            };
        };
        Self {
            flow,
            id,
            seq: tcp.seq,
            ack: tcp.ack,
            length: segment.payload_length,
            tsval: tcp.timestamps.map_or(0, |timestamps| timestamps.value),
            flags: tcp.flags.0,
        }
    }
}

/// A packet in the capture of the host it was addressed to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) key: MatchKey,
    pub(super) host: u32,
    pub(super) time_ns: i64,
    pub(super) record: u64,
}
