// SPDX-License-Identifier: Apache-2.0
//! One Parquet file, named `….partial` until it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::fcntl::{Flock, FlockArg};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::writer::SerializedFileWriter;

use super::error::{Kept, StorageError};
use super::journal::{self, Journal};
use super::names::{partial_name, rename_whole};
use crate::columns;
use crate::rows::Batch;

/// The key of a file's metadata that holds the accounts.
const ACCOUNTING_KEY: &str = "weir.accounting";
/// A row group is written when it has [`Format::row_group_rows`] rows, or this many bytes: a bound on memory for jumbo
/// frames.
const ROW_GROUP_BYTES: usize = 64 << 20;
/// A row group is also written when its first rows have waited this long. Longer than the interval of hand-overs, so that
/// a slow stream does not make thousands of row groups.
const ROW_GROUP_AGE: Duration = Duration::from_secs(60);
/// The properties that all files of a collector share.
#[derive(Debug, Clone)]
pub(crate) struct Format {
    /// The metadata that is known before the first report.
    pub(crate) key_values: Vec<KeyValue>,
    /// Rows of a full row group.
    pub(crate) row_group_rows: usize,
}

/// The file being written.
pub(super) struct ParquetFile {
    target: PathBuf,
    partial: PathBuf,
    writer: SerializedFileWriter<Sink>,
    /// A second handle, for use after the writer has failed. Locked, so that no other collector recovers the file.
    file: Flock<File>,
    journal: Journal,
    /// End offset of the last whole row group.
    whole_bytes: u64,
    rows: u64,
    format: Format,
    waiting: Vec<Batch>,
    waiting_since: Option<Instant>,
    opened: Instant,
}

