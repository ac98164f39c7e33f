// SPDX-License-Identifier: Apache-2.0
//! Receives the frames of all receive queues of an interface, in order of arrival.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use tracing::{info, warn};

use super::error::XdpError;
use super::program::{Attached, Program};
use super::queue::{LONGEST_FRAME_BYTES, Queue, chunk_bytes};
use super::sender::XdpSender;
use crate::card::Card;
use crate::clocks::monotonic_ns;
use crate::interface::LINK_HEADER_BYTES;
use crate::socket::{InterfaceState, accept_nothing, bind, packet_socket, promiscuous, take_error};

/// Most receive queues of a port. One thread reads them all, so more would only take memory: 8 MiB each, 16 for long frames.
pub const MAX_QUEUES: u32 = 16;

/// The sockets of an interface, and the program that fills them while this exists.
pub struct XdpReceiver {
    name: String,
    /// The first to be dropped, so that the network stack has the frames before a socket is closed.
    _attached: Attached,
    pub(super) queues: Vec<Queue>,
    /// Keeps the interface promiscuous, and says when it goes down.
    watch: OwnedFd,
    /// The program's count of dropped frames that was reported already.
    reported_drops: u64,
    pub(super) unstamped_reported: bool,
    unread_reported: bool,
}

impl XdpReceiver {
    /// Opens a socket for each queue of an interface, then attaches the program to its driver. The sender shares the socket
    /// of the first queue. A queue in use is waited for, for `patience` at most.
    ///
    /// # Errors
    /// [`XdpError`], which says what to do.
    pub fn open(
        name: &str,
        state: &InterfaceState,
        program: &Program,
        patience: Duration,
    ) -> Result<(Self, XdpSender), XdpError> {
        let frame_bytes = state.mtu_bytes + LINK_HEADER_BYTES;
        let chunk_bytes = chunk_bytes(frame_bytes).ok_or(XdpError::MtuTooLarge {
            mtu_bytes: state.mtu_bytes,
            most_bytes: LONGEST_FRAME_BYTES - LINK_HEADER_BYTES,
        })?;
        let card = Card::of(name).map_err(XdpError::at("reading the card's settings"))?;
        if card.receive_queues > MAX_QUEUES {
            return Err(XdpError::TooManyQueues {
                queues: card.receive_queues,
                most: MAX_QUEUES,
            });
        }
        let opening = XdpError::at("opening an AF_XDP socket");
        let watch = watch(state.index).map_err(&opening)?;
        let open = |queue| Queue::open(state.index, queue, chunk_bytes, queue == 0, patience);
        let queues: Vec<Queue> = (0..card.receive_queues)
            .map(open)
            .collect::<Result<_, _>>()?;
        let sender = queues[0].sender(state.mtu_bytes).map_err(&opening)?;
        let reported_drops = program.dropped();
        for (number, queue) in (0..).zip(&queues) {
            let given = queue.receive_from(program, number);
            given.map_err(XdpError::at("giving a queue's frames to its socket"))?;
        }
        // Last: before it, frames go to the network stack, and after it to bound sockets.
        let attached = program
            .attach(state.index)
            .map_err(XdpError::of_attaching)?;
        let receiver = Self {
            name: name.to_owned(),
            queues,
            watch,
            _attached: attached,
            reported_drops,
            unstamped_reported: false,
            unread_reported: false,
        };
        receiver.say(&card);
        Ok((receiver, sender))
    }

    fn say(&self, card: &Card) {
        let name = &self.name;
        let queues = self.queues.len();
        let queues = format!(
            "{queues} receive queue{}",
            if queues == 1 { "" } else { "s" }
        );
        match self.no_zero_copy() {
            None => info!("interface {name}: AF_XDP with zero-copy, {queues}"),
            Some(error) => info!(
                "interface {name}: AF_XDP in copy mode, {queues} (the driver has no zero-copy: {error})"
            ),
        }
        if card.is_veth {
            warn!(
                "interface {name}: through AF_XDP, checksums and VLAN tags that the other end of a veth leaves to its card stay \
                 undone: `ethtool -K PEER tx off txvlan off` there"
            );
        } else if card.strips_vlan_tags {
            warn!(
                "interface {name}: the card takes the VLAN tag off a frame, and AF_XDP does not tell it: \
                 `ethtool -K {name} rxvlan off`"
            );
        }
    }

    /// Why frames of a queue are copied on their way; None if the card writes all into the memory that the switch reads.
    pub fn no_zero_copy(&self) -> Option<&io::Error> {
        self.queues.iter().find_map(Queue::no_zero_copy)
    }

    /// Time of arrival of the oldest frame (ns, `CLOCK_MONOTONIC`), if there is one.
    #[inline(always)]
    pub fn oldest_ns(&self) -> Option<u64> {
        let stamps = self
            .queues
            .iter()
            .filter_map(|queue| queue.oldest_ns(monotonic_ns));
        stamps.min()
    }

    /// Calls `use_frame` with the oldest frame (Ethernet without FCS).
    #[inline(always)]
    pub fn take(&mut self, use_frame: impl FnOnce(&[u8])) {
        let oldest = self
            .queues
            .iter_mut()
            .filter_map(|queue| Some((queue.oldest_ns(monotonic_ns)?, queue)));
        let Some((_, queue)) = oldest.min_by_key(|(stamp_ns, _)| *stamp_ns) else {
            return;
        };
        let mut stamped = true;
        queue.take(|frame, is_stamped| {
            stamped = is_stamped;
            use_frame(frame);
        });
        if !stamped {
            self.say_unstamped();
        }
    }

    #[cold]
    fn say_unstamped(&mut self) {
        if !std::mem::replace(&mut self.unstamped_reported, true) {
            warn!(
                "interface {}: its driver gives XDP programs no room in front of a frame, so a frame's time of arrival is that at \
                 which the switch takes it, and policing is less exact",
                self.name
            );
        }
    }

    /// Frames that were lost since the last call: those that found no room, and those of a queue without socket.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take_drops(&mut self, program: &Program) -> io::Result<u64> {
        let dropped = program.dropped();
        let mut drops = dropped.saturating_sub(self.reported_drops);
        self.reported_drops = dropped;
        if drops > 0 && !std::mem::replace(&mut self.unread_reported, true) {
            warn!(
                "interface {0}: frames come through a receive queue that the port does not read, and are counted as rx_overruns; \
                 if it was added by `ethtool -L`, `ip link set dev {0} down` and `up` has it read",
                self.name
            );
        }
        for queue in &mut self.queues {
            drops += queue.take_drops()?;
        }
        Ok(drops)
    }

    /// The descriptors to poll for frames, or an error.
    pub fn poll_fds(&self) -> impl Iterator<Item = RawFd> + '_ {
        let queues = self.queues.iter().map(AsRawFd::as_raw_fd);
        queues.chain([self.watch.as_raw_fd()])
    }

    /// The pending error, which this call clears; `ENETDOWN` when the interface went down or away.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        take_error(&self.watch)
    }
}

/// A packet socket that makes the interface promiscuous, receives nothing, and has an error when the interface goes down.
fn watch(interface_index: u32) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    accept_nothing(&socket)?;
    promiscuous(&socket, interface_index)?;
    // A socket for no protocol would not hear that the interface goes down, and one for all would be shown what is sent.
    bind(&socket, interface_index, libc::ETH_P_LOOP as u16)?;
    Ok(socket)
}
