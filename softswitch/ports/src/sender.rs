// SPDX-License-Identifier: Apache-2.0
//! Sends frames out of one interface, many with one system call: through AF_XDP where that is permitted, else
//! through a packet socket.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use tracing::info;

use super::socket::{bind, packet_socket, set_option, set_option_at};
use super::xdp::XdpSender;

/// Frames of one `sendmmsg(2)`. More gains nothing measurable and delays the first of them.
const BATCH_FRAMES: usize = 64;
/// Room that a batch begins with; it grows for longer frames and stays.
const BATCH_BYTES: usize = BATCH_FRAMES * 256;

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Sent {
    /// Frames that the interface took.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Frames that it refused.
    pub refused: u64,
    /// Why it refused the last of them.
    pub error: Option<io::Error>,
}

impl Sent {
    /// The `errno` that says that the interface went down or away, if one did.
    pub fn interface_gone(&self) -> Option<i32> {
        let errno = self.error.as_ref()?.raw_os_error()?;
        matches!(errno, libc::ENETDOWN | libc::ENXIO | libc::ENODEV).then_some(errno)
    }
}

/// The fastest way out of an interface that there is.
pub enum Sender {
    /// Through an AF_XDP socket.
    Xdp(Box<XdpSender>),
    /// Through a packet socket.
    Packet(PacketSender),
}

impl Sender {
    /// Opens what is permitted.
    ///
    /// # Errors
    /// The kernel's, for the packet socket.
    pub fn open(interface_index: u32, mtu_bytes: usize) -> io::Result<Self> {
        match XdpSender::open(interface_index, mtu_bytes) {
            Ok(sender) => Ok(Self::Xdp(Box::new(sender))),
            Err(error) => {
                info!("sending with sendmmsg, because AF_XDP is not to be had: {error}");
                PacketSender::open(interface_index).map(Self::Packet)
            }
        }
    }

    /// Takes a frame (Ethernet without FCS) into the batch; true when the batch is full.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        match self {
            Self::Xdp(sender) => sender.push(frame),
            Self::Packet(sender) => sender.push(frame),
        }
    }

    /// Frames that wait to be sent.
    pub fn waiting(&self) -> usize {
        match self {
            Self::Xdp(sender) => sender.waiting(),
            Self::Packet(sender) => sender.waiting(),
        }
    }

    /// Hands the batch to the interface; never waits. A frame that is refused does not hold back the next; one for
    /// which there is no room yet may wait for the next call.
    pub fn flush(&mut self) -> Sent {
        match self {
            Self::Xdp(sender) => sender.flush(),
            Self::Packet(sender) => sender.flush(),
        }
    }
}

/// Asks for room for frames that the receiver has not taken yet.
pub(crate) fn enlarge_buffer(socket: &OwnedFd) {
    let bytes: libc::c_int = 4 << 20;
    // The forced variant needs a privilege that a user namespace does not give; the other is capped. Both are only
    // room, so neither failing is an error.
    if set_option_at(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
        let _ = set_option_at(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    }
}

/// A packet socket with the frames that are to be sent next.
pub struct PacketSender {
    socket: OwnedFd,
    bytes: Vec<u8>,
    /// Where each frame ends in `bytes`.
    ends: Vec<usize>,
}

impl PacketSender {
    /// Opens a socket that sends past the queueing discipline: the switch has queues of its own.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(interface_index: u32) -> io::Result<Self> {
        let socket = packet_socket()?;
        set_option(&socket, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        enlarge_buffer(&socket);
        // Protocol 0: this socket receives nothing.
        bind(&socket, interface_index, 0)?;
        Ok(Self {
            socket,
            bytes: Vec::with_capacity(BATCH_BYTES),
            ends: Vec::with_capacity(BATCH_FRAMES),
        })
    }

    /// Takes a frame (Ethernet without FCS) into the batch; true when the batch is full.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
        self.ends.len() >= BATCH_FRAMES
    }

    /// Frames that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.ends.len()
    }

    /// Hands the batch to the interface; never waits. A frame that is refused does not hold back the next.
    pub fn flush(&mut self) -> Sent {
        let mut sent = Sent::default();
        // SAFETY: all-zero values of both are valid, they are plain C structures; those in use are filled below.
        let mut vectors: [libc::iovec; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut messages: [libc::mmsghdr; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        let count = self.ends.len().min(BATCH_FRAMES);
        let mut start = 0;
        for ((vector, message), end) in vectors.iter_mut().zip(&mut messages).zip(&self.ends) {
            vector.iov_base = ptr::from_ref(&self.bytes[start]).cast_mut().cast();
            vector.iov_len = end - start;
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            start = *end;
        }
        let mut next = 0;
        while next < count {
            // SAFETY: `next` is below `count`, so the pointer and the number describe messages that were filled above;
            // the vectors that they point to, and the bytes of those, outlive the call and are only read.
            let taken = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    messages.as_mut_ptr().add(next),
                    (count - next) as libc::c_uint,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            let taken = match usize::try_from(taken) {
                Ok(taken) if taken > 0 => taken,
                _ => {
                    // The first of those left is the one that was refused.
                    sent.refused += 1;
                    sent.error = Some(io::Error::last_os_error());
                    next += 1;
                    continue;
                }
            };
            sent.packets += taken as u64;
            let took = vectors[next..].iter().take(taken);
            sent.bytes += took.map(|vector| vector.iov_len as u64).sum::<u64>();
            next += taken;
        }
        self.bytes.clear();
        self.ends.clear();
        sent
    }
}
