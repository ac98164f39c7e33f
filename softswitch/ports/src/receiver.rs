// SPDX-License-Identifier: Apache-2.0
//! The ways in which a port receives.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use super::departures::DepartureSender;
use super::frame_ring::{FrameRing, RING_FRAMES, Taken};
use super::interface::LINK_HEADER_BYTES;
use super::packet_ring::Receive;
use super::queueing::QueueingSender;
use super::send_threads::Way;
use super::sender::{PacketSender, Sender};
use super::socket::InterfaceState;
use super::whole_sender::WholeSender;
use super::xdp::{Program, XdpError, XdpReceiver};

/// How a port receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reception {
    /// Through a packet ring, beside the network stack: on every interface, without an offload lost.
    #[default]
    Ring,
    /// As [`Reception::Ring`], but frames stay whole: each comes, and is sent, with its lead ([`crate::whole`]).
    Whole,
    /// Through AF_XDP, in place of the network stack: fast on cards whose driver has it. Only for the machine's root.
    Xdp,
    /// As [`Reception::Ring`], but another thread sends through the interface's AF_XDP queue: this one has a packet socket.
    RingBesideSender,
    /// Not at all: another thread receives what comes in, and this one only sends.
    Off {
        /// Another thread has the interface's AF_XDP queue, so this one sends through a packet socket.
        queue_taken: bool,
    },
}

/// What receives the frames of an open port.
pub(crate) enum Receiver {
    Ring(FrameRing),
    Xdp(XdpReceiver),
    Off,
}

impl Receiver {
    /// Opens a packet ring, and what sends beside it.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn open_ring(
        state: &InterfaceState,
        way: &Way,
        queue_taken: bool,
    ) -> io::Result<(Self, Sender)> {
        let receive = match way {
            Way::Queueing => Receive::AllButOwn,
            Way::Fastest | Way::Departures(_) => Receive::Inbound,
        };
        let max_frame_bytes = state.mtu_bytes + LINK_HEADER_BYTES;
        let ring = FrameRing::open(state.index, max_frame_bytes, RING_FRAMES, receive)?;
        let sender = match way {
            Way::Departures(all) => Sender::Departures(DepartureSender::open(all, state.index)?),
            Way::Queueing => Sender::Queueing(QueueingSender::new(ring.socket()?)),
            Way::Fastest => open_sender(state, queue_taken)?,
        };
        Ok((Self::Ring(ring), sender))
    }

    /// Opens only what sends.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn open_off(
        state: &InterfaceState,
        queue_taken: bool,
    ) -> io::Result<(Self, Sender)> {
        Ok((Self::Off, open_sender(state, queue_taken)?))
    }

    /// Opens a packet ring whose frames stay whole, and what sends them.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn open_whole(state: &InterfaceState) -> io::Result<(Self, Sender)> {
        let max_frame_bytes = state.mtu_bytes + LINK_HEADER_BYTES;
        let ring = FrameRing::open(state.index, max_frame_bytes, RING_FRAMES, Receive::Inbound)?;
        let sender = WholeSender::open(state.index, state.mtu_bytes)?;
        Ok((Self::Ring(ring.keep_whole()), Sender::Whole(sender)))
    }

    /// Opens AF_XDP sockets, which send too; waits for `patience` for a queue in use.
    ///
    /// # Errors
    /// [`XdpError`].
    pub(crate) fn open_xdp(
        name: &str,
        state: &InterfaceState,
        program: &Program,
        patience: Duration,
    ) -> Result<(Self, Sender), XdpError> {
        let (receiver, sender) = XdpReceiver::open(name, state, program, patience)?;
        Ok((Self::Xdp(receiver), Sender::Xdp(Box::new(sender))))
    }

    /// Time of arrival of the oldest frame (ns, `CLOCK_REALTIME`), if there is one.
    #[inline(always)]
    pub(crate) fn oldest_ns(&self, realtime_minus_monotonic_ns: i128) -> Option<u64> {
        match self {
            Self::Ring(ring) => ring.oldest_ns(),
            Self::Off => None,
            Self::Xdp(receiver) => {
                let monotonic_ns = i128::from(receiver.oldest_ns()?);
                let realtime_ns = monotonic_ns + realtime_minus_monotonic_ns;
                Some(u64::try_from(realtime_ns).unwrap_or_default())
            }
        }
    }

    /// Calls `use_taken` with the oldest frame, or with each of its segments, and removes it.
    #[inline(always)]
    pub(crate) fn take(&mut self, mut use_taken: impl FnMut(Taken<'_>)) {
        match self {
            Self::Ring(ring) => ring.take(use_taken),
            Self::Off => {}
            Self::Xdp(receiver) => receiver.take(|frame| use_taken(Taken::Frame(frame))),
        }
    }

    /// The pending error, which this call clears; `ENETDOWN` when the interface went down or away.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Self::Ring(ring) => ring.take_error(),
            Self::Off => Ok(None),
            Self::Xdp(receiver) => receiver.take_error(),
        }
    }

    /// The descriptors to poll for input.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = RawFd> + '_ {
        let (ring, receiver) = match self {
            Self::Ring(ring) => (Some(ring.as_raw_fd()), None),
            Self::Off => (None, None),
            Self::Xdp(receiver) => (None, Some(receiver.poll_fds())),
        };
        ring.into_iter().chain(receiver.into_iter().flatten())
    }
}

/// The fastest sender; a queue that is another thread's is not waited for.
fn open_sender(state: &InterfaceState, queue_taken: bool) -> io::Result<Sender> {
    if queue_taken {
        PacketSender::open(state.index).map(Sender::Packet)
    } else {
        Sender::open(state.index, state.mtu_bytes)
    }
}
