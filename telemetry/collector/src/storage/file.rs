// SPDX-License-Identifier: Apache-2.0
//! One Parquet file, named `….partial` until it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use nix::fcntl::{Flock, FlockArg};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::error::{Kept, StorageError};
use super::journal::{self, Journal, created_by};
use super::names::{partial_name, rename_whole};

/// The key of a file's metadata that holds the accounts.
pub(super) const ACCOUNTING_KEY: &str = "weir.accounting";
/// A row group is written when it has [`Format::row_group_rows`] rows, or this many bytes: a bound on memory for jumbo
/// frames.
const ROW_GROUP_BYTES: usize = 64 << 20;
/// A row group is also written when its first rows have waited this long. Longer than the interval of hand-overs, so that
/// a slow stream does not make thousands of row groups.
const ROW_GROUP_AGE: Duration = Duration::from_secs(60);
/// Level of zstd for packets: the collector must keep up. Level 1 takes more than twice the time, for files that are
/// 1 % (payload that does not compress) to 11 % (a run's) smaller.
const PACKETS_LEVEL: i32 = -3;

/// Schema, encodings and metadata of all files of a collector.
#[derive(Debug, Clone)]
pub(crate) struct Format {
    /// The columns.
    pub(crate) schema: SchemaRef,
    /// Those whose next value is close: their differences are stored.
    pub(crate) counting: &'static [&'static str],
    /// Those with long runs of one value: plain and compressed, because a dictionary would look up each value.
    pub(crate) steady: &'static [&'static str],
    /// Those whose minimum and maximum are of no use.
    pub(crate) unordered: &'static [&'static str],
    /// The one with most of a file's bytes.
    pub(crate) packets: &'static str,
    /// The metadata that is known before the first report.
    pub(crate) key_values: Vec<KeyValue>,
    /// Rows of a full row group.
    pub(crate) row_group_rows: usize,
}

/// The file being written.
#[derive(Debug)]
pub(super) struct ParquetFile {
    target: PathBuf,
    partial: PathBuf,
    writer: ArrowWriter<Sink>,
    /// A second handle, for use after the writer has failed. Locked, so that no other collector recovers the file.
    file: Flock<File>,
    journal: Journal,
    /// End offset of the last whole row group.
    whole_bytes: u64,
    rows: u64,
    format: Format,
    waiting: Vec<RecordBatch>,
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
    pub(super) fn write(&mut self, batch: RecordBatch, accounts: &str) -> Result<(), ParquetError> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let size =
            |of: fn(&RecordBatch) -> usize| self.waiting.iter().chain([&batch]).map(of).sum();
        let rows: usize = size(RecordBatch::num_rows);
        let bytes: usize = size(RecordBatch::get_array_memory_size);
        let full = rows >= self.format.row_group_rows || bytes >= ROW_GROUP_BYTES;
        if !full && since.elapsed() < ROW_GROUP_AGE {
            let key_values = self.key_values_with(accounts);
            if self.journal.note_rows(&batch, key_values).is_ok() {
                self.waiting.push(batch);
                return Ok(());
            }
            // The disk may be full. As a row group the rows need less space than the journal frees.
            self.journal.clear_rows()?;
        }
        self.waiting.push(batch);
        self.write_row_group(accounts)
    }

    /// Writes the waiting rows as a row group and flushes it to the file.
    fn write_row_group(&mut self, accounts: &str) -> Result<(), ParquetError> {
        let mut rows = 0;
        for batch in &self.waiting {
            self.writer.write(batch)?;
            rows += batch.num_rows() as u64;
        }
        self.writer.flush()?;
        self.writer.sync()?;
        self.whole_bytes = self.file.stream_position()?;
        self.rows += rows;
        self.waiting.clear();
        self.waiting_since = None;
        if let Some(group) = self.writer.flushed_row_groups().last().cloned() {
            let key_values = self.key_values_with(accounts);
            self.journal
                .note_group(self.whole_bytes, group, key_values)?;
        }
        Ok(())
    }

    /// Writes the waiting rows and the footer, and renames the file; returns its number of rows.
    pub(super) fn finish(mut self, accounts: &str) -> Result<u64, StorageError> {
        match self.try_finish(accounts) {
            Ok(()) => {
                self.rename()?;
                self.journal.remove();
                Ok(self.rows)
            }
            Err(error) => Err(self.rescue(error).0),
        }
    }

    fn try_finish(&mut self, accounts: &str) -> Result<(), ParquetError> {
        if !self.waiting.is_empty() {
            self.write_row_group(accounts)?;
        }
        self.format.key_values = self.key_values_with(accounts);
        let accounts = KeyValue::new(ACCOUNTING_KEY.to_owned(), accounts.to_owned());
        self.writer.append_key_value_metadata(accounts);
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

    fn key_values_with(&self, accounts: &str) -> Vec<KeyValue> {
        let accounts = KeyValue::new(ACCOUNTING_KEY.to_owned(), accounts.to_owned());
        self.format
            .key_values
            .iter()
            .cloned()
            .chain([accounts])
            .collect()
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

fn open_writer(sink: Sink, format: &Format) -> Result<ArrowWriter<Sink>, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_column_compression(
            format.packets.into(),
            Compression::ZSTD(ZstdLevel::try_new(PACKETS_LEVEL)?),
        )
        .set_column_dictionary_enabled(format.packets.into(), false)
        // Only the limit in bytes applies.
        .set_data_page_row_count_limit(usize::MAX)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(created_by())
        .set_key_value_metadata(Some(format.key_values.clone()));
    for column in format.unordered {
        properties =
            properties.set_column_statistics_enabled((*column).into(), EnabledStatistics::None);
    }
    for column in format.counting {
        properties = properties
            .set_column_dictionary_enabled((*column).into(), false)
            .set_column_encoding((*column).into(), Encoding::DELTA_BINARY_PACKED);
    }
    for column in format.steady {
        properties = properties.set_column_dictionary_enabled((*column).into(), false);
    }
    // Parquet's own types suffice; with an embedded Arrow schema, pyarrow would not show the key-values.
    let options = ArrowWriterOptions::new()
        .with_properties(properties.build())
        .with_skip_arrow_metadata(true);
    ArrowWriter::try_new_with_options(sink, SchemaRef::clone(&format.schema), options)
}
