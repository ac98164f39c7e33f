// SPDX-License-Identifier: Apache-2.0
//! What the inference takes in.

use weir_packet::SackBlocks;

/// A segment that takes sequence space.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// The caller's name for this transmission, given back with the verdict.
    pub tag: u64,
    /// When it was captured.
    pub time_ns: i64,
    /// Sequence number.
    pub seq: u32,
    /// Payload, SYN and FIN.
    pub sequence_length: u32,
    /// Payload bytes.
    pub payload_length: u32,
    /// It opens a connection.
    pub syn: bool,
    /// It ends the data.
    pub fin: bool,
    /// Its timestamp.
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
    /// The echoed timestamp.
    pub tsecr: Option<u32>,
    /// SACK blocks, a DSACK block first.
    pub sack: &'a SackBlocks,
    /// The capture has cut its options: there may have been more blocks.
    pub options_cut: bool,
    /// It carries data, so it is no duplicate ACK (RFC 5681 section 2).
    pub with_data: bool,
}