impl ParquetFile {
    /// Creates the file under its partial name.
    pub(super) fn create(target: &Path, format: &Format) -> Result<Self, StorageError> {
        let partial = partial_name(target);
        if target.exists() {
            return Err(StorageError::Exists {
                path: target.to_owned(),
                hint: "give another --output or move it away",
            });
        }
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&partial);
        let failed = |source| StorageError::Create {
            path: partial.clone(),
            source,
        };
        let file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => StorageError::Exists {
                path: partial.clone(),
                hint: "another collector is writing it, or it is no collector's; give another --output or move it away",
            },
            _ => failed(source),
        })?;
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| failed(errno.into()))?;
        let sink = Sink {
            file: file.try_clone().map_err(failed)?,
            closed: false,
        };
        let writer = open_writer(sink, format).map_err(|error| failed(io::Error::other(error)))?;
        Ok(Self {
            target: target.to_owned(),
            journal: Journal::create(target).map_err(failed)?,
            partial,
            writer,
            file,
            whole_bytes: 0,
            rows: 0,
            format: format.clone(),
            waiting: Vec::new(),
            waiting_since: None,
            opened: Instant::now(),
        })
    }

    /// Writes rows to the file or to its journal: when this returns, they survive the process. `accounts` are those up to
    /// these rows.
    pub(super) fn write(&mut self, batch: Batch, accounts: &str) -> Result<(), ParquetError> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let size = |of: fn(&Batch) -> usize| self.waiting.iter().chain([&batch]).map(of).sum();
        let rows: usize = size(Batch::len);
        let bytes: usize = size(Batch::bytes);
        let full = rows >= self.format.row_group_rows || bytes >= ROW_GROUP_BYTES;
        if !full && since.elapsed() < ROW_GROUP_AGE {
            let key_values = self.key_values_with(Some(accounts));
            if self.journal.note_rows(&batch, &key_values).is_ok() {
                self.waiting.push(batch);
                return Ok(());
            }
            // The disk may be full. As a row group the rows need less space than the journal frees.
            self.journal.clear_rows()?;
        }
        self.waiting.push(batch);
        self.write_row_group(Some(accounts))
    }

    /// Writes the waiting rows as a row group and flushes it to the file.
    fn write_row_group(&mut self, accounts: Option<&str>) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        columns::write(&mut group, &self.waiting)?;
        group.close()?;
        self.waiting.clear();
        self.waiting_since = None;
        self.flush(accounts)
    }

    /// Appends row groups of another Parquet file, whose bytes are `file`.
    pub(super) fn append(
        &mut self,
        row_groups: &[RowGroupMetaData],
        file: &Bytes,
    ) -> Result<(), ParquetError> {
        for row_group in row_groups {
            let mut group = self.writer.next_row_group()?;
            for column in row_group.columns() {
                let written = ColumnCloseResult {
                    bytes_written: u64::try_from(column.compressed_size()).unwrap_or(0),
                    rows_written: u64::try_from(row_group.num_rows()).unwrap_or(0),
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                group.append_column(file, written)?;
            }
            group.close()?;
            self.flush(None)?;
        }
        Ok(())
    }

    /// Flushes the last row group to the file, and notes it in the journal.
    fn flush(&mut self, accounts: Option<&str>) -> Result<(), ParquetError> {
        self.writer.flush()?;
        self.whole_bytes = self.file.stream_position()?;
        if let Some(group) = self.writer.flushed_row_groups().last().cloned() {
            self.rows += u64::try_from(group.num_rows()).unwrap_or(0);
            let key_values = self.key_values_with(accounts);
            self.journal
                .note_group(self.whole_bytes, group, key_values)?;
        }
        Ok(())
    }

    /// Writes the waiting rows and the footer, and renames the file; returns its number of rows.
    pub(super) fn finish(mut self, accounts: Option<&str>) -> Result<u64, StorageError> {
        match self.try_finish(accounts) {
            Ok(()) => {
                self.rename()?;
                self.journal.remove();
                Ok(self.rows)
            }
            Err(error) => Err(self.rescue(error).0),
        }
    }

    fn try_finish(&mut self, accounts: Option<&str>) -> Result<(), ParquetError> {
        if !self.waiting.is_empty() {
            self.write_row_group(accounts)?;
        }
        self.format.key_values = self.key_values_with(accounts);
        if let Some(accounts) = accounts {
            self.writer.append_key_value_metadata(accounted(accounts));
        }
        self.writer.finish()?;
        Ok(self.file.sync_all()?)
    }

    /// After a failed write: truncates the file after its last whole row group and writes a footer. Also returns the number
    /// of rows that are whole.
    pub(super) fn rescue(mut self, cause: ParquetError) -> (StorageError, u64) {
        // The writer still holds bytes of the failed row group and would write them when dropped.
        self.writer.inner_mut().closed = true;
        let (kept, rows) = match self.close_behind_whole() {
            Ok(rows) if self.rename().is_ok() => {
                self.journal.remove();
                (Kept::Rows(rows), rows)
            }
            _ => (Kept::Partial(self.partial), 0),
        };
        let error = StorageError::Write {
            path: self.target,
            source: cause,
            kept,
        };
        (error, rows)
    }

    /// Gives up a file that has no rows, so that the name is free again.
    pub(super) fn abandon(mut self) {
        self.writer.inner_mut().closed = true;
        // If it cannot be removed, the error of the start is the one to report.
        let _ = fs::remove_file(&self.partial);
        self.journal.remove();
    }

    /// End offset of its last whole row group, number of row groups, and time since it was created.
    pub(super) fn extent(&self) -> (u64, usize, Duration) {
        let row_groups = self.writer.flushed_row_groups().len();
        (self.whole_bytes, row_groups, self.opened.elapsed())
    }

    /// Whether it has rows, written or waiting.
    pub(super) fn has_rows(&self) -> bool {
        self.rows > 0 || !self.waiting.is_empty()
    }

    fn key_values_with(&self, accounts: Option<&str>) -> Vec<KeyValue> {
        let known = self.format.key_values.iter().cloned();
        known.chain(accounts.map(accounted)).collect()
    }

    /// Closes the file after as many whole row groups as leave space for the footer; returns the rows in them.
    fn close_behind_whole(&mut self) -> Result<u64, ParquetError> {
        // The footer may need the journal's space.
        self.journal.clear_rows()?;
        let row_groups = self.writer.flushed_row_groups();
        let mut row_groups = row_groups.get(..).unwrap_or_default().to_vec();
        let mut end = self.whole_bytes;
        loop {
            let (footer, rows) =
                journal::footer(row_groups.clone(), self.format.key_values.clone())?;
            self.file.set_len(end)?;
            self.file.seek(SeekFrom::Start(end))?;
            let written = self.file.write_all(&footer);
            match written.and_then(|()| self.file.sync_all()) {
                Ok(()) => return Ok(rows),
                Err(error) => match row_groups.pop() {
                    Some(last) if !row_groups.is_empty() => end = last.column(0).byte_range().0,
                    _ => return Err(error.into()),
                },
            }
        }
    }

    fn rename(&self) -> Result<(), StorageError> {
        rename_whole(&self.partial, &self.target).map_err(|source| StorageError::Rename {
            from: self.partial.clone(),
            to: self.target.clone(),
            source,
        })
    }
}

/// The file as the Parquet writer sees it.
#[derive(Debug)]
struct Sink {
    file: File,
    /// Set when the writer must not write to the file any more.
    closed: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            Ok(bytes.len())
        } else {
            self.file.write(bytes)
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.closed {
            Ok(())
        } else {
            self.file.flush()
        }
    }
}

fn open_writer(sink: Sink, format: &Format) -> Result<SerializedFileWriter<Sink>, ParquetError> {
    let properties = columns::compact(&format.key_values)?;
    SerializedFileWriter::new(sink, columns::schema()?, properties.into())
}

fn accounted(accounts: &str) -> KeyValue {
    KeyValue::new(ACCOUNTING_KEY.to_owned(), accounts.to_owned())
}
