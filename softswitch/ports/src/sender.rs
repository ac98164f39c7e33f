// SPDX-License-Identifier: Apache-2.0
//! Sends frames out of one interface, many with one system call: through AF_XDP where that is permitted, else
//! through a packet socket.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tracing::info;

use super::departures::DepartureSender;
use super::queueing::QueueingSender;
use super::socket::{bind, enlarge_send_buffer, packet_socket, set_option};
use super::tally::Sent;
use super::whole_sender::WholeSender;
use super::xdp::XdpSender;

/// Frames of one `sendmmsg(2)`. More frames gain nothing measurable and delay the first of them.
const BATCH_FRAMES: usize = 64;
/// Initial size of the batch buffer; it grows for longer frames and does not shrink.
const BATCH_BYTES: usize = BATCH_FRAMES * 256;

/// The fastest available way to send through an interface.
pub enum Sender {
    /// Through an AF_XDP socket.
    Xdp(Box<XdpSender>),
    /// Through a packet socket.
    Packet(PacketSender),
    /// Through a packet socket of all ports, with departure times.
    Departures(DepartureSender),
    /// Through a packet socket and the interface's queueing discipline.
    Queueing(QueueingSender),
    /// Whole frames, through a packet socket.
    Whole(WholeSender),
}

impl Sender {
    /// Opens an AF_XDP socket, or a packet socket where the kernel refuses that.
    ///
    /// # Errors
    /// The kernel's, for the packet socket.
    pub fn open(interface_index: u32, mtu_bytes: usize) -> io::Result<Self> {
        match XdpSender::open(interface_index, mtu_bytes) {
            Ok(sender) => Ok(Self::Xdp(Box::new(sender))),
            Err(error) => {
                info!("sending with sendmmsg, because AF_XDP is not available: {error}");
                PacketSender::open(interface_index).map(Self::Packet)
            }
        }
    }

    /// Adds a frame (Ethernet without FCS) to the batch; true when the batch is full. Only [`Sender::Departures`] uses the
    /// departure time (ns of `CLOCK_MONOTONIC`).
    pub fn push(&mut self, frame: &[u8], departure_ns: u64) -> bool {
        match self {
            Self::Xdp(sender) => sender.push(frame),
            Self::Packet(sender) => sender.push(frame),
            Self::Departures(sender) => sender.push(frame, departure_ns),
            Self::Queueing(sender) => sender.push(frame),
            Self::Whole(sender) => sender.push(frame),
        }
    }

    /// Frames that wait to be sent.
    pub fn waiting(&self) -> usize {
        match self {
            Self::Xdp(sender) => sender.waiting(),
            Self::Packet(sender) => sender.waiting(),
            Self::Departures(sender) => sender.waiting(),
            Self::Queueing(sender) => sender.waiting(),
            Self::Whole(sender) => sender.waiting(),
        }
    }

    /// Hands the batch to the interface without blocking. A refused frame does not delay the next; one that finds no
    /// room may stay for the next call.
    pub fn flush(&mut self) -> Sent {
        match self {
            Self::Xdp(sender) => sender.flush(),
            Self::Packet(sender) => sender.flush(),
            Self::Departures(sender) => sender.flush(),
            Self::Queueing(sender) => sender.flush(),
            Self::Whole(sender) => sender.flush(),
        }
    }
}

/// A packet socket with the next batch of frames.
pub struct PacketSender {
    socket: OwnedFd,
    bytes: Vec<u8>,
    /// End of each frame in `bytes`.
    ends: Vec<usize>,
}

impl PacketSender {
    /// Opens a socket that bypasses the queueing discipline: the switch has its own queues.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(interface_index: u32) -> io::Result<Self> {
        let socket = packet_socket()?;
        set_option(&socket, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        enlarge_send_buffer(&socket);
        // Protocol 0: this socket receives nothing.
        bind(&socket, interface_index, 0)?;
        Ok(Self {
            socket,
            bytes: Vec::with_capacity(BATCH_BYTES),
            ends: Vec::with_capacity(BATCH_FRAMES),
        })
    }

    /// Adds a frame (Ethernet without FCS) to the batch; true when the batch is full.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
        self.ends.len() >= BATCH_FRAMES
    }

    /// Frames that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.ends.len()
    }

    /// Hands the batch to the interface without blocking. A refused frame does not delay the next.
    pub fn flush(&mut self) -> Sent {
        let mut sent = Sent::default();
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let frames = starts.zip(&self.ends);
        let frames = frames.map(|(start, end)| &self.bytes[start..*end]);
        send_batch::<BATCH_FRAMES>(&self.socket, frames, |_, bytes, error| {
            sent.add(bytes, error);
        });
        self.bytes.clear();
        self.ends.clear();
        sent
    }
}

/// Sends up to `N` frames without blocking, and tells of each in turn its number, its bytes, and why it was refused, or None.
pub(crate) fn send_batch<'a, const N: usize>(
    socket: &OwnedFd,
    frames: impl Iterator<Item = &'a [u8]>,
    mut result: impl FnMut(usize, usize, Option<io::Error>),
) {
    // SAFETY: all-zero values of these plain C structures are valid; those in use are filled below.
    let mut vectors: [libc::iovec; N] = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; N] = unsafe { std::mem::zeroed() };
    let mut count = 0;
    for ((vector, message), frame) in vectors.iter_mut().zip(&mut messages).zip(frames) {
        vector.iov_base = frame.as_ptr().cast_mut().cast();
        vector.iov_len = frame.len();
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: these messages were filled above; their vectors, and the bytes of those, outlive the call and are only read.
    unsafe {
        send_all(socket, &mut messages[..count], |at, error| {
            result(at, vectors[at].iov_len, error);
        });
    }
}

/// Sends messages without blocking, and tells of each in turn why it was refused, or None.
///
/// # Safety
/// What the messages point to is valid and is not changed during the call.
pub(crate) unsafe fn send_all(
    socket: &OwnedFd,
    messages: &mut [libc::mmsghdr],
    mut result: impl FnMut(usize, Option<io::Error>),
) {
    let mut next = 0;
    while next < messages.len() {
        // SAFETY: the caller answers for what its messages point to.
        match unsafe { send_some(socket, &mut messages[next..]) } {
            Ok(taken) => {
                (next..next + taken).for_each(|at| result(at, None));
                next += taken;
            }
            Err(error) => {
                // `sendmmsg` fails only for the first message that it is given.
                result(next, Some(error));
                next += 1;
            }
        }
    }
}

/// Sends messages without blocking, up to the first that is refused; returns how many. The error is that of the first message.
///
/// # Safety
/// As [`send_all`].
pub(crate) unsafe fn send_some(
    socket: &OwnedFd,
    messages: &mut [libc::mmsghdr],
) -> io::Result<usize> {
    // SAFETY: the pointer and the number describe `messages`; the caller answers for what they point to.
    let taken = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            messages.as_mut_ptr(),
            messages.len() as libc::c_uint,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    match usize::try_from(taken) {
        Ok(taken) if taken > 0 => Ok(taken),
        _ => Err(io::Error::last_os_error()),
    }
}
