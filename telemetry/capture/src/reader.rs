// SPDX-License-Identifier: Apache-2.0
//! Reader for pcap (draft-ietf-opsawg-pcap) and pcapng files, one record at a time through a bounded buffer.
//!
//! The buffer is our own because existing readers lose the file offset, which an error must name. Records are borrowed
//! from it, so a capture of any size needs only the buffer's memory and no copy.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use weir_packet::LinkType;

use crate::blocks::{BLOCK_HEAD_BYTES, Problem, SECTION_HEADER, Section};
use crate::classic::{FILE_HEADER_BYTES, FileHeader};
use crate::error::CaptureError;
use crate::source::Source;

const RECORD_HEADER_BYTES: usize = 16;
/// Larger than any record that libpcap writes (its limit is 256 KiB, USB captures apart).
const LARGEST_RECORD_BYTES: usize = 1 << 20;
const NS_PER_S: i64 = 1_000_000_000;
const BUFFER_BYTES: usize = 4 << 20;
/// Bytes per read: few enough that they are still in the processor's cache when they are parsed.
const READ_BYTES: usize = 256 << 10;

/// One captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Capture time in nanoseconds since 1970, by the capturing host's clock. If the file has none, the time of the record
    /// before, see [`CaptureReader::untimed`].
    pub time_ns: i64,
    /// Length of the frame on the wire in bytes, without FCS.
    pub wire_length: u32,
    /// The type of the frame's link header.
    pub link_type: LinkType,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// The file's format, and the state that later records need.
#[derive(Debug)]
enum Format {
    Pcap(FileHeader),
    Pcapng(Section),
}

/// Streams the records of one capture.
#[derive(Debug)]
pub struct CaptureReader<R> {
    source: R,
    path: PathBuf,
    format: Format,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// File offset of `buffer[start]`.
    offset: u64,
    truncated: bool,
    /// Whether it is the compressed data that end early.
    compression_cut: bool,
    /// Time of the newest record that has one.
    time_ns: i64,
    untimed: u64,
}

impl CaptureReader<Source> {
    /// Opens a capture file, compressed or not, and reads its header. The path `-` is standard input.
    ///
    /// # Errors
    /// [`CaptureError`] when the file cannot be opened, is empty, or is no capture with a supported link type.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let source = Source::open(path).map_err(|error| CaptureError::unreadable(path, &error))?;
        Self::new(source, path)
    }
}

impl<R: Read> CaptureReader<R> {
    /// Reads the file header from `source`; `path` is what errors name.
    ///
    /// # Errors
    /// As [`CaptureReader::open`].
    pub fn new(source: R, path: &Path) -> Result<Self, CaptureError> {
        let mut reader = Self {
            source,
            path: path.to_path_buf(),
            format: Format::Pcap(FileHeader::default()),
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            offset: 0,
            truncated: false,
            compression_cut: false,
            time_ns: 0,
            untimed: 0,
        };
        if !reader.fill(FILE_HEADER_BYTES)? && reader.truncated {
            let problem = "cannot be decompressed: the file ends before the capture's header does";
            return Err(CaptureError::new(
                path,
                0,
                problem,
                "a whole compressed capture",
            ));
        }
        let head = reader
            .buffer
            .get(..reader.end.min(FILE_HEADER_BYTES))
            .unwrap_or_default();
        if head.starts_with(&SECTION_HEADER) {
            reader.format = Format::Pcapng(Section::default());
        } else {
            reader.format = Format::Pcap(FileHeader::parse(head, path)?);
            reader.consume(FILE_HEADER_BYTES);
        }
        Ok(reader)
    }

    /// Whether the file ended inside a record, as it does when the capturing process was killed. Known once
    /// [`CaptureReader::next_record`] has returned `None`.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Whether a classic pcap ended after the header of a record and before the end of its frame. Known once
    /// [`CaptureReader::next_record`] has returned `None`.
    pub fn ended_inside_frame(&self) -> bool {
        let header_is_whole = self.end - self.start >= RECORD_HEADER_BYTES;
        let classic = matches!(self.format, Format::Pcap(_));
        self.truncated && !self.compression_cut && classic && header_is_whole
    }

    /// Refuses a file that ended inside a record, for callers that need the whole capture. Known once
    /// [`CaptureReader::next_record`] has returned `None`.
    ///
    /// # Errors
    /// [`CaptureError`] at that record, when the capture is [`CaptureReader::truncated`].
    pub fn require_whole(&self) -> Result<(), CaptureError> {
        if self.truncated {
            let problem = "the file ends inside a record";
            return Err(CaptureError::new(
                &self.path,
                self.offset,
                problem,
                "a whole capture",
            ));
        }
        Ok(())
    }

    /// Records so far without a time in the file (Simple Packet Blocks of pcapng).
    pub fn untimed(&self) -> u64 {
        self.untimed
    }

    /// Packets that the capture lost, by its own statistics (Interface Statistics Blocks of pcapng, which are at the end).
    pub fn dropped(&self) -> u64 {
        match &self.format {
            Format::Pcap(_) => 0,
            Format::Pcapng(section) => section.dropped(),
        }
    }

