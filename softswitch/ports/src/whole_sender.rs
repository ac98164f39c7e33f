// SPDX-License-Identifier: Apache-2.0
//! Sends whole frames out of one interface: through a packet socket, which takes the virtio header before each frame and
//! so leaves to the receiving host, or to the interface's card, what the sending host has left (`packet(7)`,
//! `PACKET_VNET_HDR`). AF_XDP cannot.

use std::io;
use std::os::fd::OwnedFd;

use super::sender::send_batch;
use super::socket::{bind, enlarge_send_buffer, packet_socket, set_option};
use super::tally::Sent;
use super::virtio::Offload;
use super::whole::{LEAD_BYTES, SIZE_BYTES, Size};

/// Frames of one `sendmmsg(2)`.
const BATCH_FRAMES: usize = 64;
/// Frames from this length on are sent at once: one more copy would cost more than a system call.
const LONG_BYTES: usize = 4_096;
const ETHERNET_HEADER_BYTES: usize = 14;

/// A packet socket with the next batch of frames.
pub struct WholeSender {
    socket: OwnedFd,
    /// Frames with their leads.
    bytes: Vec<u8>,
    /// End of each in `bytes`, and what it is on a wire.
    frames: Vec<(usize, Size)>,
    /// Results of frames that are not in the batch any more; not yet reported by [`WholeSender::flush`].
    sent: Sent,
    mtu_bytes: usize,
}

impl WholeSender {
    /// Opens a socket that bypasses the queueing discipline.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(interface_index: u32, mtu_bytes: usize) -> io::Result<Self> {
        let socket = packet_socket()?;
        set_option(&socket, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        set_option(&socket, libc::PACKET_VNET_HDR, &1_i32)?;
        enlarge_send_buffer(&socket);
        // Protocol 0: this socket receives nothing.
        bind(&socket, interface_index, 0)?;
        Ok(Self {
            socket,
            bytes: Vec::with_capacity(BATCH_FRAMES * LONG_BYTES),
            frames: Vec::with_capacity(BATCH_FRAMES),
            sent: Sent::default(),
            mtu_bytes,
        })
    }

    /// Adds a frame with its lead to the batch, or sends both; true when the caller is to flush.
    pub fn push(&mut self, with_lead: &[u8]) -> bool {
        let Some(size) = Size::of(with_lead) else {
            self.sent.refused += 1;
            return true;
        };
        if !self.carries(with_lead) {
            self.sent.refused += size.frames;
            return true;
        }
        if with_lead.len() >= LONG_BYTES {
            self.send_batch();
            let frame = std::iter::once(&with_lead[SIZE_BYTES..]);
            send_batch::<1>(&self.socket, frame, |_, _, error| {
                self.sent.add_whole(size, error);
            });
            return self.sent.error.is_some();
        }
        self.bytes.extend_from_slice(with_lead);
        self.frames.push((self.bytes.len(), size));
        self.frames.len() >= BATCH_FRAMES
    }

    /// Whether the interface can send segments of this length. The kernel checks frames without segments only.
    fn carries(&self, with_lead: &[u8]) -> bool {
        let header = with_lead.get(SIZE_BYTES..).and_then(<[u8]>::first_chunk);
        let header = header.copied().unwrap_or_default();
        let Some(segments) = Offload::read(header).segments else {
            return true;
        };
        let headers_bytes = usize::from(u16::from_ne_bytes([header[2], header[3]]));
        headers_bytes + segments.payload_bytes <= self.mtu_bytes + ETHERNET_HEADER_BYTES
    }

    /// Frames on a wire that wait to be sent, or to be reported.
    pub fn waiting(&self) -> usize {
        let frames = self.frames.iter().map(|(_, size)| size.frames);
        (frames.sum::<u64>() + self.sent.packets + self.sent.refused) as usize
    }

    /// Hands the batch to the interface without blocking. A refused frame does not delay the next.
    pub fn flush(&mut self) -> Sent {
        self.send_batch();
        std::mem::take(&mut self.sent)
    }

    fn send_batch(&mut self) {
        let starts = std::iter::once(0).chain(self.frames.iter().map(|(end, _)| *end));
        let frames = starts.zip(&self.frames);
        let frames = frames.map(|(start, (end, _))| &self.bytes[start + SIZE_BYTES..*end]);
        send_batch::<BATCH_FRAMES>(&self.socket, frames, |at, _, error| {
            self.sent.add_whole(self.frames[at].1, error);
        });
        self.bytes.clear();
        self.frames.clear();
    }
}

// A lead is the size and the virtio header, which begins what is sent.
const _: () = assert!(LEAD_BYTES == SIZE_BYTES + super::virtio::HEADER_BYTES);
