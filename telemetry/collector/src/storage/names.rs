// SPDX-License-Identifier: Apache-2.0
//! A file's name while it is partial, and the rename when it is whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Renames a file that is whole and synced; when this returns, the new name survives a power failure.
pub(crate) fn rename_whole(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    match File::open(folder(to)).and_then(|folder| folder.sync_all()) {
        // Not every file system can sync a folder.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// The name of a file that is not whole.
pub(crate) fn partial_name(target: &Path) -> PathBuf {
    suffixed(target, ".partial")
}

/// The name of a file beside `target`.
pub(super) fn suffixed(target: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(target);
    name.push(suffix);
    PathBuf::from(name)
}

/// The folder that a file is in.
pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
