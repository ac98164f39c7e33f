// SPDX-License-Identifier: Apache-2.0
//! One capture in, its TCP segments and UDP datagrams out, in the order of the file.
//!
//! Unlike [`crate::losses`] this judges nothing: it is for readers who rebuild what the ends of a connection sent.

use std::path::Path;

use crate::notes::Notes;
use weir_capture::{CaptureError, CaptureReader, Record, Source};
use weir_packet::{FlowKey, Packet, SackBlocks, Timestamps, Transport};

/// Records that one step of a [`TransportScan`] reads.
const STEP_RECORDS: usize = 1 << 14;

/// A TCP segment, or a UDP datagram. A fragmented packet is its first fragment, the only one with the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportPacket {
    /// Capture time in nanoseconds since 1970.
    pub time_ns: i64,
    /// Directed 5-tuple.
    pub key: FlowKey,
    /// Fields of the TCP header; `None` in a UDP datagram.
    pub tcp: Option<TcpNumbers>,
    /// Bytes of payload as sent, however few the snap length kept: by the IP header for TCP (in a first fragment only its
    /// own), by the UDP header for UDP (all fragments together).
    pub payload_bytes: u32,
}

/// Where a segment lies in the streams of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpNumbers {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number; `None` without the ACK flag.
    pub ack: Option<u32>,
    /// The SYN flag.
    pub syn: bool,
    /// The timestamps option; `None` also where the capture cut it off.
    pub timestamps: Option<Timestamps>,
    /// The RST flag.
    pub reset: bool,
    /// The SACK blocks; none also where the capture cut them off.
    pub sack: SackBlocks,
}

impl TransportPacket {
    /// Reads a captured frame; `None` when it is neither TCP nor UDP, is a later fragment, or its headers are cut or
    /// malformed.
    pub fn parse(record: &Record<'_>) -> Option<Self> {
        let wire_length = usize::try_from(record.wire_length).unwrap_or(usize::MAX);
        let packet = Packet::parse(record.link_type, record.bytes, wire_length).ok()?;
        let (tcp, payload) = match packet.transport()? {
            Transport::Tcp(tcp) => {
                let options = tcp.options();
                let numbers = TcpNumbers {
                    seq: tcp.seq(),
                    ack: tcp.flags().ack().then_some(tcp.ack()),
                    syn: tcp.flags().syn(),
                    timestamps: options.timestamps,
                    reset: tcp.flags().rst(),
                    sack: options.sack,
                };
                (Some(numbers), tcp.payload_length())
            }
            Transport::Udp(udp) => (None, udp.payload_length()),
        };
        Some(Self {
            time_ns: record.time_ns,
            key: packet.flow()?,
            tcp,
            payload_bytes: u32::try_from(payload).unwrap_or(u32::MAX),
        })
    }
}

/// The TCP segments and UDP datagrams of a capture, a step at a time: memory does not grow with the file.
#[derive(Debug)]
pub struct TransportScan {
    reader: CaptureReader<Source>,
    may_be_cut: bool,
}

impl TransportScan {
    /// Opens the capture.
    ///
    /// # Errors
    /// As [`CaptureReader::open`].
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        CaptureReader::open(path).map(|reader| Self {
            reader,
            may_be_cut: false,
        })
    }

    /// Takes a file that ends inside a record for one that ends before it. For those who have told that it is cut.
    #[must_use]
    pub fn cut(self) -> Self {
        Self {
            may_be_cut: true,
            ..self
        }
    }

    /// Notes on the capture for the reader of the result, once it is read to its end.
    pub fn notes(&self) -> Notes {
        Notes {
            truncated: self.reader.truncated(),
            dropped: self.reader.dropped(),
            ..Notes::default()
        }
    }

    /// Appends the packets of the next records to `found`; false when that was the end of the file. A record without a
    /// time (Simple Packet Block) is skipped.
    ///
    /// # Errors
    /// [`CaptureError`] when the file is damaged, or ends inside a record, except inside the frame of a classic pcap and
    /// after [`Self::cut`].
    pub fn step(&mut self, found: &mut Vec<TransportPacket>) -> Result<bool, CaptureError> {
        for _ in 0..STEP_RECORDS {
            let untimed_before = self.reader.untimed();
            let Some(record) = self.reader.next_record()? else {
                // A capture that was killed while it wrote a frame ends here, as for other readers of classic pcap.
                if self.may_be_cut || self.reader.ended_inside_frame() {
                    return Ok(false);
                }
                return self.reader.require_whole().map(|()| false);
            };
            let packet = TransportPacket::parse(&record);
            if self.reader.untimed() == untimed_before {
                found.extend(packet);
            }
        }
        Ok(true)
    }
}
