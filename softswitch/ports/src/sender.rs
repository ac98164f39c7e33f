// SPDX-License-Identifier: Apache-2.0
//! Sends frames out of one interface, many with one system call: through AF_XDP where that is permitted, else
//! through a packet socket.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use tracing::info;

use super::socket::{bind, enlarge_send_buffer, packet_socket, set_option, set_option_at};
use super::tally::Sent;
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

    /// Opens a packet socket whose frames the queueing discipline fq keeps until their departure times.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open_with_departures(interface_index: u32) -> io::Result<Self> {
        PacketSender::open_with_departures(interface_index).map(Self::Packet)
    }

    /// Adds a frame (Ethernet without FCS) to the batch; true when the batch is full.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        match self {
            Self::Xdp(sender) => sender.push(frame),
            Self::Packet(sender) => sender.push(frame),
        }
    }

    /// The same with a departure time (ns of `CLOCK_MONOTONIC`), which the kernel keeps after
    /// [`Sender::open_with_departures`].
    pub fn push_at(&mut self, frame: &[u8], departure_ns: u64) -> bool {
        if let Self::Packet(PacketSender {
            departures: Some(departures),
            ..
        }) = self
        {
            departures.push(Departure::new(departure_ns));
        }
        self.push(frame)
    }

    /// Frames that wait to be sent.
    pub fn waiting(&self) -> usize {
        match self {
            Self::Xdp(sender) => sender.waiting(),
            Self::Packet(sender) => sender.waiting(),
        }
    }

    /// Hands the batch to the interface without blocking. A refused frame does not delay the next; one that finds no
    /// room may stay for the next call.
    pub fn flush(&mut self) -> Sent {
        match self {
            Self::Xdp(sender) => sender.flush(),
            Self::Packet(sender) => sender.flush(),
        }
    }
}

/// A packet socket with the next batch of frames.
pub struct PacketSender {
    socket: OwnedFd,
    bytes: Vec<u8>,
    /// End of each frame in `bytes`.
    ends: Vec<usize>,
    /// The departure time of each frame, if the kernel is given them.
    departures: Option<Vec<Departure>>,
}

/// A control message (`cmsg(3)`) with the departure time of a frame, `SCM_TXTIME`.
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

impl PacketSender {
    /// Opens a socket that bypasses the queueing discipline: the switch has its own queues.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(interface_index: u32) -> io::Result<Self> {
        let socket = packet_socket()?;
        set_option(&socket, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        Self::bound(socket, interface_index)
    }

    /// Opens a socket through the queueing discipline, which gets the departure times.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open_with_departures(interface_index: u32) -> io::Result<Self> {
        let socket = packet_socket()?;
        let clock = libc::sock_txtime {
            clockid: libc::CLOCK_MONOTONIC,
            flags: 0,
        };
        set_option_at(&socket, libc::SOL_SOCKET, libc::SO_TXTIME, &clock)?;
        let sender = Self::bound(socket, interface_index)?;
        Ok(Self {
            departures: Some(Vec::with_capacity(BATCH_FRAMES)),
            ..sender
        })
    }

    fn bound(socket: OwnedFd, interface_index: u32) -> io::Result<Self> {
        enlarge_send_buffer(&socket);
        // Protocol 0: this socket receives nothing.
        bind(&socket, interface_index, 0)?;
        Ok(Self {
            socket,
            bytes: Vec::with_capacity(BATCH_BYTES),
            ends: Vec::with_capacity(BATCH_FRAMES),
            departures: None,
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
        // SAFETY: all-zero values of these plain C structures are valid; those in use are filled below.
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
        for (message, departure) in messages.iter_mut().zip(self.departures.iter().flatten()) {
            message.msg_hdr.msg_control = ptr::from_ref(departure).cast_mut().cast();
            message.msg_hdr.msg_controllen = size_of::<Departure>() as _;
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
                    // `sendmmsg` fails only for the first message that it is given.
                    sent.refused += 1;
                    sent.error = Some(io::Error::last_os_error());
                    next += 1;
                    continue;
                }
            };
            sent.packets += taken as u64;
            let accepted = vectors[next..].iter().take(taken);
            sent.bytes += accepted.map(|vector| vector.iov_len as u64).sum::<u64>();
            next += taken;
        }
        self.bytes.clear();
        self.ends.clear();
        if let Some(departures) = &mut self.departures {
            departures.clear();
        }
        sent
    }
}
