// SPDX-License-Identifier: Apache-2.0
//! A packet inside the switch, and the pool that its buffers return to.

use crate::native::Ingressed;
use crate::ports::Port;

/// Free bytes in front of a frame, for headers that the program adds.
const HEADROOM: usize = 256;

/// Buffer, parsed fields and pending requests of one packet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packet {
    buf: Vec<u8>,
    /// First byte of the frame as it entered this pass.
    start: usize,
    /// First byte that the parser did not take: the payload.
    pub cursor: usize,
    end: usize,
    pub phv: Vec<u8>,
    pub ingress_port: Port,
    pub egress_port: Port,
    /// Its queue at the egress port: `standard_metadata.priority`.
    pub priority: u8,
    /// It was tail-dropped, and is on its way through egress to be reported.
    pub deflected: bool,
    /// Bytes when it was received; what meters and counters count.
    pub ingress_length: u32,
    /// Bytes now, as headers come and go.
    pub length: u32,
    pub passes: u32,
    pub enqueued_ns: u64,
    /// Packets that waited at its port then, if the program wants to know.
    pub enqueued_depth: u64,
    pub exit: bool,
    /// When it arrived, for one that waits in a burst.
    pub arrived_ns: u64,
    /// Its parser found no error.
    pub parsed: bool,
    pub progress: Progress,
    /// What it asked for, if it came to the end of ingress while the burst was taken in.
    pub ingressed: Ingressed,
    /// Few packets ask for anything, so that one look is enough for the others.
    asked: bool,
    requests: Requests,
}

/// How far a packet came that is to go through ingress. Each part is read as it was written, word by word: the processor
/// would wait for words that it has just written if they were read in pairs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// 0 at its start, `ENDED` at its end, else what the code calls the place where it waits; and what the code keeps.
    pub place: u64,
    pub kept: u64,
    /// The table whose action it is in, and the entry.
    pub slot: u64,
    pub table: u64,
}

impl Progress {
    pub(crate) const ENDED: u64 = u64::MAX;
}

/// What the program asked to be done with a packet behind a pipeline.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests {
    pub clone: Option<(u32, u16)>,
    pub digest: Option<u16>,
    pub resubmit: Option<u16>,
    pub recirculate: Option<u16>,
    pub truncate: Option<usize>,
}

impl Packet {
    /// Index of its queue.
    pub(crate) fn queue(&self) -> usize {
        usize::from(self.priority)
    }

