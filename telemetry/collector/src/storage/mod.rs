// SPDX-License-Identifier: Apache-2.0
//! Writes record batches to Parquet files. A file is named `….partial` until it is whole.
//!
//! - `file`: one file
//! - `journal`: the files beside it from which the next start recovers it after `kill -9`
//! - `recover`: that recovery
//! - `names`: a file's name while it is partial, and the rename when it is whole
//! - `parts`: the names of files, and when one ends and the next begins
//! - `writer`: the storage thread, so that compression does not stop the source

mod error;
mod file;
mod journal;
mod names;
mod parts;
mod recover;
mod writer;

pub(crate) use error::StorageError;
pub(crate) use file::Format;
pub(crate) use names::{partial_name, rename_whole};
pub(crate) use parts::{Parts, Rotation};
pub(crate) use writer::{Storage, Stored, Writer};
