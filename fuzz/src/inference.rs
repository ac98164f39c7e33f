// SPDX-License-Identifier: Apache-2.0
//! Captures of TCP, valid and damaged, through the parser and the inference of losses.
//!
//! For any file: every record is counted once, and every segment of it, every transmission is judged at most once, and
//! reported events equal the counts. A valid file is read completely.

use std::collections::HashSet;
use std::io::Cursor;
use std::path::Path;

use crate::choices::Choices;
use weir_capture::{CaptureReader, Source};
use weir_core::infer::{DeliveryRate, Loss, RttSample, Verdict};
use weir_core::losses::Scan;
use weir_core::tracker::FlowSink;

use crate::bytes;
use crate::capture_file::CaptureFile;

const FRAMES: usize = 200;
/// Segments of a connection, so few that ranges overlap.
const SEQUENCE: u32 = 40;
const SEGMENT: u32 = 100;

/// Runs one capture. True: transmissions were judged in it.
pub fn run(random: &mut Choices<'_>) -> Result<bool, String> {
    let (mut file, frames) = capture(random);
    let damaged = random.u8(..4) == 0;
    if damaged {
        bytes::mutate(random, &mut file);
    }
    let found = read(file)?;
    if !damaged && found.as_ref().is_none_or(|found| found.records != frames) {
        let read = found.map_or(0, |found| found.records);
        return Err(format!(
            "{read} records of a sound capture of {frames} are read"
        ));
    }
    Ok(found.is_some_and(|found| !found.judged.is_empty()))
}

#[derive(Default)]
pub struct Found {
    pub records: u64,
    judged: HashSet<u64>,
    again: u64,
    lost: u64,
    before: u64,
    rtts: u64,
    not_after: u64,
    no_rates: u64,
}

impl FlowSink for Found {
    const DELIVERY_RATES: bool = true;

    fn verdict(&mut self, _flow: u32, tag: u64, verdict: Verdict) {
        self.again += u64::from(!self.judged.insert(tag));
        self.lost += u64::from(matches!(verdict, Verdict::Lost { .. }));
    }

    fn before(&mut self, _flow: u32, _loss: Loss) {
        self.before += 1;
    }

    fn rtt(&mut self, _flow: u32, sample: RttSample) {
        self.rtts += 1;
        self.not_after += u64::from(sample.rtt_ns <= 0);
    }

    fn delivery_rate(&mut self, _flow: u32, sample: DeliveryRate) {
        self.no_rates += u64::from(sample.interval_ns <= 0 || sample.delivered_bytes == 0);
    }
}

/// The events of a file; `None` when it is refused as no capture or as damaged.
pub fn read(file: Vec<u8>) -> Result<Option<Found>, String> {
    let opened = Source::new(Cursor::new(file)).map_err(|error| error.to_string())?;
    let Ok(reader) = CaptureReader::new(opened, Path::new("fuzz")) else {
        return Ok(None);
    };
    let mut found = Found::default();
    let mut scan = Scan::new(reader);
    loop {
        match scan.step(&mut found) {
            Ok(true) => {}
            Ok(false) => break,
            Err(_) => return Ok(None),
        }
    }
    let summary = scan.finish();
    found.records = summary.records;
    let stats = || summary.tracker.flows().iter().map(|flow| &flow.stats);
    let packets: u64 = stats().map(|stats| stats.packets).sum();
    let sums = [
        ("packets", summary.packets, packets + summary.not_ip),
        ("transmissions judged again and none", found.again, 0),
        (
            "losses",
            found.lost,
            stats().map(|stats| stats.losses).sum(),
        ),
        (
            "losses before",
            found.before,
            stats().map(|stats| stats.losses_before).sum(),
        ),
        (
            "round-trip times",
            found.rtts,
            stats().map(|stats| stats.rtt_count).sum(),
        ),
        (
            "round-trip times that are none and none",
            found.not_after,
            0,
        ),
        ("delivery rates that are none and none", found.no_rates, 0),
    ];
    let (records, merged) = (summary.records, summary.notes.merged);
    // A record is one packet, or, if it holds several segments, two and more.
    let least = records + merged;
    if summary.packets < least || (merged == 0 && summary.packets > least) {
        return Err(format!(
            "{records} records, of which {merged} hold several packets, have {}",
            summary.packets
        ));
    }
    match sums.iter().find(|(_, left, right)| left != right) {
        Some((what, left, right)) => Err(format!("{what}: {left} and {right}")),
        None => Ok(Some(found)),
    }
}