    /// Takes a frame in.
    pub(crate) fn fill(&mut self, frame: &[u8]) {
        let end = HEADROOM + frame.len();
        // What stands in the headroom is overwritten before it is read, and what stands behind the end is not read.
        if self.buf.len() < end {
            self.buf.resize(end, 0);
        }
        if let Some(place) = self.buf.get_mut(HEADROOM..end) {
            place.copy_from_slice(frame);
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

    /// Forgets clone, digest, resubmit, recirculate, truncate and exit.
    pub(crate) fn clear_requests(&mut self) {
        if self.asked {
            self.asked = false;
            self.requests = Requests::default();
        }
        self.exit = false;
    }

    /// Its requests, to add one.
    pub(crate) fn ask(&mut self) -> &mut Requests {
        self.asked = true;
        &mut self.requests
    }

    /// Its requests, if it has any.
    #[inline(always)]
    pub(crate) fn asked(&mut self) -> Option<&mut Requests> {
        self.asked.then_some(&mut self.requests)
    }

    /// Bytes that `truncate` leaves of it.
    #[inline(always)]
    pub(crate) fn limit(&self) -> Option<usize> {
        self.requests.truncate.filter(|_| self.asked)
    }

    /// The frame as it entered this pass.
    pub(crate) fn original(&self) -> &[u8] {
        self.buf.get(self.start..self.end).unwrap_or_default()
    }

    /// What follows the parsed headers (or, during parsing, the cursor).
    pub(crate) fn payload(&self) -> &[u8] {
        self.buf.get(self.cursor..self.end).unwrap_or_default()
    }

    /// The parser's cursor goes back to the start of the frame.
    pub(crate) fn rewind(&mut self) {
        self.cursor = self.start;
    }

    /// Cuts the payload so that headers and payload together have at most this many bytes; headers stay whole.
    pub(crate) fn cut(&mut self, bytes: usize) {
        let payload = self.payload().len();
        let headers = (self.length as usize).saturating_sub(payload);
        let kept = payload.min(bytes.saturating_sub(headers));
        self.end = self.cursor + kept;
        self.length = u32::try_from(headers + kept).unwrap_or(u32::MAX);
    }

    /// Bytes that the parser took.
    pub(crate) fn parsed_bytes(&self) -> usize {
        self.cursor - self.start
    }

    /// The space in front of the payload.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        self.buf.get_mut(..self.cursor).unwrap_or_default()
    }

    /// The last `bytes` bytes of that space become payload.
    pub(crate) fn take_space(&mut self, bytes: usize) {
        self.cursor = self.cursor.saturating_sub(bytes);
    }

    /// Moves the cursor; false (and no move) beyond the end.
    pub(crate) fn advance(&mut self, bytes: usize) -> bool {
        match self.cursor.checked_add(bytes) {
            Some(cursor) if cursor <= self.end => {
                self.cursor = cursor;
                true
            }
            _ => false,
        }
    }

    /// Moves the next `bytes` bytes to a place in the PHV; false (and nothing done) beyond the end.
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

    /// Bytes just taken by the parser, beside the PHV that they go to.
    pub(crate) fn extracted(&mut self, at: usize, bytes: usize) -> (&[u8], &mut [u8]) {
        (
            self.buf.get(at..at + bytes).unwrap_or_default(),
            &mut self.phv,
        )
    }

    /// Puts `bytes` bytes of the PHV right before the payload, and makes them part of it.
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

    /// After deparsing: the whole frame becomes payload again, cut to `limit`.
    pub(crate) fn seal(&mut self, limit: Option<usize>) {
        self.start = self.cursor;
        if let Some(limit) = limit {
            self.end = self.end.min(self.start.saturating_add(limit));
        }
        self.length = u32::try_from(self.end - self.start).unwrap_or(u32::MAX);
    }

    /// Becomes a copy of `other`: buffer, fields and lengths, without its requests.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.buf.clear();
        self.buf
            .extend_from_slice(other.buf.get(..other.end).unwrap_or_default());
        self.start = other.start;
        self.cursor = other.cursor;
        self.end = other.end;
        self.phv.clear();
        self.phv.extend_from_slice(&other.phv);
        self.ingress_port = other.ingress_port;
        self.egress_port = other.egress_port;
        self.ingress_length = other.ingress_length;
        self.length = other.length;
        self.passes = other.passes;
        self.enqueued_ns = other.enqueued_ns;
        self.enqueued_depth = other.enqueued_depth;
        self.priority = other.priority;
        self.deflected = false;
        self.clear_requests();
    }
}

/// Packets at rest. Buffers keep their capacity, so a warm pool allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    #[expect(
        clippy::vec_box,
        reason = "packets move between pool and queues by pointer"
    )]
    free: Vec<Box<Packet>>,
    /// Field regions without a packet. Frames on their way out have none, so that the next packet finds one in cache.
    phvs: Vec<Vec<u8>>,
}

/// More than this stay allocated only while they are in use.
const POOL_LIMIT: usize = 65_536;

impl Pool {
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Box<Packet> {
        let mut packet = self.free.pop().unwrap_or_default();
        if packet.phv.capacity() == 0
            && let Some(phv) = self.phvs.pop()
        {
            packet.phv = phv;
        }
        packet
    }

    /// Takes the fields of a packet that is only a frame from now on.
    pub(crate) fn strip(&mut self, packet: &mut Packet) {
        let phv = std::mem::take(&mut packet.phv);
        if phv.capacity() > 0 && self.phvs.len() < POOL_LIMIT {
            self.phvs.push(phv);
        }
    }

    #[inline(always)]
    pub(crate) fn give(&mut self, packet: Box<Packet>) {
        if self.free.len() < POOL_LIMIT {
            self.free.push(packet);
        }
    }
}
