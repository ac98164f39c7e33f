// SPDX-License-Identifier: Apache-2.0
//! The error of an input file, with the offset in the file where there is one.

use std::io;
use std::path::{Path, PathBuf};

/// An input file that cannot be read as what it should be.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}{problem}; valid is {valid}", path.display(), place(*offset))]
pub struct CaptureError {
    /// The file.
    pub path: PathBuf,
    /// Offset in the file, in bytes; none if the whole file is meant.
    pub offset: Option<u64>,
    /// The problem found there.
    pub problem: String,
    /// The valid values there.
    pub valid: &'static str,
}

impl CaptureError {
    /// An error at byte `offset` of the file.
    pub fn new(path: &Path, offset: u64, problem: impl Into<String>, valid: &'static str) -> Self {
        Self {
            offset: Some(offset),
            ..Self::of_file(path, problem, valid)
        }
    }

    /// An error of the file as a whole.
    pub fn of_file(path: &Path, problem: impl Into<String>, valid: &'static str) -> Self {
        Self {
            path: path.to_path_buf(),
            offset: None,
            problem: problem.into(),
            valid,
        }
    }

    /// A file that cannot be opened.
    #[must_use]
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        let text = error.to_string();
        let problem = text.split(" (os error").next().unwrap_or_default();
        Self::of_file(path, problem, "a readable capture")
    }
}

fn place(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!("byte {offset}: "))
}
