// SPDX-License-Identifier: Apache-2.0
//! The packets of a capture, which a thread of their own reads, decompresses and parses ahead of the inference.
//!
//! The packets come in the order of the file, so the results do not depend on the number of cores. A few batches
//! are filled in turn; memory does not grow with the file.

use std::panic;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use weir_capture::{CaptureError, CaptureReader, Source};

use crate::segment::Segment;
use crate::segment::merged::SegmentSizes;

#[cfg(test)]
mod tests;

/// Records of a batch: so many that a thread is seldom woken for them, so few that the batches fit the processor's cache.
const BATCH_RECORDS: usize = 1 << 11;
/// Batches that are ready to be used.
const BATCHES_AHEAD: usize = 2;

/// A record of a capture, or one of the segments that it consists of.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    /// Capture time.
    pub(crate) time_ns: i64,
    /// Whether its record begins with it.
    pub(crate) begins_record: bool,
    /// Whether `segment` is of this record.
    is_ip: bool,
    segment: Segment,
}

impl Packet {
    /// The headers of an IP packet; `None` of any other.
    pub(crate) fn segment(&self) -> Option<&Segment> {
        self.is_ip.then_some(&self.segment)
    }
}

/// Successive records.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Of these the first `count` are of this batch.
    packets: Vec<Packet>,
    count: usize,
}

impl Batch {
    fn new() -> Self {
        let packet = Packet {
            time_ns: 0,
            begins_record: true,
            is_ip: false,
            segment: Segment::EMPTY,
        };
        Self {
            packets: vec![packet; BATCH_RECORDS],
            count: 0,
        }
    }

    /// The records.
    pub(crate) fn packets(&self) -> &[Packet] {
        self.packets.get(..self.count).unwrap_or_default()
    }

    /// Reads the next records; false at the end of the capture.
    fn read(
        &mut self,
        reader: &mut CaptureReader<Source>,
        sizes: &mut SegmentSizes,
    ) -> Result<bool, CaptureError> {
        self.count = 0;
        while self.count < BATCH_RECORDS {
            let Some(record) = reader.next_record()? else {
                return Ok(false);
            };
            let packet = &mut self.packets[self.count];
            packet.time_ns = record.time_ns;
            packet.begins_record = true;
            packet.is_ip = packet
                .segment
                .read(record.link_type, record.bytes, record.wire_length);
            self.count += 1;
            if packet.is_ip
                && let Some(bytes) = sizes.of_merged(&packet.segment)
            {
                self.cut_last(bytes);
            }
        }
        Ok(true)
    }

    /// Replaces the last packet by its segments with so much payload.
    fn cut_last(&mut self, bytes: u32) {
        let whole = self.packets[self.count - 1].clone();
        let parts = whole.segment.payload_length.div_ceil(bytes);
        for (number, at) in (0..parts).zip(self.count - 1..) {
            let part = Packet {
                begins_record: number == 0,
                segment: whole.segment.part(number * bytes, bytes),
                ..whole
            };
            match self.packets.get_mut(at) {
                Some(packet) => *packet = part,
                None => self.packets.push(part),
            }
            self.count = at + 1;
        }
    }
}

/// A message of the reading thread.
#[derive(Debug)]
enum Message {
    Batch(Batch),
    /// After the last batch.
    End(Result<Box<End>, CaptureError>),
}

/// The end of a capture.
#[derive(Debug)]
struct End {
    reader: CaptureReader<Source>,
    sizes: SegmentSizes,
}

/// The packets of one capture.
#[derive(Debug)]
pub(crate) struct Packets {
    /// Never locked: Python requires what it keeps to be `Sync`.
    messages: Mutex<Receiver<Message>>,
    used: Sender<Batch>,
    thread: Option<JoinHandle<()>>,
    end: Option<Box<End>>,
}

impl Packets {
    /// Starts to read.
    pub(crate) fn new(reader: CaptureReader<Source>) -> Self {
        let (to_consumer, messages) = sync_channel(BATCHES_AHEAD);
        let (used, free) = channel();
        let thread = thread::spawn(move || read_all(reader, &to_consumer, &free));
        Self {
            messages: Mutex::new(messages),
            used,
            thread: Some(thread),
            end: None,
        }
    }

    /// Waits for the next batch; none at the end of the capture, and after an error.
    ///
    /// # Errors
    /// That of the reader, after all records before it.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, CaptureError> {
        let messages = self
            .messages
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        match messages.recv() {
            Ok(Message::Batch(batch)) => return Ok(Some(batch)),
            Ok(Message::End(end)) => self.end = Some(end?),
            Err(_) => {
                if let Some(Err(panicked)) = self.thread.take().map(JoinHandle::join) {
                    panic::resume_unwind(panicked);
                }
            }
        }
        Ok(None)
    }

    /// Returns a batch, to be filled again.
    pub(crate) fn reuse(&self, batch: Batch) {
        // At the end of the capture nobody needs it.
        let _ = self.used.send(batch);
    }

    /// The reader, once it is at the end of the capture.
    pub(crate) fn end(&self) -> Option<&CaptureReader<Source>> {
        self.end.as_ref().map(|end| &end.reader)
    }

    /// The number of frames that were read as several segments, at the end of the capture.
    pub(crate) fn merged(&self) -> u64 {
        self.end.as_ref().map_or(0, |end| end.sizes.merged)
    }
}

/// The loop of the thread; it also ends when the other side is gone.
fn read_all(
    mut reader: CaptureReader<Source>,
    to_consumer: &SyncSender<Message>,
    free: &Receiver<Batch>,
) {
    let mut sizes = SegmentSizes::default();
    loop {
        let mut batch = free.try_recv().unwrap_or_else(|_| Batch::new());
        let more = batch.read(&mut reader, &mut sizes);
        if to_consumer.send(Message::Batch(batch)).is_err() {
            return;
        }
        let end = match more {
            Ok(true) => continue,
            Ok(false) => Ok(Box::new(End { reader, sizes })),
            Err(error) => Err(error),
        };
        let _ = to_consumer.send(Message::End(end));
        return;
    }
}
