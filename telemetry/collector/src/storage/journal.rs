// SPDX-License-Identifier: Apache-2.0
//! The journal, from which a partial file is made whole after `kill -9`. It has two files beside the partial one:
//!
//! - `….journal`: for each row group a Parquet footer for it alone, and its end offset in the partial file;
//! - `….rows`: the rows that wait for the next row group, each batch a Parquet file; emptied after each group.
//!
//! Both are sequences of segments: two 64-bit numbers (offset or group, then length) and that many bytes. If the kill cut
//! a segment, it is the last one, and it is ignored. Written bytes survive the process, but not a power failure.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter,
    RowGroupMetaData,
};

use super::names::suffixed;
use crate::columns::{self, created_by};
use crate::rows::Batch;

const SEGMENT_HEAD_BYTES: usize = 16;
/// The length of the footer and the magic, after the metadata.
const FOOTER_TAIL_BYTES: usize = 8;

/// The two files beside a partial one.
#[derive(Debug)]
pub(super) struct Journal {
    target: PathBuf,
    groups: File,
    rows: File,
    row_groups: u64,
}

/// A footer for these row groups, and their number of rows. As bytes, because the Parquet writer does not report a short
/// write.
pub(super) fn footer(
    row_groups: Vec<RowGroupMetaData>,
    key_values: Vec<KeyValue>,
) -> Result<(Vec<u8>, u64), ParquetError> {
    let Some(first) = row_groups.first() else {
        return Err(ParquetError::General("no row group is whole".to_owned()));
    };
    let rows = row_groups.iter().map(RowGroupMetaData::num_rows).sum();
    let descriptor = first.schema_descr_ptr();
    let about = FileMetaData::new(
        2,
        rows,
        Some(created_by()),
        Some(key_values),
        descriptor,
        None,
    );
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, &ParquetMetaData::new(about, row_groups)).finish()?;
    Ok((bytes, u64::try_from(rows).unwrap_or(0)))
}

impl Journal {
    pub(super) fn create(target: &Path) -> io::Result<Self> {
        Ok(Self {
            target: target.to_owned(),
            groups: File::create(groups_name(target))?,
            rows: File::create(rows_name(target))?,
            row_groups: 0,
        })
    }

    /// Notes a row group that is whole in the first `whole_bytes` of the partial file; the waiting rows are in it.
    pub(super) fn note_group(
        &mut self,
        whole_bytes: u64,
        group: RowGroupMetaData,
        key_values: Vec<KeyValue>,
    ) -> Result<(), ParquetError> {
        let (footer, _) = footer(vec![group], key_values)?;
        append(&mut self.groups, whole_bytes, &footer)?;
        self.row_groups += 1;
        self.clear_rows()?;
        Ok(())
    }

    /// Notes rows that wait for a row group.
    pub(super) fn note_rows(
        &mut self,
        batch: &Batch,
        key_values: &[KeyValue],
    ) -> Result<(), ParquetError> {
        let file = columns::quick_file(batch, key_values)?;
        append(&mut self.rows, self.row_groups, &file)?;
        Ok(())
    }

    /// Frees the space of the waiting rows.
    pub(super) fn clear_rows(&mut self) -> io::Result<()> {
        self.rows.set_len(0)?;
        self.rows.seek(SeekFrom::Start(0)).map(drop)
    }

    /// Removes the journal when the file is whole or abandoned.
    pub(super) fn remove(self) {
        remove(&self.target);
    }
}

/// Removes the two files, if they exist.
pub(super) fn remove(target: &Path) {
    let _ = fs::remove_file(groups_name(target));
    let _ = fs::remove_file(rows_name(target));
}

/// Whether a partial file has a journal.
pub(super) fn exists(target: &Path) -> bool {
    groups_name(target).exists()
}

/// The contents of a journal.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// End offset of the last whole row group in the partial file.
    pub(super) whole_bytes: u64,
    pub(super) row_groups: Vec<RowGroupMetaData>,
    /// Of the last row group.
    pub(super) key_values: Vec<KeyValue>,
    /// Rows that are in no row group: Parquet files.
    pub(super) waiting: Vec<Bytes>,
}

/// Reads the journal of a partial file.
pub(super) fn read(target: &Path) -> Result<Found, ParquetError> {
    let mut found = Found::default();
    for (whole_bytes, footer) in segments(&groups_name(target))? {
        let metadata = footer
            .len()
            .checked_sub(FOOTER_TAIL_BYTES)
            .and_then(|length| footer.get(..length))
            .unwrap_or_default();
        let metadata = ParquetMetaDataReader::decode_metadata(metadata)?;
        found.whole_bytes = whole_bytes;
        found.row_groups.extend_from_slice(metadata.row_groups());
        let key_values = metadata.file_metadata().key_value_metadata();
        found.key_values = key_values.cloned().unwrap_or_default();
    }
    let row_groups = found.row_groups.len() as u64;
    for (group, rows) in segments(&rows_name(target))? {
        // Rows of another group are in the file already: the kill came before they were cleared here.
        if group == row_groups {
            found.waiting.push(rows.into());
        }
    }
    Ok(found)
}

fn append(file: &mut File, number: u64, bytes: &[u8]) -> io::Result<()> {
    let mut segment = Vec::with_capacity(SEGMENT_HEAD_BYTES + bytes.len());
    segment.extend(number.to_le_bytes());
    segment.extend((bytes.len() as u64).to_le_bytes());
    segment.extend(bytes);
    file.write_all(&segment)
}

fn segments(path: &Path) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let mut rest = bytes.as_slice();
    let mut found = Vec::new();
    while let Some((head, after)) = rest.split_first_chunk::<SEGMENT_HEAD_BYTES>() {
        let [number, length] = [&head[..8], &head[8..]].map(|half| {
            let half = half.first_chunk::<8>().copied().unwrap_or_default();
            u64::from_le_bytes(half)
        });
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some((segment, after)) = after.split_at_checked(length) else {
            break;
        };
        found.push((number, segment.to_vec()));
        rest = after;
    }
    Ok(found)
}

fn groups_name(target: &Path) -> PathBuf {
    suffixed(target, ".journal")
}

fn rows_name(target: &Path) -> PathBuf {
    suffixed(target, ".rows")
}
