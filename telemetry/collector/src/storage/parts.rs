// SPDX-License-Identifier: Apache-2.0
//! The names of files: one for all, or numbered ones that end at a size or an age.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::names::folder;

/// Parquet numbers row groups with 16 bits; a file ends before they run out.
const MAX_ROW_GROUPS: usize = 32_000;
const DIGITS: usize = 6;
const SUFFIX: &str = ".parquet";
const PARTIAL_SUFFIX: &str = ".parquet.partial";

/// When a file ends and the next begins; by default one file holds all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rotation {
    pub(crate) bytes: Option<u64>,
    pub(crate) age: Option<Duration>,
}

/// The names of a collector's files.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    output: PathBuf,
    rotation: Rotation,
    /// Number of the next file; 1 for the first.
    number: u64,
}

impl Parts {
    /// Files named `output`, or with rotation `output` with a number, from the one after the existing files on.
    pub(crate) fn new(output: &Path, rotation: Rotation) -> Self {
        let mut parts = Self {
            output: output.to_owned(),
            rotation,
            number: 1,
        };
        if parts.rotates() {
            parts.number = parts.taken().max().unwrap_or(0) + 1;
        }
        parts
    }

    const fn rotates(&self) -> bool {
        self.rotation.bytes.is_some() || self.rotation.age.is_some()
    }

    /// The name of the next file.
    pub(super) fn next(&mut self) -> PathBuf {
        let number = self.number;
        self.number += 1;
        if self.rotates() || number > 1 {
            self.numbered(number)
        } else {
            self.output.clone()
        }
    }

    /// Whether a file of this size and age is to end now.
    pub(super) fn is_due(&self, bytes: u64, row_groups: usize, age: Duration) -> bool {
        self.rotation.bytes.is_some_and(|limit| bytes >= limit)
            || self.rotation.age.is_some_and(|limit| age >= limit)
            || row_groups >= MAX_ROW_GROUPS
    }

    /// The age at which a file ends.
    pub(super) const fn age(&self) -> Option<Duration> {
        self.rotation.age
    }

    /// The files that an earlier collector may have left unfinished.
    pub(super) fn unfinished(&self) -> Vec<PathBuf> {
        let mut found: Vec<_> = self.numbers(PARTIAL_SUFFIX).collect();
        found.sort_unstable();
        let numbered = found.into_iter().map(|number| self.numbered(number));
        [self.output.clone()].into_iter().chain(numbered).collect()
    }

    /// Numbers of the existing files, whole or not.
    fn taken(&self) -> impl Iterator<Item = u64> {
        self.numbers(SUFFIX).chain(self.numbers(PARTIAL_SUFFIX))
    }

    fn numbers(&self, suffix: &str) -> impl Iterator<Item = u64> {
        let prefix = format!("{}-", self.stem());
        let entries = fs::read_dir(folder(&self.output)).into_iter().flatten();
        entries.flatten().filter_map(move |entry| {
            let name = entry.file_name().into_string().ok()?;
            let digits = name.strip_prefix(&prefix)?.strip_suffix(suffix)?;
            (digits.len() == DIGITS)
                .then(|| digits.parse().ok())
                .flatten()
        })
    }

    fn numbered(&self, number: u64) -> PathBuf {
        let name = format!("{}-{number:0DIGITS$}{SUFFIX}", self.stem());
        self.output.with_file_name(name)
    }

    fn stem(&self) -> String {
        stem(&self.output)
    }
}

/// Free names for the files recovered from `target`, whose own name the next file may need.
pub(super) fn recovered_names(target: &Path) -> impl Iterator<Item = PathBuf> {
    let name = |number: u32| format!("{}.recovered-{number}{SUFFIX}", stem(target));
    (1..)
        .map(move |number| target.with_file_name(name(number)))
        .filter(|path| !path.exists())
}

fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or(OsStr::new("telemetry"));
    let name = name.to_string_lossy();
    name.strip_suffix(SUFFIX).unwrap_or(&name).to_owned()
}
