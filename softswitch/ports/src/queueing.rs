// SPDX-License-Identifier: Apache-2.0
//! Sends frames through the queueing discipline of an interface, as other programs' packet sockets do, and keeps those that its
//! socket has no room for.
//!
//! So a rate or delay that `tc` gives the interface applies, and other packet sockets (tcpdump) see the frames. A socket without
//! room tells that the interface is slower than the switch. The socket is that of the port's receive ring, which does not
//! receive what it sent.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::sender::send_some;
use super::tally::Sent;
use super::virtio;

/// Frames of one `sendmmsg(2)`.
const BATCH_FRAMES: usize = 64;
/// Nothing is left to the network card.
static PLAIN_FRAME: [u8; virtio::HEADER_BYTES] = [0; virtio::HEADER_BYTES];
/// More frames than this never wait here: while the socket has no room, a switch keeps its packets in its own queues.
const MOST_WAITING: usize = 1_024;

/// A packet socket with the frames that wait for it.
pub struct QueueingSender {
    socket: OwnedFd,
    bytes: Vec<u8>,
    /// End of each frame in `bytes`.
    ends: Vec<usize>,
    /// Frames too many to wait here, since the last flush.
    refused: u64,
    /// The socket had no room for the first of the frames.
    full: bool,
}

impl QueueingSender {
    /// Sends through the socket of the interface's ring. Its send buffer keeps the system's size
    /// (`net.core.wmem_default`), for the frames in the queueing discipline.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            bytes: Vec::new(),
            ends: Vec::with_capacity(BATCH_FRAMES),
            refused: 0,
            full: false,
        }
    }

    /// Adds a frame (Ethernet without FCS); true when there are enough for a batch.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        if self.ends.len() >= MOST_WAITING {
            self.refused += 1;
            return true;
        }
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
        self.ends.len() >= BATCH_FRAMES
    }

    /// Frames that wait to be sent, or to be counted as refused.
    pub fn waiting(&self) -> usize {
        self.ends.len() + self.refused as usize
    }

    /// The descriptor to poll for room, if the socket had none at the last flush.
    pub fn full_fd(&self) -> Option<RawFd> {
        self.full.then(|| self.socket.as_raw_fd())
    }

    /// Hands frames to the queueing discipline without blocking. Those that the socket has no room for stay; one that is refused
    /// (by a full queueing discipline, for example) does not delay the next.
    pub fn flush(&mut self) -> Sent {
        let mut sent = Sent {
            refused: std::mem::take(&mut self.refused),
            ..Sent::default()
        };
        self.full = false;
        let mut done = 0;
        while done < self.ends.len() && !self.full {
            done += self.send_batch(done, &mut sent);
        }
        if done == self.ends.len() {
            self.bytes.clear();
            self.ends.clear();
        } else if done > 0 {
            let start = self.ends[done - 1];
            self.bytes.drain(..start);
            self.ends.drain(..done);
            self.ends.iter_mut().for_each(|end| *end -= start);
        }
        sent
    }

    /// Sends some of the frames from number `first` on; returns how many were sent or refused.
    fn send_batch(&mut self, first: usize, sent: &mut Sent) -> usize {
        // SAFETY: all-zero values of these plain C structures are valid; those in use are filled below.
        let mut vectors: [[libc::iovec; 2]; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        let ends = &self.ends[first..];
        let count = ends.len().min(BATCH_FRAMES);
        let mut start = first.checked_sub(1).map_or(0, |before| self.ends[before]);
        for ((vector, message), end) in vectors.iter_mut().zip(&mut messages).zip(ends) {
            let [header, frame] = vector;
            header.iov_base = PLAIN_FRAME.as_ptr().cast_mut().cast();
            header.iov_len = PLAIN_FRAME.len();
            frame.iov_base = self.bytes[start..].as_ptr().cast_mut().cast();
            frame.iov_len = end - start;
            message.msg_hdr.msg_iov = vector.as_mut_ptr();
            message.msg_hdr.msg_iovlen = vector.len();
            start = *end;
        }
        // SAFETY: these messages were filled above; their vectors, and the bytes of those, outlive the call and are only read.
        match unsafe { send_some(&self.socket, &mut messages[..count]) } {
            Ok(taken) => {
                (0..taken).for_each(|at| sent.add(vectors[at][1].iov_len, None));
                taken
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.full = true;
                0
            }
            // `sendmmsg` fails only for the first message that it is given.
            Err(error) => {
                sent.add(vectors[0][1].iov_len, Some(error));
                1
            }
        }
    }
}
