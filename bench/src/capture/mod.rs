// SPDX-License-Identifier: Apache-2.0
//! Generates a capture of many TCP connections with losses, from a seed and with the true counts.
//!
//! - `connection`: one connection: a sender with SACK and RACK, a path that drops, a receiver with delayed ACKs
//! - `frame`: its segments as captured bytes
//! - `source`: many connections in order of time

mod connection;
mod frame;
mod source;

pub use frame::FileWriter;
pub use source::{Made, Source};
