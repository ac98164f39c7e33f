// SPDX-License-Identifier: Apache-2.0
//! Capture files of a port: what it received and what it sent, as pcap.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use tracing::warn;

const MAGIC: u32 = 0xa1b2_c3d4;
/// Longest frame that a reader should expect.
const SNAP_BYTES: u32 = 262_144;
const LINKTYPE_ETHERNET: u32 = 1;

/// A pcap file (draft-ietf-opsawg-pcap, microseconds). Each frame is written at once, so the file is whole when the program is killed.
#[derive(Debug)]
pub struct CaptureFile {
    file: File,
    record: Vec<u8>,
    failed: bool,
}

impl CaptureFile {
    /// Creates the file, or replaces it.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        let mut header = Vec::with_capacity(24);
        header.extend(MAGIC.to_ne_bytes());
        header.extend(2_u16.to_ne_bytes());
        header.extend(4_u16.to_ne_bytes());
        // Time zone and accuracy: 0, as everywhere.
        header.extend([0; 8]);
        header.extend(SNAP_BYTES.to_ne_bytes());
        header.extend(LINKTYPE_ETHERNET.to_ne_bytes());
        file.write_all(&header)?;
        Ok(Self {
            file,
            record: Vec::new(),
            failed: false,
        })
    }

    /// Adds a frame with its time, ns since the epoch.
    pub fn write(&mut self, realtime_ns: u64, frame: &[u8]) {
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let seconds = (realtime_ns / 1_000_000_000) as u32;
        let micros = (realtime_ns % 1_000_000_000 / 1_000) as u32;
        self.record.clear();
        for word in [seconds, micros, length, length] {
            self.record.extend(word.to_ne_bytes());
        }
        self.record.extend_from_slice(frame);
        if let Err(error) = self.file.write_all(&self.record)
            && !self.failed
        {
            self.failed = true;
            warn!("a capture file cannot be written: {error}; frames are missing in it");
        }
    }
}

/// The two files of a port.
#[derive(Debug)]
pub struct Recorder {
    pub(crate) received: CaptureFile,
    pub(crate) sent: CaptureFile,
}

impl Recorder {
    /// Creates `NAME_in.pcap` and `NAME_out.pcap` in a folder.
    ///
    /// # Errors
    /// The system's.
    pub fn create(folder: &Path, name: &str) -> io::Result<Self> {
        let file = |end: &str| CaptureFile::create(&folder.join(format!("{name}_{end}.pcap")));
        Ok(Self {
            received: file("in")?,
            sent: file("out")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_frame_is_in_the_file_at_once() {
        let path = std::env::temp_dir().join(format!("weir-recorder-{}.pcap", std::process::id()));
        let mut file = CaptureFile::create(&path).unwrap();
        file.write(1_700_000_000_123_456_789, &[0xaa; 15]);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(bytes.len(), 24 + 16 + 15);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((word(0), word(20)), (MAGIC, LINKTYPE_ETHERNET));
        assert_eq!((word(24), word(28)), (1_700_000_000, 123_456));
        assert_eq!((word(32), word(36)), (15, 15));
        assert_eq!(bytes[40..], [0xaa; 15]);
    }
}
