// SPDX-License-Identifier: Apache-2.0
//! The UDP socket: many datagrams per system call, each with the kernel's time of arrival.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrIn6, setsockopt, sockopt,
};

use super::batch::{self, Batch};
use super::{Datagram, Received};
use crate::error::CollectorError;

/// A bound, non-blocking socket for reports.
#[derive(Debug)]
pub(crate) struct ReportSocket {
    socket: UdpSocket,
    address: SocketAddr,
    batch: Batch,
    /// The kernel counts in 32 bits; this is the count of before, and what has wrapped.
    kernel_drops: u64,
}

impl ReportSocket {
    /// Binds `address` with a receive buffer of up to `receive_buffer_bytes`.
    pub(crate) fn bind(
        address: SocketAddr,
        receive_buffer_bytes: u32,
    ) -> Result<Self, CollectorError> {
        let failed = |source| CollectorError::Listen { address, source };
        let socket = open(address, receive_buffer_bytes).map_err(|errno| failed(errno.into()))?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self {
            socket,
            address,
            batch: Batch::default(),
            kernel_drops: 0,
        })
    }

    /// The address the socket has; its port is the real one also when 0 was asked for.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives what has arrived, up to one batch, to `take_in`.
    pub(crate) fn receive(
        &mut self,
        mut take_in: impl FnMut(&Datagram<'_>),
    ) -> Result<Received, CollectorError> {
        match self.batch.receive(self.socket.as_raw_fd()) {
            Ok(_) => {
                if let Some(drops) = self.batch.kernel_drops() {
                    self.note_kernel_drops(drops);
                }
                let mut received = Received::Nothing;
                for datagram in self.batch.datagrams(self.address) {
                    take_in(&datagram);
                    received = Received::Until(datagram.received_ns);
                }
                Ok(received)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(Received::Nothing)
            }
            Err(source) => Err(CollectorError::Socket {
                what: "receive",
                address: self.address,
                source,
            }),
        }
    }

    /// Datagrams that the kernel threw away because the receive buffer was full: those before the last datagram that
    /// was received, or up to the last [`Self::look_up_kernel_drops`], whichever is later.
    pub(crate) const fn kernel_drops(&self) -> u64 {
        self.kernel_drops
    }

    /// Asks the kernel for its drops up to now; the count beside a datagram is as old as that datagram.
    pub(crate) fn look_up_kernel_drops(&mut self) {
        if let Some(drops) = batch::socket_drops(self.socket.as_raw_fd()) {
            self.note_kernel_drops(drops);
        }
    }

    fn note_kernel_drops(&mut self, counter: u32) {
        self.kernel_drops = unwrapped(self.kernel_drops, counter);
    }
}

impl AsFd for ReportSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The 64-bit count whose low half is `counter`, given the count of `before`. An older counter changes nothing.
fn unwrapped(before: u64, counter: u32) -> u64 {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the low half is what the kernel counts in"
    )]
    let step = counter.wrapping_sub(before as u32);
    if step < 1 << 31 {
        before + u64::from(step)
    } else {
        before
    }
}

fn open(address: SocketAddr, receive_buffer_bytes: u32) -> nix::Result<UdpSocket> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket::socket(family, SockType::Datagram, flags, None)?;
    // Before bind, so that no datagram arrives without its time or finds a small buffer.
    setsockopt(&fd, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&fd, sockopt::RxqOvfl, &1)?;
    let bytes = usize::try_from(receive_buffer_bytes).unwrap_or(usize::MAX);
    if setsockopt(&fd, sockopt::RcvBufForce, &bytes).is_err() {
        // Without CAP_NET_ADMIN the kernel gives what net.core.rmem_max allows; drops are counted either way.
        setsockopt(&fd, sockopt::RcvBuf, &bytes)?;
    }
    match address {
        SocketAddr::V4(address) => socket::bind(fd.as_raw_fd(), &SockaddrIn::from(address))?,
        SocketAddr::V6(address) => socket::bind(fd.as_raw_fd(), &SockaddrIn6::from(address))?,
    }
    Ok(UdpSocket::from(fd))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_kernels_counter_is_followed_across_its_wrap() {
        assert_eq!(unwrapped(0, 5), 5);
        assert_eq!(unwrapped(5, 3), 5);
        assert_eq!(unwrapped(u64::from(u32::MAX), 1), (1 << 32) + 1);
    }

    #[test]
    fn drops_of_a_full_buffer_are_counted_and_every_batch_has_times() {
        let mut socket =
            ReportSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 1 << 16).expect("bound");
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
        let sent = 3000_u64;
        let before_ns = batch::unix_ns();
        for number in 0..sent {
            sender
                .send_to(&number.to_be_bytes(), socket.address())
                .expect("sent");
        }
        // Loopback delivers within send_to, so nothing is on the way.
        let mut received = 0;
        let from = sender.local_addr().expect("bound");
        let to = socket.address();
        let mut take_in = |datagram: &Datagram<'_>| {
            received += 1;
            // Not in order: until the kernel has turned its stamps on for a first socket, which it does a
            // little later, a datagram gets the time at which it is read.
            let now_ns = batch::unix_ns();
            assert!((before_ns..=now_ns).contains(&datagram.received_ns));
            assert!(!datagram.cut && datagram.payload.len() == 8);
            assert_eq!((datagram.sender, datagram.destination), (Some(from), to));
        };
        while socket.receive(&mut take_in).expect("received") != Received::Nothing {}
        socket.look_up_kernel_drops();
        let drops = socket.kernel_drops();
        assert!(drops > 0, "the buffer held all {sent} datagrams");
        assert_eq!(received + drops, sent);
    }
}
