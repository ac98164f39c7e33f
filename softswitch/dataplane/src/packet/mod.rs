// SPDX-License-Identifier: Apache-2.0
//! A packet inside the switch: its bytes, its fields and what the program requested for it. The interpreter (`exec`)
//! and the machine code (`native`) share these types.

mod metadata;
pub(crate) mod phv;
mod pool;
mod vector;

pub(crate) use metadata::{
    EgressMetadata, EgressResult, IngressMetadata, IngressResult, Progress, Through,
};
pub(crate) use pool::Pool;
pub(crate) use vector::{FRAME_BYTES, Phv};

use crate::ports::Port;

/// Free bytes before a frame, for headers that the program adds.
const HEADROOM: usize = 256;

/// A call, so that the compiler branches and does not choose between two results.
#[cold]
#[inline(never)]
fn no_bytes() -> &'static [u8] {
    &[]
}

/// Buffer, parsed fields and pending requests of one packet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packet {
    buf: Vec<u8>,
    /// First byte of the frame as it entered this pass.
    start: usize,
    /// First byte after the parsed headers: the payload.
    pub cursor: usize,
    end: usize,
    pub phv: Phv,
    pub ingress_port: Port,
    pub egress_port: Port,
    /// Its queue at the egress port: `standard_metadata.priority`.
    pub priority: u8,
    /// It was tail-dropped and goes through egress to be reported.
    pub deflected: bool,
    /// Bytes at the start of ingress: what meters and counters count.
    pub ingress_length: u32,
    /// Bytes now, with the headers that were added and removed.
    pub length: u32,
    pub passes: u32,
    pub enqueued_ns: u64,
    /// Packets queued at its port at that time, if the program reads it.
    pub enq_qdepth: u64,
    pub exit: bool,
    /// Time at which it was received, and at which it resumes after a pause in a burst.
    pub received_ns: u64,
    /// The parser found no error.
    pub parsed: bool,
    pub progress: Progress,
    /// Numbers of the packet and of its copy in the log of paths; unused without a log.
    pub log_number: (u64, u32),
    /// Few packets have requests; this flag spares the others a look at each.
    has_requests: bool,
    requests: Requests,
}

/// Requests of the program that the switch serves at the end of a pipeline or of the deparser.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests {
    pub clone: Option<(u32, u16)>,
    pub digest: Option<u16>,
    pub resubmit: Option<u16>,
    pub recirculate: Option<u16>,
    pub truncate: Option<usize>,
}

impl Packet {
    /// Offset of the byte that tells whether it leaves the pipeline.
    pub(crate) const EXIT: usize = std::mem::offset_of!(Self, exit);
    /// Offset of the byte that tells whether it has requests.
    pub(crate) const HAS_REQUESTS: usize = std::mem::offset_of!(Self, has_requests);

    /// Index of its queue.
    pub(crate) fn queue(&self) -> usize {
        usize::from(self.priority)
    }

    /// Becomes a received frame.
    #[inline(always)]
    pub(crate) fn fill(&mut self, frame: &[u8]) {
        let end = HEADROOM + frame.len();
        // Old bytes are harmless: the headroom is written before it is read, and bytes after `end` are never read.
        if self.buf.len() < end {
            self.grow(end);
        }
        if let Some(bytes) = self.buf.get_mut(HEADROOM..end) {
            bytes.copy_from_slice(frame);
        }
        self.start = HEADROOM;
        self.cursor = HEADROOM;
        self.end = end;
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        self.ingress_length = length;
        self.length = length;
        self.priority = 0;
        self.deflected = false;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, end: usize) {
        self.buf.resize(end, 0);
    }

    /// Clears all requests and `exit`.
    pub(crate) fn clear_requests(&mut self) {
        if self.has_requests {
            self.has_requests = false;
            self.requests = Requests::default();
        }
        self.exit = false;
    }

    /// Its requests, to add one.
    pub(crate) fn request(&mut self) -> &mut Requests {
        self.has_requests = true;
        &mut self.requests
    }

    /// Its requests, if it has any.
    #[inline(always)]
    pub(crate) fn requests(&mut self) -> Option<&mut Requests> {
        self.has_requests.then_some(&mut self.requests)
    }

    /// The length limit that the program requested.
    #[inline(always)]
    pub(crate) fn truncate_bytes(&self) -> Option<usize> {
        if !self.has_requests {
            return None;
        }
        self.requests.truncate
    }

    /// Forgets the length limit that the program requested.
    pub(crate) fn keep_whole(&mut self) {
        if let Some(requests) = self.requests() {
            requests.truncate = None;
        }
    }

