// SPDX-License-Identifier: Apache-2.0
//! Recovery at the start after `kill -9`: makes whole files of what an earlier collector left unfinished.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use parquet::errors::ParquetError;
use parquet::file::metadata::FileMetaData;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;

use super::error::StorageError;
use super::file::{Format, ParquetFile};
use super::journal::{self, Found};
use super::names::{partial_name, rename_whole};
use super::parts::{Parts, recovered_names};

/// The result of recovering an unfinished file.
#[derive(Debug)]
pub(crate) struct Recovered {
    target: PathBuf,
    rows: u64,
    /// Empty when no row had been written.
    files: Vec<PathBuf>,
}

impl fmt::Display for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = self.target.display();
        write!(
            f,
            "an earlier collector was killed while it wrote {target}; "
        )?;
        if self.files.is_empty() {
            return f.write_str("it had stored no report: what came in its last second is missing");
        }
        let files: Vec<_> = self
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        let (rows, files) = (self.rows, files.join(" and "));
        write!(
            f,
            "{rows} rows are whole in {files}; what came in its last second is missing"
        )
    }
}

/// Makes whole files of all that earlier collectors with the same output left unfinished.
pub(crate) fn recover_all(parts: &Parts) -> Result<Vec<Recovered>, StorageError> {
    let mut recovered = Vec::new();
    for target in parts.unfinished() {
        if partial_name(&target).exists() && journal::exists(&target) {
            recovered.extend(recover(&target)?);
        }
    }
    Ok(recovered)
}

/// `None` when the file's collector still runs.
fn recover(target: &Path) -> Result<Option<Recovered>, StorageError> {
    let partial = partial_name(target);
    let failed = |source: ParquetError| StorageError::Recover {
        path: partial.clone(),
        source,
    };
    let file = OpenOptions::new().write(true).open(&partial);
    let file = file.map_err(|error| failed(error.into()))?;
    let Ok(mut file) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
        return Ok(None);
    };
    let found = journal::read(target).map_err(failed)?;
    let mut recovered = Recovered {
        target: target.to_owned(),
        rows: 0,
        files: Vec::new(),
    };
    let mut names = recovered_names(target);
    let path = if found.row_groups.is_empty() {
        None
    } else {
        names.next()
    };
    if let Some(path) = names.next()
        && !found.waiting.is_empty()
    {
        recovered.rows += write_waiting(&path, &found)?;
        recovered.files.push(path);
    }
    match path {
        None => fs::remove_file(&partial).map_err(|error| failed(error.into()))?,
        Some(path) => {
            let footer = journal::footer(found.row_groups, found.key_values);
            let (footer, rows) = footer.map_err(failed)?;
            let whole = file
                .set_len(found.whole_bytes)
                .and_then(|()| file.seek(SeekFrom::End(0)))
                .and_then(|_| file.write_all(&footer))
                .and_then(|()| file.sync_all());
            whole.map_err(|error| failed(error.into()))?;
            recovered.rows += rows;
            rename_whole(&partial, &path).map_err(|source| StorageError::Rename {
                from: partial.clone(),
                to: path.clone(),
                source,
            })?;
            recovered.files.insert(0, path);
        }
    }
    journal::remove(target);
    Ok(Some(recovered))
}

/// Writes the rows that were in no row group to a separate file; returns their number.
fn write_waiting(path: &Path, found: &Found) -> Result<u64, StorageError> {
    let failed = |source: ParquetError| StorageError::Recover {
        path: path.to_owned(),
        source,
    };
    let waiting = found.waiting.iter().cloned().map(SerializedFileReader::new);
    let waiting = waiting.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let last = waiting.last().map(|file| file.metadata().file_metadata());
    let key_values = last.and_then(FileMetaData::key_value_metadata);
    let format = Format {
        key_values: key_values.cloned().unwrap_or_default(),
        row_group_rows: 0,
    };
    let mut file = ParquetFile::create(path, &format)?;
    for (rows, bytes) in waiting.iter().zip(&found.waiting) {
        if let Err(error) = file.append(rows.metadata().row_groups(), bytes) {
            return Err(file.rescue(error).0);
        }
    }
    file.finish(None)
}
