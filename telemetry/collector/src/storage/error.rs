// SPDX-License-Identifier: Apache-2.0
//! Errors of the Parquet files.

use std::fmt;
use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// A failure to create, write, rename or recover a Parquet file.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The file exists already.
    #[error("{} exists; {hint}", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
        /// Advice to the user.
        hint: &'static str,
    },
    /// The file could not be created.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// Rows could not be written.
    #[error("cannot write {}: {source}; {kept}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the Parquet writer or the kernel.
        source: ParquetError,
        /// The rows before it that are kept.
        kept: Kept,
    },
    /// The whole file could not be renamed.
    #[error("cannot rename {} to {}: {source}", from.display(), to.display())]
    Rename {
        /// The whole file.
        from: PathBuf,
        /// The name it should have.
        to: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The partial file of an earlier collector could not be made whole; it stays as it is.
    #[error("cannot recover {}: {source}; move it away, or fix the cause and start again", path.display())]
    Recover {
        /// The partial file.
        path: PathBuf,
        /// The error of the kernel or the Parquet reader.
        source: ParquetError,
    },
}

/// The remains of a file after a failed write.
#[derive(Debug)]
pub enum Kept {
    /// A whole file under its final name, with this many rows.
    Rows(u64),
    /// No whole file; the partial one stays under this name.
    Partial(PathBuf),
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "the {rows} rows before that are whole in it"),
            Self::Partial(path) => write!(f, "what was written stays in {}", path.display()),
        }
    }
}
