// SPDX-License-Identifier: Apache-2.0
//! A capture of many TCP connections with losses, made as fast as it is read: seeded, and with the truth about it.
//!
//! - `connection`: one connection: a sender with SACK and RACK, a path that drops, a receiver with delayed ACKs
//! - `frame`: its segments as captured bytes
//! - `source`: many connections in order of time

mod connection;
mod frame;
mod source;

pub use frame::FileWriter;
pub use source::{Made, Source};
