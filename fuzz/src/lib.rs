// SPDX-License-Identifier: Apache-2.0
//! What the fuzzer runs: one function for each [`Target`], from bytes to what it found wrong. `fuzz.rs` gives them to
//! libFuzzer. `choices.rs` says how an input's bytes become programs, packets and requests; read it first.

mod bmv2;
mod bytes;
mod capture_file;
mod captures;
mod choices;
mod corpus;
mod cost;
mod datagrams;
mod differential;
mod grammar;
mod inference;
mod links;
mod messages;
mod packets;
mod programs;
mod requests;
mod segments;
mod target;
mod thrift;

pub use choices::Choices;
pub use target::Target;
