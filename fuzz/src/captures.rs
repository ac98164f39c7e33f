// SPDX-License-Identifier: Apache-2.0
//! Capture files as they are: pcap and pcapng, compressed or not, through their readers.
//!
//! For any file: reading ends, the frames of a file that is not compressed lie in it, and the inference of losses counts
//! the frames that the reader finds.

use std::io::{Cursor, Read};
use std::path::Path;

use weir_capture::{CaptureReader, Source};

use crate::inference;

/// Bytes that are unpacked: a compressed file of some kilobytes may hold gigabytes.
const MOST_BYTES: u64 = 8 << 20;

/// Reads one file. True: it has frames.
pub fn run(file: &[u8]) -> Result<bool, String> {
    let mut unpacked = Vec::new();
    let source = Source::new(Cursor::new(file.to_vec())).map_err(|error| error.to_string())?;
    // What is unpacked before an error is read all the same.
    let _ = source.take(MOST_BYTES).read_to_end(&mut unpacked);
    let Ok(mut reader) = CaptureReader::new(unpacked.as_slice(), Path::new("fuzz")) else {
        return Ok(false);
    };
    let (mut frames, mut bytes) = (0, 0);
    let whole = loop {
        match reader.next_record() {
            Ok(Some(record)) => {
                frames += 1;
                bytes += record.bytes.len();
                if bytes > unpacked.len() {
                    return Err(format!("{bytes} bytes of {} are in frames", unpacked.len()));
                }
            }
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    match inference::read(unpacked)? {
        Some(found) if !whole || found.records != frames => Err(format!(
            "the reader finds {frames} frames{}, the inference of losses {}",
            if whole { "" } else { " before an error" },
            found.records
        )),
        _ => Ok(frames > 0),
    }
}
