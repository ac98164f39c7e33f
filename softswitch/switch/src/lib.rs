// SPDX-License-Identifier: Apache-2.0
//! The embedded switch around the dataplane: ports, time, P4Runtime.
//!
//! The path of a frame: [`weir_ports`] (packet ring) → [`engine`] (the dataplane thread) → [`node`] (dataplane with its
//! P4Runtime view) → [`engine`] → [`weir_ports`]. The path of a request: [`service`] (gRPC) → [`engine`] → [`node`].
//! [`run`](mod@run) assembles the parts from the command line ([`cli`], [`wire`]); [`links`] reads and changes links,
//! [`stats`] writes the counters. [`virtual_time`] runs the same node and service without interfaces, threads or a clock.

pub mod cli;
pub mod engine;
pub mod links;
pub mod node;
pub mod run;
pub mod service;
pub mod stats;
pub mod tls;
pub mod units;
pub mod virtual_time;
pub mod wire;
