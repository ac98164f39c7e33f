// SPDX-License-Identifier: Apache-2.0
//! The storage thread: compression and disk must not stop the source.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::error::StorageError;
use super::file::{Format, ParquetFile};
use super::parts::Parts;
use super::recover::recover_all;
use crate::rows::Batch;

/// Batches that may wait, enough for a disk that pauses for seconds. They bound memory: when the queue is full, the source
/// waits, and the kernel counts the datagrams that do not fit into its buffer.
const WAITING_BATCHES: usize = 8;
/// How long to wait for rows when no file has to end because of its age.
const LONG: Duration = Duration::from_secs(3600);

/// The storage has failed; [`Writer::finish`] returns the cause.
#[derive(Debug)]
pub(crate) struct Stopped;

/// Counts of what is stored.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// Rows that survive the process.
    pub(crate) rows: AtomicU64,
    /// Bytes of whole row groups.
    pub(crate) bytes: AtomicU64,
    /// Files that are whole.
    pub(crate) files: AtomicU64,
}

/// An order to the storage thread.
enum Order {
    /// Write these rows; the accounts up to them.
    Rows(Box<Batch>, String),
    /// Finish the file, with these accounts, and exit.
    Finish(String),
}

/// Files, one after the other.
pub(crate) struct Storage {
    parts: Parts,
    format: Format,
    /// `None` between one file and the first row of the next.
    file: Option<ParquetFile>,
    stored: Arc<Stored>,
    /// Rows in files that are whole.
    whole_rows: u64,
}

impl Storage {
    /// Recovers the files of earlier collectors (a line for each goes to `say`), then creates the first file.
    pub(crate) fn open(
        parts: Parts,
        format: Format,
        mut say: impl FnMut(&str),
    ) -> Result<Self, StorageError> {
        for recovered in recover_all(&parts)? {
            say(&recovered.to_string());
        }
        let mut storage = Self {
            parts,
            format,
            file: None,
            stored: Arc::default(),
            whole_rows: 0,
        };
        storage.file = Some(storage.next_file()?);
        Ok(storage)
    }

    /// Gives up a file that has no rows, so that the name is free again.
    pub(crate) fn abandon(self) {
        if let Some(file) = self.file {
            file.abandon();
        }
    }

    fn next_file(&mut self) -> Result<ParquetFile, StorageError> {
        ParquetFile::create(&self.parts.next(), &self.format)
    }

    fn write(&mut self, batch: Batch, accounts: &str) -> Result<(), StorageError> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.next_file()?,
        };
        let (rows, before) = (batch.len() as u64, file.extent().0);
        if let Err(error) = file.write(batch, accounts) {
            let (error, kept) = file.rescue(error);
            self.whole_rows += kept;
            return Err(error);
        }
        let (bytes, row_groups, age) = file.extent();
        self.stored.rows.fetch_add(rows, Ordering::Relaxed);
        self.stored
            .bytes
            .fetch_add(bytes - before, Ordering::Relaxed);
        self.file = Some(file);
        if self.parts.is_due(bytes, row_groups, age) {
            self.end_file(accounts)?;
        }
        Ok(())
    }

    fn end_file(&mut self, accounts: &str) -> Result<(), StorageError> {
        if let Some(file) = self.file.take() {
            self.whole_rows += file.finish(Some(accounts))?;
            self.stored.files.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How long the file may stay open; a file without rows may stay open for ever.
    fn patience(&self) -> Duration {
        let open = self.file.as_ref().filter(|file| file.has_rows());
        match (self.parts.age(), open) {
            (Some(age), Some(file)) => age.saturating_sub(file.extent().2),
            _ => LONG,
        }
    }

    fn work(&mut self, orders: &Receiver<Order>) -> Result<(), StorageError> {
        let mut last_accounts = String::new();
        loop {
            match orders.recv_timeout(self.patience()) {
                Ok(Order::Rows(batch, accounts)) => {
                    self.write(*batch, &accounts)?;
                    last_accounts = accounts;
                }
                Ok(Order::Finish(accounts)) => return self.end_file(&accounts),
                Err(RecvTimeoutError::Timeout) => {
                    if self.patience().is_zero() {
                        self.end_file(&last_accounts)?;
                    }
                }
                // The collector failed before it had final accounts; the file stays partial.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }
}

/// Handle of the storage thread.
#[derive(Debug)]
pub(crate) struct Writer {
    orders: SyncSender<Order>,
    stored: Arc<Stored>,
    thread: JoinHandle<(Result<(), StorageError>, u64)>,
}

impl Writer {
    /// Starts the thread with `storage`.
    pub(crate) fn start(mut storage: Storage) -> io::Result<Self> {
        let (orders, incoming) = sync_channel(WAITING_BATCHES);
        let stored = Arc::clone(&storage.stored);
        let work = move || {
            let result = storage.work(&incoming);
            (result, storage.whole_rows)
        };
        let thread = thread::Builder::new()
            .name("storage".to_owned())
            .spawn(work)?;
        Ok(Self {
            orders,
            stored,
            thread,
        })
    }

    /// Counts of what is stored so far.
    pub(crate) fn stored(&self) -> Arc<Stored> {
        Arc::clone(&self.stored)
    }

    /// Hands over a batch; blocks while the queue is full.
    pub(crate) fn write(&self, batch: Batch, accounts: String) -> Result<(), Stopped> {
        self.orders
            .send(Order::Rows(Box::new(batch), accounts))
            .map_err(|_| Stopped)
    }

    /// Whether the storage has failed.
    pub(crate) fn has_stopped(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the file, with `accounts` in its metadata; also returns the number of rows in whole files.
    pub(crate) fn finish(self, accounts: String) -> (Result<(), StorageError>, u64) {
        // If the thread has exited already, its result is the answer.
        let _ = self.orders.send(Order::Finish(accounts));
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
