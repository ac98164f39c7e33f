// SPDX-License-Identifier: Apache-2.0
//! Sends through an `AF_XDP` socket: frames are written into memory that the kernel reads, one system call sends many.
//!
//! A socket that only sends is in copy mode, which every interface has and which needs no more privilege than a packet
//! socket: two thirds of the processor time of `sendmmsg(2)`, because the kernel neither fetches a message nor parses the
//! frame.

use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ring::Ring;
use super::socket::{Binding, Layout, QUEUE_PATIENCE, SEND_BATCH_FRAMES, XdpSocket};
use crate::tally::Sent;

/// Frames in flight; with chunks of 2 KiB 1 MiB in all: an ordinary user may pin 8 MiB.
pub(super) const CHUNKS: u32 = 512;
/// Chunk of a socket that only sends.
const CHUNK_BYTES: usize = 2048;
const ETHERNET_HEADER_BYTES: usize = 14;
const VLAN_TAG_BYTES: usize = 4;

/// The sending half of an AF_XDP socket.
pub struct XdpSender {
    socket: Arc<XdpSocket>,
    transmit: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    /// Addresses of the chunks that are free.
    free: Vec<u64>,
    /// Frames written to the transmit ring so far; wraps like the ring's own counters.
    written: u32,
    /// Those of them that the kernel has sent or refused; wraps likewise.
    done: u32,
    /// Frames that found no free chunk or have an invalid length; not yet reported by [`XdpSender::flush`].
    refused: u64,
    mtu_bytes: usize,
}

impl XdpSender {
    /// Opens a socket that only sends, through the first queue, past the queueing discipline.
    ///
    /// # Errors
    /// `EINVAL` for an interface whose frames are longer than a chunk, and the kernel's: no AF_XDP, no privilege, no
    /// more memory to pin, or the interface's queue in use by another socket.
    pub fn open(interface_index: u32, mtu_bytes: usize) -> io::Result<Self> {
        let layout = Layout {
            receive_chunks: 0,
            send_chunks: CHUNKS,
            chunk_bytes: CHUNK_BYTES,
        };
        if mtu_bytes + ETHERNET_HEADER_BYTES + VLAN_TAG_BYTES > CHUNK_BYTES {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let socket = Arc::new(XdpSocket::open(layout, Binding::Copy)?);
        let sender = Self::of_socket(&socket, mtu_bytes)?;
        socket.bind(interface_index, 0, QUEUE_PATIENCE)?;
        Ok(sender)
    }

    /// The sender of a socket that is not bound yet; a socket has one. Frames of the MTU fit a chunk.
    pub(super) fn of_socket(socket: &Arc<XdpSocket>, mtu_bytes: usize) -> io::Result<Self> {
        let Layout {
            receive_chunks,
            send_chunks,
            chunk_bytes,
        } = socket.layout;
        let chunks = receive_chunks..receive_chunks + send_chunks;
        Ok(Self {
            transmit: socket.transmit_ring()?,
            completion: socket.completion_ring()?,
            socket: Arc::clone(socket),
            free: chunks
                .map(|chunk| u64::from(chunk) * chunk_bytes as u64)
                .collect(),
            written: 0,
            done: 0,
            refused: 0,
            mtu_bytes,
        })
    }

    /// Adds a frame (Ethernet without FCS) to the batch; true when the batch is full.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        let carried = self.carries(frame);
        let Some(address) = self.free.pop_if(|_| carried) else {
            self.refused += 1;
            return true;
        };
        // SAFETY: the address is that of a free chunk, which nobody else reads or writes; the frame fits by `carries`. The
        // ring has as many descriptors as there are chunks, so the next one is not in use.
        unsafe {
            let to = self.socket.memory.start().add(address as usize);
            ptr::copy_nonoverlapping(frame.as_ptr(), to.as_ptr(), frame.len());
            let descriptor = libc::xdp_desc {
                addr: address,
                len: frame.len() as u32,
                options: 0,
            };
            self.transmit.write(self.written, descriptor);
        }
        self.written = self.written.wrapping_add(1);
        self.free.is_empty() || self.unsent() >= SEND_BATCH_FRAMES
    }

    /// Whether the interface can send a frame of this length. Packet sockets check this, AF_XDP sockets do not.
    fn carries(&self, frame: &[u8]) -> bool {
        let tagged = frame.get(12..14) == Some(&0x8100_u16.to_be_bytes());
        let longest_bytes = self.mtu_bytes + ETHERNET_HEADER_BYTES;
        let longest_bytes = longest_bytes + if tagged { VLAN_TAG_BYTES } else { 0 };
        (ETHERNET_HEADER_BYTES..=longest_bytes).contains(&frame.len())
    }

    fn unsent(&self) -> u32 {
        self.written.wrapping_sub(self.done)
    }

    /// Frames that wait to be sent, or to be counted as refused.
    pub fn waiting(&self) -> usize {
        self.unsent() as usize + self.refused as usize
    }

    /// Hands the batch to the interface without blocking. Frames that the kernel has no room for stay for the next call.
    pub fn flush(&mut self) -> Sent {
        let mut sent = Sent {
            refused: std::mem::take(&mut self.refused),
            ..Sent::default()
        };
        // Release: frames and descriptors are visible to the kernel before the new counter.
        self.transmit
            .producer()
            .store(self.written, Ordering::Release);
        while self.unsent() > 0 {
            let error = self.socket.send().err();
            let before = self.done;
            let refused = self.count(error.as_ref().and_then(io::Error::raw_os_error), &mut sent);
            if refused || self.done == before {
                sent.error = error;
            }
            if self.done == before {
                break;
            }
        }
        self.reclaim();
        sent
    }

    /// Counts the frames of the last system call, which returned `errno`; true when it refused one.
    fn count(&mut self, errno: Option<i32>, sent: &mut Sent) -> bool {
        let consumed = self.transmit.consumer().load(Ordering::Acquire);
        let mut end = consumed;
        // EBUSY: the interface dropped a frame, the last one consumed, and the call ended. The consumer counter may be
        // updated late; then the dropped frame was the first of the call. Without copies the driver takes frames at its own
        // pace, and refuses none.
        let refused = errno == Some(libc::EBUSY) && !self.socket.is_zero_copy();
        let ahead = consumed.wrapping_sub(self.done);
        if ahead == 0 || ahead > self.unsent() {
            end = self.done.wrapping_add(u32::from(refused));
        }
        while self.done != end {
            // SAFETY: the descriptor of a frame that was written and not counted yet; the kernel only reads it.
            let descriptor = unsafe { self.transmit.read(self.done) };
            self.done = self.done.wrapping_add(1);
            if refused && self.done == end {
                sent.refused += 1;
            } else {
                sent.packets += 1;
                sent.bytes += u64::from(descriptor.len);
            }
        }
        refused
    }

    /// Returns the chunks of frames that were sent to the free list.
    fn reclaim(&mut self) {
        // Acquire: the kernel has read a chunk before it returns it.
        let end = self.completion.producer().load(Ordering::Acquire);
        let mut next = self.completion.consumer().load(Ordering::Relaxed);
        while next != end {
            // SAFETY: the kernel has written this descriptor and does not change it until it is consumed.
            self.free.push(unsafe { self.completion.read(next) });
            next = next.wrapping_add(1);
        }
        self.completion.consumer().store(next, Ordering::Release);
    }
}