/// A capture, and the number of its frames.
fn capture(random: &mut Choices<'_>) -> (Vec<u8>, u64) {
    let mut file = CaptureFile::new(random.bool());
    let frames = random.usize(1..FRAMES);
    let snap = random.choice([64, 70, 96, 128]).unwrap_or(128);
    let mut now_us = random.usize(..1 << 20);
    for _ in 0..frames {
        // Sometimes a long pause, or a step back in time.
        now_us = match random.u8(..32) {
            0 => now_us + 900_000,
            1 => now_us.saturating_sub(5000),
            _ => now_us + random.usize(..3000),
        };
        let (frame, wire) = frame(random, now_us as u32 / 1000);
        let frame = &frame[..frame.len().min(snap)];
        // A Simple Packet Block has no captured length, so only for frames captured completely.
        if file.pcapng && frame.len() == wire && random.u8(..8) == 0 {
            file.add_simple(frame);
        } else {
            file.add(now_us, frame, wire);
        }
    }
    (file.bytes, frames as u64)
}

/// A segment of one of two connections, in any state, and its length on the wire.
fn frame(random: &mut Choices<'_>, now_ms: u32) -> (Vec<u8>, usize) {
    let (connection, back, ipv6) = (random.u8(..2), random.bool(), random.u8(..8) == 0);
    let mut options = Vec::new();
    let range = |random: &mut Choices<'_>| {
        // Connections start just before sequence numbers wrap.
        let base = u32::MAX - SEQUENCE * SEGMENT / 2;
        base.wrapping_add(random.u32(..SEQUENCE) * SEGMENT)
    };
    let flags = match random.u8(..32) {
        0 => 0x02,
        1 => 0x12,
        2 => 0x11,
        3 => 0x04,
        _ => 0x10,
    };
    if flags & 2 != 0 {
        options.extend([4, 2, 1, 1]);
    }
    if random.u8(..8) > 0 {
        options.extend([1, 1, 8, 10]);
        options.extend(now_ms.to_be_bytes());
        options.extend(now_ms.saturating_sub(20).to_be_bytes());
    }
    let blocks = random.u8(..4);
    if random.u8(..4) == 0 && blocks > 0 {
        options.extend([1, 1, 5, 2 + 8 * blocks]);
        for _ in 0..blocks {
            let start = range(random);
            options.extend(start.to_be_bytes());
            options.extend(start.wrapping_add(random.u32(1..4) * SEGMENT).to_be_bytes());
        }
    }
    let payload = if random.bool() {
        random.u32(1..3) * SEGMENT
    } else {
        0
    } as usize;
    let tcp_bytes = 20 + options.len();
    let mut frame = vec![2; 12];
    if ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(((tcp_bytes + payload) as u16).to_be_bytes());
        frame.extend([6, 64]);
        for end in [back, !back] {
            frame.extend([0x20; 15]);
            frame.push(u8::from(end));
        }
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(((20 + tcp_bytes + payload) as u16).to_be_bytes());
        frame.extend(random.u16(..64).to_be_bytes());
        frame.extend([0x40, 0, 64, 6, 0, 0]);
        for end in [back, !back] {
            frame.extend([10, 0, 0, u8::from(end)]);
        }
    }
    for end in [back, !back] {
        frame.extend([u8::from(end), connection]);
    }
    frame.extend(range(random).to_be_bytes());
    frame.extend(range(random).to_be_bytes());
    frame.extend([(tcp_bytes as u8 / 4) << 4, flags]);
    frame.extend(random.choice([0_u16, 500]).unwrap_or(0).to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(options);
    let wire = frame.len() + payload;
    (frame, wire)
}
