// SPDX-License-Identifier: Apache-2.0
//! The error of an input file, with the offset in the file.

use std::path::{Path, PathBuf};

/// An input file that cannot be read as what it should be.
#[derive(Debug, thiserror::Error)]
#[error("{}: byte {offset}: {problem}; valid is {valid}", path.display())]
pub struct CaptureError {
    /// The file.
    pub path: PathBuf,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The problem found there.
    pub problem: String,
    /// The valid values there.
    pub valid: &'static str,
}

impl CaptureError {
    /// An error at byte `offset` of the file.
    pub fn new(path: &Path, offset: u64, problem: impl Into<String>, valid: &'static str) -> Self {
        Self {
            path: path.to_path_buf(),
            offset,
            problem: problem.into(),
            valid,
        }
    }
}
