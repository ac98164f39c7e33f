// SPDX-License-Identifier: Apache-2.0
//! Telemetry reports from a UDP socket into one Parquet file, and an account of each that did not come.
//!
//! # Layout
//!
//! - `args`: the command line
//! - `collect`: the loop that ties socket, accounting and storage together, and its end
//! - `socket`: datagrams in batches, with the kernel's time stamps and its count of drops
//! - `intake`: one datagram: decode, account, append
//! - [`accounting`]: sequence numbers → received, lost, reordered, duplicate. Pure
//! - `rows`: decoded reports → Arrow record batches; the schema of `telemetry.parquet`
//! - `storage`: record batches → a Parquet file that is whole or named as what it is not
//! - `writer`: storage on a thread of its own, so that compression does not stop the socket
//! - `summary`: the accounts as JSON
//! - `error`: [`CollectorError`], one line for each thing that can go wrong

pub mod accounting;
mod args;
mod collect;
mod error;
mod intake;
mod rows;
mod socket;
mod storage;
mod summary;
mod writer;

pub use args::Args;
pub use collect::run;
pub use error::CollectorError;
