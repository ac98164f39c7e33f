// SPDX-License-Identifier: Apache-2.0
//! The embedded switch around the dataplane: ports, time, P4Runtime.
//!
//! A frame's way: [`weir_ports`] (packet ring) → [`engine`] (the dataplane thread) → [`node`] (dataplane with its P4Runtime
//! view) → [`engine`] → [`weir_ports`]. A request's way: [`service`] (gRPC) → [`engine`] → [`node`]. [`run`](mod@run)
//! puts them together as [`cli`] says; [`stats`] tells what was counted. [`virtual_time`] is the same node and service
//! without interfaces, threads and a clock.

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
