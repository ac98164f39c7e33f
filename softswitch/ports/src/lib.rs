// SPDX-License-Identifier: Apache-2.0
//! Ports: network interfaces, read through packet rings or AF_XDP and written through AF_XDP or packet sockets.
//!
//! Layout: [`interface`] is one port with its counters; it reopens an interface that disappeared and came back.
//! [`frame_ring`] (each frame as it arrives, for the switch) and [`block_ring`] (whole blocks, for the collector) receive
//! through what `packet_ring` opens, [`xdp`] in the driver of a card; [`sender`], [`xdp`], [`departures`] and [`queueing`] send,
//! [`send_threads`] on other cores. `card` asks a driver for its settings. [`virtio`] says
//! what the sending host left to its network card, [`checksum`] completes checksums and [`segments`] cuts long frames, [`arrivals`] merges the rings of all ports by time of
//! arrival, [`clocks`] reads the system's clocks, [`recorder`] writes capture files of a port, [`trunk`] carries the frames of ports without interfaces. Only the
//! rings, the senders, [`xdp`], `card`, [`socket`], [`clocks`], [`trunk`] and [`mapping`] (memory shared with the kernel) contain `unsafe` code.

pub mod arrivals;
pub mod block_ring;
mod card;
pub mod checksum;
pub mod clocks;
pub mod departures;
pub mod frame_ring;
pub mod interface;
pub mod mapping;
mod open_error;
mod packet_ring;
pub mod queueing;
mod receiver;
pub mod recorder;
pub mod segments;
pub mod send_threads;
pub mod sender;
pub mod socket;
pub mod tally;
pub mod trunk;
pub mod virtio;
pub mod whole;
mod whole_sender;
pub mod xdp;

pub use interface::{Counters, Interface};
pub use open_error::OpenError;
pub use packet_ring::Receive;
pub use receiver::Reception;
pub use send_threads::SendThreads;
