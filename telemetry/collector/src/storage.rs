// SPDX-License-Identifier: Apache-2.0
//! One Parquet file, named `….partial` until it is whole.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

/// What can go wrong with the Parquet file.
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
    /// A row group could not be written. What was written before it is safe, if `kept` says so.
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
}

impl StorageError {
    /// Rows that are in a whole file all the same.
    #[must_use]
    pub const fn rows_kept(&self) -> u64 {
        match self {
            Self::Write {
                kept: Kept::Rows(rows),
                ..
            } => *rows,
            _ => 0,
        }
    }
}

/// What remains of a file that could not be written on.
#[derive(Debug)]
pub enum Kept {
    /// A whole file under its final name, with this many rows.
    Rows(u64),
    /// No whole file; the partial one stays under this name.
    Partial(PathBuf),
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "the {rows} rows before that are whole in it"),
            Self::Partial(path) => write!(f, "what was written stays in {}", path.display()),
        }
    }
}

/// The file being written.
#[derive(Debug)]
pub(crate) struct ParquetFile {
    target: PathBuf,
    partial: PathBuf,
    writer: ArrowWriter<Sink>,
    /// A second handle, for when the writer cannot be used any more.
    file: File,
    /// Where the last whole row group ends.
    whole_bytes: u64,
    key_values: Vec<KeyValue>,
}

impl ParquetFile {
    /// Creates the file under its partial name; `key_values` go into its metadata.
    pub(crate) fn create(
        target: &Path,
        schema: &SchemaRef,
        key_values: Vec<KeyValue>,
    ) -> Result<Self, StorageError> {
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
                hint: "an earlier collector did not finish it, or one is still writing; move it away",
            },
            _ => failed(source),
        })?;
        let sink = Sink {
            file: file.try_clone().map_err(failed)?,
            closed: false,
        };
        let writer = open_writer(sink, schema, key_values.clone())
            .map_err(|error| failed(io::Error::other(error)))?;
        Ok(Self {
            target: target.to_owned(),
            partial,
            writer,
            file,
            whole_bytes: 0,
            key_values,
        })
    }

    /// Writes the batch as a row group of its own, down to the file.
    pub(crate) fn write_row_group(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        self.writer.write(batch)?;
        self.writer.flush()?;
        self.writer.sync()?;
        self.whole_bytes = self.file.stream_position()?;
        Ok(())
    }

    /// Writes the footer, and gives the file its name.
    pub(crate) fn finish(mut self, key_value: KeyValue) -> Result<(), StorageError> {
        self.key_values.push(key_value.clone());
        self.writer.append_key_value_metadata(key_value);
        let finished = self.writer.finish().and_then(|_| Ok(self.file.sync_all()?));
        match finished {
            Ok(()) => self.rename(),
            Err(error) => Err(self.rescue(error)),
        }
    }

    /// After a failed write: cuts the file behind its last whole row group and writes a footer for those.
    pub(crate) fn rescue(mut self, cause: ParquetError) -> StorageError {
        // The writer still holds bytes of what failed and would write them when dropped.
        self.writer.inner_mut().closed = true;
        let kept = match self.write_footer() {
            Ok(rows) if self.rename().is_ok() => Kept::Rows(rows),
            _ => Kept::Partial(self.partial),
        };
        StorageError::Write {
            path: self.target,
            source: cause,
            kept,
        }
    }

    /// Gives up a file that has no rows, so that the name is free again.
    pub(crate) fn abandon(mut self) {
        self.writer.inner_mut().closed = true;
        // Whoever hears why the collector did not start will find the file if it stays.
        let _ = fs::remove_file(&self.partial);
    }

    fn write_footer(&mut self) -> Result<u64, ParquetError> {
        let row_groups = self.writer.flushed_row_groups().to_vec();
        let Some(first) = row_groups.first() else {
            return Err(ParquetError::General("no row group is whole".to_owned()));
        };
        let rows = row_groups
            .iter()
            .map(|row_group| row_group.num_rows())
            .sum();
        let descriptor = first.schema_descr_ptr();
        let key_values = Some(self.key_values.clone());
        let about = FileMetaData::new(2, rows, Some(created_by()), key_values, descriptor, None);
        self.file.set_len(self.whole_bytes)?;
        self.file.seek(SeekFrom::Start(self.whole_bytes))?;
        ParquetMetaDataWriter::new(&mut self.file, &ParquetMetaData::new(about, row_groups))
            .finish()?;
        self.file.sync_all()?;
        Ok(u64::try_from(rows).unwrap_or(0))
    }

    fn rename(&self) -> Result<(), StorageError> {
        fs::rename(&self.partial, &self.target).map_err(|source| StorageError::Rename {
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
    /// Set when the file is no longer the writer's.
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

/// The name of a file that is not whole.
pub(crate) fn partial_name(target: &Path) -> PathBuf {
    let mut name = OsString::from(target);
    name.push(".partial");
    PathBuf::from(name)
}

fn created_by() -> String {
    format!("weir-collector {}", env!("CARGO_PKG_VERSION"))
}

fn open_writer(
    sink: Sink,
    schema: &SchemaRef,
    key_values: Vec<KeyValue>,
) -> Result<ArrowWriter<Sink>, ParquetError> {
    let properties = WriterProperties::builder()
        // The fastest level: the collector must keep up, and inner packets compress little at any.
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_column_dictionary_enabled("inner".into(), false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(created_by())
        .set_key_value_metadata(Some(key_values))
        .build();
    // Parquet's own types say all there is; beside an embedded Arrow schema, pyarrow would not show the key-values.
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true);
    ArrowWriter::try_new_with_options(sink, SchemaRef::clone(schema), options)
}
