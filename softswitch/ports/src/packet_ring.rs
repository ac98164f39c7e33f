// SPDX-License-Identifier: Apache-2.0
//! The part that receive rings of both `TPACKET` versions share: a packet socket and its memory.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use super::mapping::Mapping;
use super::socket::{
    ETH_P_ALL, bind, get_option_at, packet_socket, promiscuous, set_option, take_error,
};

/// Socket option, missing from libc: `PACKET_IGNORE_OUTGOING` of `linux/if_packet.h`.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// The frames that a ring receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receive {
    /// Those that come from the link.
    Inbound,
    /// Also those that others send through the interface. The kernel gives a socket all but the frames that it sent itself, so
    /// what the switch sends must go through the ring's own socket.
    AllButOwn,
}

/// A packet socket for a ring. The caller sets further options before [`PacketRing::start`].
///
/// # Errors
/// The kernel's.
pub(crate) fn ring_socket(
    version: libc::tpacket_versions,
    receive: Receive,
) -> io::Result<OwnedFd> {
    let socket = packet_socket()?;
    set_option(&socket, libc::PACKET_VERSION, &(version as libc::c_int))?;
    let ignore = i32::from(receive == Receive::Inbound);
    set_option(&socket, PACKET_IGNORE_OUTGOING, &ignore)?;
    Ok(socket)
}

/// A ring that receives.
pub(crate) struct PacketRing {
    socket: OwnedFd,
    memory: Mapping,
}

impl PacketRing {
    /// Creates the ring that `request` (`tpacket_req` or `tpacket_req3`, of `ring_bytes` in all) describes, and
    /// receives from the interface, in promiscuous mode.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn start<Request: Copy>(
        socket: OwnedFd,
        request: &Request,
        ring_bytes: usize,
        interface_index: u32,
    ) -> io::Result<Self> {
        set_option(&socket, libc::PACKET_RX_RING, request)?;
        let memory = Mapping::of_socket(&socket, ring_bytes, 0)?;
        let ring = Self { socket, memory };
        promiscuous(&ring.socket, interface_index)?;
        // Bound last: an unbound socket receives nothing, so no frame arrives before all options are set.
        bind(&ring.socket, interface_index, ETH_P_ALL)?;
        Ok(ring)
    }

    /// The socket, for sending.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn socket(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// The first byte of the ring.
    pub(crate) fn memory(&self) -> NonNull<u8> {
        self.memory.start()
    }

    /// Frames that found the ring full, since the last call.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn take_drops(&self) -> io::Result<u64> {
        // SAFETY: an all-zero tpacket_stats is a valid value of a plain C structure.
        let mut stats: libc::tpacket_stats = unsafe { std::mem::zeroed() };
        // `tpacket_stats_v3` begins with the same members; the kernel writes no more than fits.
        get_option_at(
            &self.socket,
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            &mut stats,
        )?;
        Ok(u64::from(stats.tp_drops))
    }

    /// The pending error of the socket, which this call clears; `ENETDOWN` when the interface went down or away.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        take_error(&self.socket)
    }
}

impl AsRawFd for PacketRing {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
