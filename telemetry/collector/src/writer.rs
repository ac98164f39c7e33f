// SPDX-License-Identifier: Apache-2.0
//! Storage on its own thread: compression and disk must not stop the socket.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use arrow::array::RecordBatch;
use parquet::file::metadata::KeyValue;

use crate::storage::{ParquetFile, StorageError};

/// Batches that may wait. With them memory is bounded: when storage falls behind, the socket waits, and what does
/// not fit into its buffer is counted by the kernel.
const WAITING_BATCHES: usize = 2;

/// The storage has failed; [`Writer::finish`] says why.
#[derive(Debug)]
pub(crate) struct Stopped;

/// What the storage thread is told.
enum Order {
    /// Write these rows as a row group.
    RowGroup(RecordBatch),
    /// Write the footer, with this in it, and end.
    Finish(KeyValue),
}

/// The storage thread, from outside.
#[derive(Debug)]
pub(crate) struct Writer {
    orders: SyncSender<Order>,
    thread: JoinHandle<Result<(), StorageError>>,
}

impl Writer {
    /// Hands `file` to a thread of its own.
    pub(crate) fn start(mut file: ParquetFile) -> io::Result<Self> {
        let (orders, incoming) = sync_channel(WAITING_BATCHES);
        let work = move || {
            for order in incoming {
                match order {
                    Order::RowGroup(batch) => {
                        if let Err(error) = file.write_row_group(&batch) {
                            return Err(file.rescue(error));
                        }
                    }
                    Order::Finish(key_value) => return file.finish(key_value),
                }
            }
            // The collector gave up before it knew the accounts; the file stays partial, by name and in truth.
            Ok(())
        };
        let thread = thread::Builder::new()
            .name("storage".to_owned())
            .spawn(work)?;
        Ok(Self { orders, thread })
    }

    /// Hands over a batch; waits while too many wait already.
    pub(crate) fn write(&self, batch: RecordBatch) -> Result<(), Stopped> {
        self.orders
            .send(Order::RowGroup(batch))
            .map_err(|_| Stopped)
    }

    /// Whether the storage has failed.
    pub(crate) fn has_stopped(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the file, with `key_value` in its metadata.
    pub(crate) fn finish(self, key_value: KeyValue) -> Result<(), StorageError> {
        // When the thread has ended already, its result is the answer.
        let _ = self.orders.send(Order::Finish(key_value));
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
