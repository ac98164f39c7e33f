// SPDX-License-Identifier: Apache-2.0
//! Telemetry reports, valid and damaged, through the decoder; alone and in captures.

use std::path::Path;

use fastrand::Rng;
use weir_capture::CaptureReader;
use weir_report::{Datagram, Domain, WeirReport};

use crate::bytes;
use crate::capture_file::CaptureFile;

const LONGEST: usize = 2000;
const FRAMES: usize = 20;

/// Runs one datagram or capture. True: reports or frames were found in it.
pub fn run(random: &mut Rng) -> Result<bool, String> {
    let mut payload = payload(random)?;
    if random.bool() {
        return capture(random, &payload);
    }
    if random.u8(..4) > 0 {
        bytes::mutate(random, &mut payload);
    }
    decode(&payload)
}

/// A valid report, or random bytes.
fn payload(random: &mut Rng) -> Result<Vec<u8>, String> {
    if random.u8(..4) == 0 {
        return Ok(bytes::random(random, LONGEST));
    }
    let inner = bytes::random(random, LONGEST);
    let report = WeirReport {
        node_id: random.u32(..),
        hw_id: random.u8(..64),
        sequence: random.u32(..weir_report::SEQUENCE_MODULUS),
        dropped: random.bool(),
        queue_occupancy: random.u32(..1 << 24),
        ingress_ns: random.u64(..),
        egress_ns: random.u64(..),
        policer: random.u16(..),
        packet_number: random.u32(..),
        inner: &inner,
        ..WeirReport::default()
    };
    let mut payload = Vec::new();
    report
        .encode(&mut payload)
        .map_err(|error| format!("a sound report is not encoded: {error}"))?;
    let decoded = decode(&payload)?;
    if decoded {
        Ok(payload)
    } else {
        Err("an encoded report is not decoded".to_owned())
    }
}

/// Decodes a datagram; the reports must lie within it and end. True: it has reports.
fn decode(payload: &[u8]) -> Result<bool, String> {
    let Ok(datagram) = Datagram::parse(payload) else {
        return Ok(false);
    };
    let mut covered = 0;
    for report in datagram.reports() {
        let Ok(report) = report else {
            return Ok(false);
        };
        covered += report.inner.len();
        if let Domain::Other { bytes, .. } = report.domain {
            covered += bytes.len();
        }
        if covered > payload.len() {
            return Err(format!("{covered} bytes of {} are reported", payload.len()));
        }
    }
    Ok(true)
}

/// Runs a damaged capture (pcap or pcapng) of such datagrams. True: it has frames.
fn capture(random: &mut Rng, frame: &[u8]) -> Result<bool, String> {
    let mut file = CaptureFile::new(random.bool());
    for number in 0..random.usize(..FRAMES) {
        file.add(number, frame, frame.len());
    }
    let mut file = file.bytes;
    if random.u8(..4) > 0 {
        bytes::mutate(random, &mut file);
    }
    let Ok(mut reader) = CaptureReader::new(file.as_slice(), Path::new("fuzz")) else {
        return Ok(false);
    };
    let mut found = 0;
    while let Ok(Some(record)) = reader.next_record() {
        found += record.bytes.len();
        if found > file.len() {
            return Err(format!("{found} bytes of {} are in frames", file.len()));
        }
    }
    Ok(found > 0)
}
