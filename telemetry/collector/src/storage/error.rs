// SPDX-License-Identifier: Apache-2.0
//! What can go wrong with the Parquet files.

use std::fmt;
use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// What can go wrong with a Parquet file.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A file is there already.
    #[error("{} exists; {hint}", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
        /// What to do.
        hint: &'static str,
    },
    /// The file could not be made.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// Rows could not be written. What was written before them is safe, if `kept` says so.
    #[error("cannot write {}: {source}; {kept}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the Parquet writer or the kernel says.
        source: ParquetError,
        /// What became of the rows before.
        kept: Kept,
    },
    /// The whole file could not be given its name.
    #[error("cannot rename {} to {}: {source}", from.display(), to.display())]
    Rename {
        /// The whole file.
        from: PathBuf,
        /// The name it should have.
        to: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// What an earlier collector left could not be made whole; it stays as it is.
    #[error("cannot recover {}: {source}; move it away, or mend what is wrong and start again", path.display())]
    Recover {
        /// The partial file.
        path: PathBuf,
        /// What the kernel or the Parquet reader says.
        source: ParquetError,
    },
}

/// What remains of a file that could not be written on.
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
