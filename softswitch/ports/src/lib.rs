// SPDX-License-Identifier: Apache-2.0
//! Ports: network interfaces, read through packet rings and written through packet sockets.
//!
//! Layout: [`interface`] is one port with its counters and its way back from an interface that disappeared,
//! `socket` (receiving), `sender` and `xdp` (sending) and `mapping` (memory shared with the kernel) the only places with
//! `unsafe` code, [`checksum`] completes what the sending host left to its network card, [`arrivals`] merges the
//! rings of all ports by time of arrival, [`send_threads`] are other cores that send. [`block_ring`] is for those who want many frames rather than each at once.

pub mod arrivals;
pub mod block_ring;
pub mod checksum;
pub mod interface;
pub mod mapping;
pub mod send_threads;
pub mod sender;
pub mod socket;
pub mod tally;
pub mod xdp;

pub use interface::{Counters, Interface, OpenError};
pub use send_threads::SendThreads;
