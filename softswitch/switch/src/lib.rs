// SPDX-License-Identifier: Apache-2.0
//! The embedded switch around the dataplane: ports, time, P4Runtime.
//!
//! The path of a frame: [`weir_ports`] (packet ring) → [`weir_engine`] (the dataplane thread, the dataplane with its
//! P4Runtime view) → [`weir_ports`]. The path of a request: [`service`] (gRPC) → [`weir_engine`].
//! [`run`](mod@run) assembles the parts from the command line ([`cli`], [`wire`]); [`links`] reads and changes links,
//! [`stats`] writes the counters, [`stderr`] the log. [`bmv2`] takes bmv2's command line. [`virtual_time`] runs the same node and service without interfaces, threads or a clock.

pub mod bmv2;
pub mod cli;
mod jit;
mod line_queue;
pub mod links;
mod prepared;
pub mod run;
pub mod service;
pub mod stats;
pub mod stderr;
pub mod tls;
pub mod units;
pub mod virtual_time;
pub mod wire;
