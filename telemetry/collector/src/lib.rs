// SPDX-License-Identifier: Apache-2.0
//! Telemetry reports from a socket, an interface or a capture into Parquet files, and an account of each that did not
//! come.
//!
//! # Layout
//!
//! - `args`: the command line
//! - `collect`: the loop that ties source, intake and storage together, and its end
//! - `source`: datagrams in batches, with the kernel's time stamps and its count of drops
//! - `intake`: one datagram: decode, account, append
//! - [`accounting`]: sequence numbers → received, lost, reordered, duplicate. Pure
//! - `rows`: decoded reports → Arrow record batches; the schema of `telemetry.parquet`
//! - `storage`: record batches → Parquet files that are whole or named as what they are not; recovery after `kill -9`
//! - `summary`: the accounts as JSON
//! - `live`: what the reports say of each policer right now
//! - `page`, `http`, `process`: accounts and policers as Prometheus metrics
//! - `error`: [`CollectorError`], one line for each thing that can go wrong

pub mod accounting;
mod args;
mod collect;
mod error;
mod http;
mod intake;
mod live;
mod page;
mod process;
mod rows;
mod source;
mod storage;
mod summary;

pub use args::Args;
pub use collect::run;
pub use error::CollectorError;
