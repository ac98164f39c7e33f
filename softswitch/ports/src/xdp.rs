// SPDX-License-Identifier: Apache-2.0
//! `AF_XDP`: frames in memory that kernel and program share, without a socket buffer for each.
//!
//! [`XdpSender`] sends; it needs no more privilege than a packet socket. [`XdpReceiver`] receives all frames of an interface,
//! before the kernel's network stack sees them, and needs an XDP [`program`] in the interface's driver, which only the
//! machine's root may load. Kernel interface: `Documentation/networking/af_xdp.rst`.

mod error;
mod program;
mod queue;
mod receiver;
mod ring;
mod sender;
mod socket;
#[cfg(test)]
mod tests;

pub use error::XdpError;
pub use program::Program;
pub use receiver::{MAX_QUEUES, XdpReceiver};
pub use sender::XdpSender;
pub use socket::QUEUE_PATIENCE;
