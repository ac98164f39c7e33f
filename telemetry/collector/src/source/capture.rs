// SPDX-License-Identifier: Apache-2.0
//! Reports from a pcap or pcapng file, as fast as they can be processed.

use std::path::{Path, PathBuf};

use weir_capture::{CaptureReader, Source};

use super::frame::{Frame, datagram};
use super::{Datagram, Received};
use crate::error::CollectorError;

/// Frames per call: few enough that signals and row groups are handled in time.
const FRAMES: usize = 4096;

/// A capture that is being read.
#[derive(Debug)]
pub(crate) struct CaptureSource {
    reader: CaptureReader<Source>,
    path: PathBuf,
    port: u16,
    ignored: u64,
}

impl CaptureSource {
    pub(super) fn open(path: &Path, port: u16) -> Result<Self, CollectorError> {
        Ok(Self {
            reader: CaptureReader::open(path)?,
            path: path.to_owned(),
            port,
            ignored: 0,
        })
    }

    pub(super) fn receive(
        &mut self,
        take_in: &mut impl FnMut(&Datagram<'_>),
    ) -> Result<Received, CollectorError> {
        let mut last_ns = None;
        for _ in 0..FRAMES {
            let Some(record) = self.reader.next_record()? else {
                break;
            };
            let frame = Frame {
                link_type: record.link_type,
                bytes: record.bytes,
                wire_length: record.wire_length,
                time_ns: record.time_ns,
            };
            last_ns = Some(record.time_ns);
            match datagram(&frame, self.port) {
                Some(datagram) => take_in(&datagram),
                None => self.ignored += 1,
            }
        }
        Ok(last_ns.map_or(Received::End, Received::Until))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) const fn ignored(&self) -> u64 {
        self.ignored
    }

    pub(super) fn truncated(&self) -> bool {
        self.reader.truncated()
    }
}
