// SPDX-License-Identifier: Apache-2.0
//! Input of the inference: the segments of one direction and the acknowledgments of the other.

use weir_packet::SackBlocks;

/// A segment that takes sequence space.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// The caller's number for this transmission, returned with the verdict.
    pub tag: u64,
    /// When it was captured.
    pub time_ns: i64,
    /// Sequence number.
    pub seq: u32,
    /// Payload, SYN and FIN.
    pub sequence_length: u32,
    /// Payload bytes.
    pub payload_length: u32,
    /// The SYN flag.
    pub syn: bool,
    /// The FIN flag.
    pub fin: bool,
    /// `TSval` of the timestamps option.
    pub tsval: Option<u32>,
    /// IP identification; 0 where there is none.
    pub ip_id: u32,
}

/// A segment of the other direction that acknowledges this one's data.
#[derive(Debug, Clone, Copy)]
pub struct Acknowledgment<'a> {
    /// When it was captured.
    pub time_ns: i64,
    /// Acknowledgment number.
    pub ack: u32,
    /// Receive window as written.
    pub window: u16,
    /// `TSecr` of the timestamps option.
    pub tsecr: Option<u32>,
    /// SACK blocks, a DSACK block first.
    pub sack: &'a SackBlocks,
    /// The capture has cut its options, so blocks may be missing.
    pub options_cut: bool,
    /// It carries data, so it is not a duplicate ACK (RFC 5681 section 2).
    pub with_data: bool,
}
