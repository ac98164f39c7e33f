// SPDX-License-Identifier: Apache-2.0
//! One capture in, loss events, round-trip times and delivery rates out.

use std::path::Path;

use crate::infer::{DeliveryRate, Loss, RttSample, Verdict};
use crate::notes::Notes;
use crate::reading::Packets;
use crate::tracker::{Flow, FlowSink, Tracker};
use weir_capture::{CaptureError, CaptureReader, Source};

/// The result of one capture.
#[derive(Debug)]
pub struct Losses {
    /// Flows, in order of their first packet.
    pub flows: Vec<Flow>,
    /// Lost transmissions with the index of their flow, in order of the time they were sent.
    pub losses: Vec<(u32, Loss)>,
    /// Round-trip times with the index of their flow, in order of time.
    pub rtts: Vec<(u32, RttSample)>,
    /// Delivery rates with the index of their flow, in order of time.
    pub delivery_rates: Vec<(u32, DeliveryRate)>,
    /// Records read.
    pub records: u64,
    /// Records that are not IP packets, or whose IP header cannot be read.
    pub not_ip: u64,
    /// The file ends inside a record.
    pub truncated: bool,
    /// Warnings for the reader, `truncated` among them.
    pub notes: Notes,
}

/// Reads a capture that was taken at the sender (or between it and the bottleneck).
///
/// # Errors
/// [`CaptureError`] when the file is not a capture or is damaged. A capture that ends inside a record is no error, see
/// [`Losses::truncated`].
pub fn read_losses(path: &Path) -> Result<Losses, CaptureError> {
    let mut collected = Collected::default();
    let Summary {
        tracker,
        records,
        packets: _,
        not_ip,
        notes,
    } = scan(path, &mut collected)?;
    let Collected {
        mut losses,
        rtts,
        delivery_rates,
    } = collected;
    losses.sort_by_key(|(flow, loss)| (loss.sent_ns, *flow));
    Ok(Losses {
        flows: tracker.into_flows(),
        losses,
        rtts,
        delivery_rates,
        records,
        not_ip,
        truncated: notes.truncated,
        notes,
    })
}

/// The rest of a capture after its events went to the sink.
#[derive(Debug, Default)]
pub struct Summary {
    /// Flows and their counters.
    pub tracker: Tracker,
    /// Records read.
    pub records: u64,
    /// The packets in them: a record may hold several segments.
    pub packets: u64,
    /// Records that are not IP packets.
    pub not_ip: u64,
    /// Warnings about the capture, once all of it is read.
    pub notes: Notes,
}

/// Streams a capture's verdicts and round-trip times into `sink`; memory follows the data in flight.
///
/// # Errors
/// As [`read_losses`].
pub fn scan(path: &Path, sink: &mut impl FlowSink) -> Result<Summary, CaptureError> {
    let mut scan = Scan::open(path)?;
    while scan.step(sink)? {}
    Ok(scan.finish())
}

/// Batches of records that one step of a [`Scan`] takes.
const STEP_BATCHES: usize = 8;

/// A capture that is read step by step, ahead of the inference on another core.
#[derive(Debug)]
pub struct Scan {
    packets: Packets,
    summary: Summary,
}

impl Scan {
    /// Opens the capture.
    ///
    /// # Errors
    /// As [`CaptureReader::open`].
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        CaptureReader::open(path).map(Self::new)
    }

    /// Reads a capture that is open.
    pub fn new(reader: CaptureReader<Source>) -> Self {
        Self {
            packets: Packets::new(reader),
            summary: Summary::default(),
        }
    }

    /// Reads the next records; false at the end of the file, when every transmission has its verdict.
    ///
    /// # Errors
    /// As [`read_losses`].
    pub fn step(&mut self, sink: &mut impl FlowSink) -> Result<bool, CaptureError> {
        let Summary {
            tracker,
            records,
            packets,
            not_ip,
            notes,
        } = &mut self.summary;
        for _ in 0..STEP_BATCHES {
            let Some(batch) = self.packets.next()? else {
                tracker.finish(sink);
                if let Some(reader) = self.packets.end() {
                    *notes = Notes::new(reader, self.packets.merged(), tracker.flows());
                    notes.without_ip = if not_ip == packets { *records } else { 0 };
                }
                return Ok(false);
            };
            for packet in batch.packets() {
                match packet.segment() {
                    Some(segment) => {
                        tracker.packet(packet.time_ns, segment, Some(*packets), sink);
                    }
                    None => *not_ip += 1,
                }
                *records += u64::from(packet.begins_record);
                *packets += 1;
            }
            self.packets.reuse(batch);
        }
        Ok(true)
    }

    /// The counts so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The final counts.
    pub fn finish(self) -> Summary {
        self.summary
    }
}

#[derive(Debug, Default)]
struct Collected {
    losses: Vec<(u32, Loss)>,
    rtts: Vec<(u32, RttSample)>,
    delivery_rates: Vec<(u32, DeliveryRate)>,
}

impl FlowSink for Collected {
    const DELIVERY_RATES: bool = true;

    fn verdict(&mut self, flow: u32, _tag: u64, verdict: Verdict) {
        if let Verdict::Lost { loss, .. } = verdict {
            self.losses.push((flow, loss));
        }
    }

    fn before(&mut self, flow: u32, loss: Loss) {
        self.losses.push((flow, loss));
    }

    fn rtt(&mut self, flow: u32, sample: RttSample) {
        self.rtts.push((flow, sample));
    }

    fn delivery_rate(&mut self, flow: u32, sample: DeliveryRate) {
        self.delivery_rates.push((flow, sample));
    }
}
