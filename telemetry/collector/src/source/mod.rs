// SPDX-License-Identifier: Apache-2.0
//! Where datagrams come from: a UDP socket, an interface, or a capture.

mod batch;
mod capture;
mod frame;
mod interface;
mod socket;

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::args::Args;
use crate::error::CollectorError;
pub(crate) use batch::unix_ns;
use capture::CaptureSource;
use interface::InterfaceSource;
use socket::ReportSocket;

/// One datagram that may hold reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram<'a> {
    /// UDP payload.
    pub(crate) payload: &'a [u8],
    /// Whether the payload was longer than what is kept of it.
    pub(crate) cut: bool,
    /// When the kernel got it, Unix time.
    pub(crate) received_ns: i64,
    /// Who sent it.
    pub(crate) sender: Option<SocketAddr>,
    /// Where it went to: the socket's own address and port, or what the frame says.
    pub(crate) destination: SocketAddr,
}

/// What one look at a source gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// Nothing now.
    Nothing,
    /// Datagrams, the last of which came at this Unix time.
    Until(i64),
    /// Nothing, and nothing will come.
    End,
}

/// Where datagrams come from.
#[derive(Debug)]
pub(crate) enum Source {
    Socket(Box<ReportSocket>),
    Interface(InterfaceSource),
    Capture(Box<CaptureSource>),
}

impl Source {
    /// Opens what the command line asks for.
    pub(crate) fn open(args: &Args) -> Result<Self, CollectorError> {
        let bytes = args.receive_buffer;
        if let Some(name) = &args.from.interface {
            let source = InterfaceSource::open(name, args.port, bytes)?;
            return Ok(Self::Interface(source));
        }
        if let Some(path) = &args.from.read {
            let source = CaptureSource::open(path, args.port)?;
            return Ok(Self::Capture(Box::new(source)));
        }
        let address = args
            .from
            .listen
            .unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], args.port)));
        Ok(Self::Socket(Box::new(ReportSocket::bind(address, bytes)?)))
    }

    /// Gives what there is, up to some bound, to `take_in`.
    pub(crate) fn receive(
        &mut self,
        mut take_in: impl FnMut(&Datagram<'_>),
    ) -> Result<Received, CollectorError> {
        match self {
            Self::Socket(socket) => socket.receive(take_in),
            Self::Interface(interface) => Ok(interface.receive(&mut take_in)),
            Self::Capture(capture) => capture.receive(&mut take_in),
        }
    }

    /// What to wait for before the next look; `None` where there is always something.
    pub(crate) fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Socket(socket) => Some(socket.as_fd()),
            Self::Interface(interface) => Some(interface.as_fd()),
            Self::Capture(_) => None,
        }
    }

    /// Whether reports can still come. To be asked after an error was seen where [`Self::waits_for`] says, and now and
    /// then while nothing comes.
    pub(crate) fn check(&mut self) -> Result<(), CollectorError> {
        match self {
            Self::Interface(interface) => interface.check(),
            Self::Socket(_) | Self::Capture(_) => Ok(()),
        }
    }

    /// How long it keeps to itself what has come; `None` for one that shows all at once.
    pub(crate) const fn holds_back(&self) -> Option<Duration> {
        match self {
            Self::Interface(_) => Some(interface::HOLDS_BACK),
            Self::Socket(_) | Self::Capture(_) => None,
        }
    }

    /// Datagrams that the kernel threw away because nobody took them in time: those before the last datagram that
    /// was received, or up to the last [`Self::look_up_kernel_drops`], whichever is later.
    pub(crate) fn kernel_drops(&self) -> u64 {
        match self {
            Self::Socket(socket) => socket.kernel_drops(),
            Self::Interface(interface) => interface.kernel_drops(),
            Self::Capture(_) => 0,
        }
    }

    /// Asks the kernel for its drops up to now; the count beside a datagram is as old as that datagram.
    pub(crate) fn look_up_kernel_drops(&mut self) {
        match self {
            Self::Socket(socket) => socket.look_up_kernel_drops(),
            Self::Interface(interface) => interface.look_up_kernel_drops(),
            Self::Capture(_) => {}
        }
    }

    /// Frames that hold no UDP datagram to the port that was asked for.
    pub(crate) fn ignored(&self) -> u64 {
        match self {
            Self::Socket(_) => 0,
            Self::Interface(interface) => interface.ignored(),
            Self::Capture(capture) => capture.ignored(),
        }
    }

    /// Whether the capture ended inside a record.
    pub(crate) fn truncated(&self) -> bool {
        match self {
            Self::Socket(_) | Self::Interface(_) => false,
            Self::Capture(capture) => capture.truncated(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(socket) => write!(f, "listening on {}", socket.address()),
            Self::Interface(interface) => {
                let (name, port) = (interface.name(), interface.port());
                write!(f, "listening on interface {name}, UDP port {port}")
            }
            Self::Capture(capture) => {
                let (path, port) = (capture.path().display(), capture.port());
                write!(f, "reading {path}, UDP port {port}")
            }
        }
    }
}
