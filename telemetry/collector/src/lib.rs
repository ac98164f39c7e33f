// SPDX-License-Identifier: Apache-2.0
//! Stores telemetry reports from a socket, an interface or a capture in Parquet files, and accounts for each report that
//! did not arrive.
//!
//! # Layout
//!
//! - `args`: the command line
//! - `collect`: the main loop from source through intake to storage, and the shutdown
//! - `source`: datagrams in batches, with the kernel's time stamps and its count of drops
//! - `intake`: one datagram: decode, account, append
//! - [`accounting`]: sequence numbers → received, lost, reordered, duplicate. Pure
//! - `rows`: decoded reports, while they wait
//! - `columns`: the columns of `telemetry.parquet`, and how rows are written to them
//! - `storage`: rows → Parquet files, named `….partial` until they are whole; recovery after `kill -9`
//! - `summary`: the accounts as JSON
//! - `live`: the current state of each policer, from the reports
//! - `page`, `http`, `process`: accounts and policers as Prometheus metrics
//! - `error`: [`CollectorError`], one line for each kind of failure

pub mod accounting;
mod args;
mod collect;
mod columns;
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
