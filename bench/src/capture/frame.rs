// SPDX-License-Identifier: Apache-2.0
//! TCP segments as records of a pcap file: nanoseconds, little-endian, Ethernet, cut at the snap length.

use std::io::{self, Write};

pub(super) mod flags {
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const ACK: u8 = 16;
}

const SERVER_PORT: u16 = 5201;
const WRITE_BYTES: usize = 1 << 20;
const START_S: u64 = 1_700_000_000;
const NS_PER_S: u64 = 1_000_000_000;
/// Time between two segments that are due at the same time.
const BETWEEN_NS: u64 = 100;

/// The endpoints of a connection; the server is always the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) ipv6: bool,
    pub(super) client: u32,
    pub(super) client_port: u16,
}

/// One segment.
pub(super) struct Segment<'a> {
    pub(super) addresses: Addresses,
    pub(super) to_client: bool,
    pub(super) ip_id: u16,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) payload: u32,
    pub(super) timestamps: (u32, u32),
    pub(super) blocks: &'a [(u32, u32)],
}

/// A segment that the path dropped.
#[derive(Debug, Clone, Copy)]
pub struct Drop {
    /// Its time in the capture (Unix, ns).
    pub time_ns: u64,
    /// It was sent again before the capture ended: otherwise it may leave no trace there.
    pub sent_again: bool,
}

/// Writes a capture.
pub struct FileWriter {
    out: Box<dyn Write>,
    buffer: Vec<u8>,
    snap_bytes: usize,
    last_ns: u64,
    /// Segments written.
    pub packets: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The segments that the path dropped.
    pub drops: Vec<Drop>,
    failed: Option<io::Error>,
}

impl FileWriter {
    /// Starts a file with its header.
    pub fn new(out: Box<dyn Write>, snap_bytes: u32) -> Self {
        let mut buffer = Vec::with_capacity(WRITE_BYTES + 4096);
        for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, snap_bytes, 1] {
            buffer.extend(word.to_le_bytes());
        }
        Self {
            out,
            snap_bytes: snap_bytes as usize,
            last_ns: 0,
            packets: 0,
            bytes: buffer.len() as u64,
            buffer,
            drops: Vec::new(),
            failed: None,
        }
    }

    pub(super) fn segment(&mut self, time_ns: u64, segment: &Segment<'_>) {
        self.last_ns = time_ns.max(self.last_ns + BETWEEN_NS);
        let mut frame = [0; 128];
        let headers = headers(segment, &mut frame);
        let wire = headers + segment.payload as usize;
        // Payload is zeros: readers parse headers only.
        let captured = wire.min(self.snap_bytes).min(frame.len());
        let seconds = START_S + self.last_ns / NS_PER_S;
        for word in [
            seconds as u32,
            (self.last_ns % NS_PER_S) as u32,
            captured as u32,
            wire as u32,
        ] {
            self.buffer.extend(word.to_le_bytes());
        }
        self.buffer.extend(&frame[..captured]);
        self.packets += 1;
        self.bytes += 16 + captured as u64;
        if self.buffer.len() >= WRITE_BYTES {
            self.flush();
        }
    }

    /// The path dropped the last segment; returns the number of the drop.
    pub(super) fn note_drop(&mut self) -> usize {
        self.drops.push(Drop {
            time_ns: START_S * NS_PER_S + self.last_ns,
            sent_again: false,
        });
        self.drops.len() - 1
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    /// Whether writing the file has failed.
    pub fn failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes the buffered rest.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush();
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

/// Writes Ethernet, IP and TCP headers into a zeroed frame; returns their length in bytes.
fn headers(segment: &Segment<'_>, frame: &mut [u8; 128]) -> usize {
    let syn = segment.flags & flags::SYN != 0;
    let sack_bytes = match segment.blocks.len() {
        0 => 0,
        blocks => 4 + 8 * blocks,
    };
    let tcp_bytes = 20 + 12 + sack_bytes + if syn { 4 } else { 0 };
    let Addresses {
        ipv6,
        client,
        client_port,
    } = segment.addresses;
    let ip_bytes = if ipv6 { 40 } else { 20 };
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    let tcp = 14 + ip_bytes;
    let total = tcp_bytes + segment.payload as usize;
    let [a, b, c, d] = client.to_be_bytes();
    if ipv6 {
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14] = 0x60;
        frame[18..20].copy_from_slice(&(total as u16).to_be_bytes());
        frame[20..22].copy_from_slice(&[6, 64]);
        let server = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let client = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, a, b, c, d];
        let (src, dst) = if segment.to_client {
            (server, client)
        } else {
            (client, server)
        };
        frame[22..38].copy_from_slice(&src);
        frame[38..54].copy_from_slice(&dst);
    } else {
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[16..18].copy_from_slice(&((20 + total) as u16).to_be_bytes());
        frame[18..20].copy_from_slice(&segment.ip_id.to_be_bytes());
        frame[20..24].copy_from_slice(&[0x40, 0, 64, 6]);
        let (server, client) = ([10, 255, 0, 1], [10, b, c, d]);
        let (src, dst) = if segment.to_client {
            (server, client)
        } else {
            (client, server)
        };
        frame[26..30].copy_from_slice(&src);
        frame[30..34].copy_from_slice(&dst);
    }
    let (from, to) = if segment.to_client {
        (SERVER_PORT, client_port)
    } else {
        (client_port, SERVER_PORT)
    };
    let header = &mut frame[tcp..];
    header[..2].copy_from_slice(&from.to_be_bytes());
    header[2..4].copy_from_slice(&to.to_be_bytes());
    header[4..8].copy_from_slice(&segment.seq.to_be_bytes());
    header[8..12].copy_from_slice(&segment.ack.to_be_bytes());
    header[12] = (tcp_bytes as u8 / 4) << 4;
    header[13] = segment.flags;
    header[14..16].copy_from_slice(&0x7fff_u16.to_be_bytes());
    let (value, echo) = segment.timestamps;
    header[20..24].copy_from_slice(&[1, 1, 8, 10]);
    header[24..28].copy_from_slice(&value.to_be_bytes());
    header[28..32].copy_from_slice(&echo.to_be_bytes());
    if syn {
        header[32..36].copy_from_slice(&[4, 2, 1, 1]);
    }
    if !segment.blocks.is_empty() {
        header[32..36].copy_from_slice(&[1, 1, 5, 2 + 8 * segment.blocks.len() as u8]);
        for (block, bytes) in segment.blocks.iter().zip(header[36..].chunks_mut(8)) {
            bytes[..4].copy_from_slice(&block.0.to_be_bytes());
            bytes[4..].copy_from_slice(&block.1.to_be_bytes());
        }
    }
    14 + ip_bytes + tcp_bytes
}