    /// The frame as it entered this pass.
    pub(crate) fn original(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    /// Bytes of the frame as it entered this pass.
    pub(crate) fn frame_bytes(&self) -> u64 {
        (self.end - self.start) as u64
    }

    /// The bytes after the parsed headers (or, during parsing, after the cursor).
    #[inline(always)]
    pub(crate) fn payload(&self) -> &[u8] {
        match self.buf.get(self.cursor..self.end) {
            Some(bytes) => bytes,
            None => no_bytes(),
        }
    }

    /// First byte and number of the bytes after the cursor, of which none lies outside the buffer.
    #[inline(always)]
    pub(crate) fn unparsed(&self) -> (*const u8, usize) {
        let end = self.end.min(self.buf.len());
        let start = self.cursor.min(end);
        (self.buf.as_ptr().wrapping_add(start), end - start)
    }

    /// Moves the parser's cursor to `bytes` bytes after the start of the frame, or to its end.
    #[inline(always)]
    pub(crate) fn set_parsed_bytes(&mut self, bytes: usize) {
        self.cursor = self.start + bytes.min(self.end - self.start);
    }

    /// Moves the parser's cursor back to the start of the frame.
    pub(crate) fn rewind(&mut self) {
        self.cursor = self.start;
    }

    /// Cuts the payload so that headers and payload together have at most `bytes` bytes; headers stay whole.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        let payload = self.payload().len();
        let headers = (self.length as usize).saturating_sub(payload);
        let kept = payload.min(bytes.saturating_sub(headers));
        self.end = self.cursor + kept;
        self.length = u32::try_from(headers + kept).unwrap_or(u32::MAX);
    }

    /// Bytes that the parser consumed.
    pub(crate) fn parsed_bytes(&self) -> usize {
        self.cursor - self.start
    }

    /// First byte and length of the space before the payload.
    #[inline(always)]
    pub(crate) fn headroom(&mut self) -> (*mut u8, usize) {
        (self.buf.as_mut_ptr(), self.cursor.min(self.buf.len()))
    }

    /// The last `bytes` bytes of the headroom become payload.
    pub(crate) fn extend_payload(&mut self, bytes: usize) {
        self.cursor = self.cursor.saturating_sub(bytes);
    }

    /// Moves the cursor forward; false (and no move) if the end comes first.
    pub(crate) fn advance(&mut self, bytes: usize) -> bool {
        match self.cursor.checked_add(bytes) {
            Some(cursor) if cursor <= self.end => {
                self.cursor = cursor;
                true
            }
            _ => false,
        }
    }

    /// Copies the next `bytes` bytes to offset `at` of the PHV; false (and nothing done) if the end comes first.
    #[inline(always)]
    pub(crate) fn extract(&mut self, at: usize, bytes: usize) -> bool {
        let end = self.cursor + bytes;
        if end > self.end {
            return false;
        }
        if let (Some(from), Some(to)) = (
            self.buf.get(self.cursor..end),
            self.phv.get_mut(at..at + bytes),
        ) {
            to.copy_from_slice(from);
        }
        self.cursor = end;
        true
    }

    /// Bytes that the parser just consumed, and the PHV that they are copied to.
    pub(crate) fn extracted(&mut self, at: usize, bytes: usize) -> (&[u8], &mut [u8]) {
        (
            self.buf.get(at..at + bytes).unwrap_or_default(),
            &mut self.phv,
        )
    }

    /// Copies `bytes` bytes of the PHV to right before the payload and makes them part of it.
    #[inline]
    pub(crate) fn prepend(&mut self, at: usize, bytes: usize) {
        if self.cursor < bytes {
            self.make_room(bytes);
        }
        let start = self.cursor - bytes;
        if let (Some(to), Some(from)) = (
            self.buf.get_mut(start..self.cursor),
            self.phv.get(at..at + bytes),
        ) {
            to.copy_from_slice(from);
        }
        self.cursor = start;
    }

    #[cold]
    fn make_room(&mut self, bytes: usize) {
        let shift = bytes - self.cursor + HEADROOM;
        self.buf.resize(self.end + shift, 0);
        self.buf
            .copy_within(self.cursor..self.end, self.cursor + shift);
        self.cursor += shift;
        self.end += shift;
    }

    /// After deparsing: the whole frame becomes payload again, cut to the length that the program requested.
    #[inline(always)]
    pub(crate) fn seal(&mut self) {
        self.start = self.cursor;
        if let Some(limit) = self.truncate_bytes() {
            self.end = self.end.min(self.start.saturating_add(limit));
        }
        self.length = u32::try_from(self.end - self.start).unwrap_or(u32::MAX);
    }

    /// Becomes a copy of `other`: buffer, fields and lengths, but not its requests.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.buf.clear();
        self.buf
            .extend_from_slice(other.buf.get(..other.end).unwrap_or_default());
        self.start = other.start;
        self.cursor = other.cursor;
        self.end = other.end;
        self.phv.clone_from(&other.phv);
        self.ingress_port = other.ingress_port;
        self.egress_port = other.egress_port;
        self.ingress_length = other.ingress_length;
        self.length = other.length;
        self.passes = other.passes;
        self.enqueued_ns = other.enqueued_ns;
        self.enq_qdepth = other.enq_qdepth;
        self.priority = other.priority;
        self.deflected = false;
        self.log_number = other.log_number;
        self.clear_requests();
    }
}
