// SPDX-License-Identifier: Apache-2.0
//! Sends the frames of all ports with one system call, each with its departure time, which the queueing discipline fq of
//! its interface keeps.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::sender::send_all;
use super::socket::{enlarge_send_buffer, link_address, packet_socket, set_option_at};
use super::tally::Sent;

/// Frames of one `sendmmsg(2)`: in a millisecond, 256 full frames are 3 Gbit/s.
const BATCH_FRAMES: usize = 256;

/// The socket of all ports and the next batch of frames.
#[derive(Debug, Default)]
pub struct Departures(Mutex<Batch>);

#[derive(Debug, Default)]
struct Batch {
    /// Opened for the first port.
    socket: Option<OwnedFd>,
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    /// The results that each port's sender has not taken yet.
    results: Vec<Sent>,
}

#[derive(Debug)]
struct Frame {
    /// Its end in the batch's bytes.
    end: usize,
    port: usize,
    to: libc::sockaddr_ll,
    departure: Departure,
}

/// A control message (`cmsg(3)`) with the departure time of a frame, `SCM_TXTIME`.
#[derive(Debug)]
#[repr(C)]
struct Departure {
    header: libc::cmsghdr,
    /// `CLOCK_MONOTONIC`.
    at_ns: u64,
}

impl Departure {
    fn new(at_ns: u64) -> Self {
        // SAFETY: an all-zero header is a valid value of a plain C structure.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_len = size_of::<Self>() as _;
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_TXTIME;
        Self { header, at_ns }
    }
}

impl Departures {
    fn batch(&self) -> MutexGuard<'_, Batch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Batch {
    /// A socket that is bound to no interface, so that each message names its own.
    fn open(&mut self) -> io::Result<()> {
        if self.socket.is_some() {
            return Ok(());
        }
        let socket = packet_socket()?;
        let clock = libc::sock_txtime {
            clockid: libc::CLOCK_MONOTONIC,
            flags: 0,
        };
        set_option_at(&socket, libc::SOL_SOCKET, libc::SO_TXTIME, &clock)?;
        enlarge_send_buffer(&socket);
        self.socket = Some(socket);
        Ok(())
    }

    fn send(&mut self) {
        let Some(socket) = &self.socket else { return };
        let mut vectors = Vec::with_capacity(self.frames.len());
        let mut start = 0;
        for frame in &self.frames {
            vectors.push(libc::iovec {
                iov_base: self.bytes[start..].as_ptr().cast_mut().cast(),
                iov_len: frame.end - start,
            });
            start = frame.end;
        }
        let mut messages = Vec::with_capacity(self.frames.len());
        for (frame, vector) in self.frames.iter_mut().zip(&mut vectors) {
            // SAFETY: an all-zero message is a valid value of a plain C structure.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            let header = &mut message.msg_hdr;
            header.msg_name = (&raw mut frame.to).cast();
            header.msg_namelen = size_of_val(&frame.to) as libc::socklen_t;
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut frame.departure).cast();
            header.msg_controllen = size_of::<Departure>() as _;
            messages.push(message);
        }
        let (frames, results) = (&self.frames, &mut self.results);
        // SAFETY: addresses, departures, vectors and the bytes of those outlive the call and are only read.
        unsafe {
            send_all(socket, &mut messages, |at, error| {
                results[frames[at].port].add(vectors[at].iov_len, error);
            });
        }
        self.bytes.clear();
        self.frames.clear();
    }
}

/// The part of one port. A closed one leaves its number behind: an interface seldom returns.
pub struct DepartureSender {
    all: Arc<Departures>,
    port: usize,
    to: libc::sockaddr_ll,
    /// Frames since the last flush.
    waiting: usize,
}

impl DepartureSender {
    /// Adds an interface; the first one opens the socket.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(all: &Arc<Departures>, interface_index: u32) -> io::Result<Self> {
        let to = link_address(interface_index, 0)?;
        let mut batch = all.batch();
        batch.open()?;
        batch.results.push(Sent::default());
        Ok(Self {
            all: Arc::clone(all),
            port: batch.results.len() - 1,
            to,
            waiting: 0,
        })
    }

    /// Adds a frame (Ethernet without FCS) with its departure time (ns of `CLOCK_MONOTONIC`) to the batch; true when the
    /// batch is full.
    pub fn push(&mut self, frame: &[u8], departure_ns: u64) -> bool {
        let mut batch = self.all.batch();
        batch.bytes.extend_from_slice(frame);
        let end = batch.bytes.len();
        batch.frames.push(Frame {
            end,
            port: self.port,
            to: self.to,
            departure: Departure::new(departure_ns),
        });
        self.waiting += 1;
        batch.frames.len() >= BATCH_FRAMES
    }

    /// Frames since the last flush.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Sends the batch of all ports without blocking, and returns this port's results. A refused frame does not delay the
    /// next.
    pub fn flush(&mut self) -> Sent {
        let mut batch = self.all.batch();
        batch.send();
        self.waiting = 0;
        std::mem::take(&mut batch.results[self.port])
    }
}