    /// The next record, or `None` at the end of the file.
    ///
    /// # Errors
    /// [`CaptureError`] for a read error, and for a record that no capture can have.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        match self.format {
            Format::Pcap(header) => self.next_of_pcap(header),
            Format::Pcapng(_) => self.next_of_pcapng(),
        }
    }

    #[inline]
    fn next_of_pcap(&mut self, header: FileHeader) -> Result<Option<Record<'_>>, CaptureError> {
        let (head, captured) = loop {
            let there = self.buffer.get(self.start..self.end).unwrap_or_default();
            let Some((head, bytes)) = there.split_first_chunk::<RECORD_HEADER_BYTES>() else {
                if !self.has(RECORD_HEADER_BYTES)? {
                    return Ok(None);
                }
                continue;
            };
            let head = header.words(head);
            let captured = head[2] as usize;
            if captured > LARGEST_RECORD_BYTES || head[1] >= header.ticks_per_second {
                return Err(self.bad_record(header, captured, head[1]));
            }
            if captured <= bytes.len() {
                break (head, captured);
            }
            if !self.has(RECORD_HEADER_BYTES + captured)? {
                return Ok(None);
            }
        };
        let at = self.start + RECORD_HEADER_BYTES;
        self.consume(RECORD_HEADER_BYTES + captured);
        let [seconds, fraction, _, wire] = head;
        Ok(Some(Record {
            time_ns: i64::from(seconds) * NS_PER_S + i64::from(fraction) * header.ns_per_tick,
            wire_length: wire.saturating_sub(header.fcs_bytes),
            link_type: header.link_type,
            bytes: self.buffer.get(at..at + captured).unwrap_or_default(),
        }))
    }

    fn next_of_pcapng(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        let (packet, start) = loop {
            if !self.has(BLOCK_HEAD_BYTES)? {
                return Ok(None);
            }
            let head = &self.buffer[self.start..self.start + BLOCK_HEAD_BYTES];
            let Format::Pcapng(section) = &mut self.format else {
                return Ok(None);
            };
            let length = match section.block_bytes(head) {
                Ok(length) => length,
                Err(problem) => return Err(self.bad_block(problem)),
            };
            if !self.has(length)? {
                return Ok(None);
            }
            let block = &self.buffer[self.start..self.start + length];
            let Format::Pcapng(section) = &mut self.format else {
                return Ok(None);
            };
            let start = self.start;
            match section.read(block) {
                Ok(packet) => {
                    self.consume(length);
                    if let Some(packet) = packet {
                        break (packet, start);
                    }
                }
                Err(problem) => return Err(self.bad_block(problem)),
            }
        };
        let at = start + packet.start;
        let bytes = self.buffer.get(at..at + packet.length).unwrap_or_default();
        match packet.time_ns {
            Some(time_ns) => self.time_ns = time_ns,
            None => self.untimed += 1,
        }
        Ok(Some(Record {
            time_ns: self.time_ns,
            wire_length: packet.wire_length,
            link_type: packet.link_type,
            bytes,
        }))
    }

    /// Whether `wanted` bytes are available; if not, the file ends here.
    fn has(&mut self, wanted: usize) -> Result<bool, CaptureError> {
        let there = self.end - self.start >= wanted || self.fill(wanted)?;
        self.truncated |= !there && self.end > self.start;
        Ok(there)
    }

    fn bad_block(&self, (problem, valid): Problem) -> CaptureError {
        CaptureError::new(&self.path, self.offset, problem, valid)
    }

    fn bad_record(&self, header: FileHeader, captured: usize, fraction: u32) -> CaptureError {
        let problem = format!(
            "record header says {captured} captured bytes and {fraction} of {} ticks in its second",
            header.ticks_per_second
        );
        CaptureError::new(
            &self.path,
            self.offset,
            problem,
            "at most 1,048,576 captured bytes and a fraction below one second (the file is damaged here)",
        )
    }

    fn consume(&mut self, length: usize) {
        self.start += length;
        self.offset += length as u64;
    }

    #[cold]
    #[inline(never)]
    /// Reads until `wanted` bytes are buffered; false when the file ends before.
    fn fill(&mut self, wanted: usize) -> Result<bool, CaptureError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < wanted {
            let most = (self.end + READ_BYTES).min(self.buffer.len());
            let room = self.buffer.get_mut(self.end..most).unwrap_or_default();
            match self.source.read(room) {
                Ok(0) => return Ok(false),
                Ok(length) => self.end += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The compressed data are cut. The bytes before the cut are in the buffer.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.truncated = true;
                    self.compression_cut = true;
                    return Ok(false);
                }
                Err(error) => {
                    let offset = self.offset + self.end as u64;
                    return Err(CaptureError::new(
                        &self.path,
                        offset,
                        error.to_string(),
                        "a readable capture",
                    ));
                }
            }
        }
        Ok(true)
    }
}
