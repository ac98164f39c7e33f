// SPDX-License-Identifier: Apache-2.0
//! Record batches into Parquet files that are whole or named as what they are not.
//!
//! - `file`: one file, `….partial` until it is whole
//! - `journal`: beside it, what the next start needs after `kill -9`
//! - `recover`: that next start
//! - `parts`: the names of files, and when one ends and the next begins
//! - `writer`: all of it on a thread of its own, so that compression does not stop the source

mod error;
mod file;
mod journal;
mod parts;
mod recover;
mod writer;

pub(crate) use error::StorageError;
pub(crate) use file::{Format, partial_name, rename_whole};
pub(crate) use parts::{Parts, Rotation};
use recover::recover_all;
pub(crate) use writer::{Storage, Stored, Writer};

/// The key of a file's metadata that holds the accounts.
pub(crate) const ACCOUNTING_KEY: &str = "weir.accounting";
