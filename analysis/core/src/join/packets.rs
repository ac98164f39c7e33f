// SPDX-License-Identifier: Apache-2.0
//! One host's capture: the packets it sent, those it received, and the inference over its own flows.

use std::net::IpAddr;

use rustc_hash::FxHashSet;
use weir_capture::{CaptureError, CaptureReader};

use super::joined::{ClockPiece, FlowIndex, HostCapture, Joined, PacketRow};
use super::key::{Arrival, MatchKey};
use crate::infer::{DeliveryRate, RttSample, Verdict};
use crate::notes::Notes;
use crate::reading::Packets;
use crate::segment::Segment;
use crate::tracker::{FlowSink, Tracker};

/// Appends one capture to `joined`, `keys` (one per row) and `arrivals`; returns the time of its last record.
pub(super) fn read_host(
    host: u32,
    capture: &HostCapture,
    index: &mut FlowIndex,
    joined: &mut Joined,
    keys: &mut Vec<MatchKey>,
    arrivals: &mut Vec<Arrival>,
) -> Result<i64, CaptureError> {
    let addresses: FxHashSet<_> = capture.addresses.iter().copied().collect();
    let own = |address: &IpAddr| addresses.is_empty() || addresses.contains(address);
    let mut packets = Packets::new(CaptureReader::open(&capture.path)?);
    let mut tracker = Tracker::default();
    let mut found = Found::default();
    // The tracker numbers the flows of this capture, `index` those of all captures.
    let mut global: Vec<Option<u32>> = Vec::new();
    let mut last_ns = i64::MIN;
    let mut number: u64 = 0;
    let mut ip_packets: u64 = 0;
    let mut pieces = Pieces(&capture.clock);
    while let Some(batch) = packets.next()? {
        for packet in batch.packets() {
            number += u64::from(packet.begins_record);
            let this = number - 1; // a batch begins with a record
            let time_ns = pieces.moved(this, packet.time_ns);
            last_ns = last_ns.max(time_ns);
            let Some(segment) = packet.segment() else {
                joined.unmatched.not_ip += 1;
                continue;
            };
            ip_packets += 1;
            let sent = own(&segment.key.src);
            if !sent && !own(&segment.key.dst) {
                joined.unmatched.foreign += 1;
                continue;
            }
            let tag = sent.then_some(joined.packets.len() as u64);
            let (local, retransmission) = tracker.packet(time_ns, segment, tag, &mut found);
            let flow = global_flow(&mut global, local, segment, index);
            let key = MatchKey::new(flow, segment);
            if sent {
                joined.packets.push(PacketRow {
                    flow,
                    sent_ns: time_ns,
                    sent_record: this,
                    wire_length: segment.wire_length,
                    seq: segment.tcp.map(|tcp| tcp.seq),
                    payload_length: segment.payload_length,
                    syn: segment.tcp.as_ref().is_some_and(|tcp| tcp.flags.syn()),
                    retransmission,
                    copy: false,
                    judged: false,
                    inferred: None,
                    confidence: None,
                    received_ns: None,
                    received_record: None,
                    drop: None,
                    passed_ns: None,
                });
                keys.push(key);
            } else {
                arrivals.push(Arrival {
                    key,
                    host,
                    time_ns,
                    record: this,
                });
            }
        }
        packets.reuse(batch);
    }
    joined.records.push(number);
    tracker.finish(&mut found);
    if let Some(reader) = packets.end() {
        let mut notes = Notes::new(reader, packets.merged(), tracker.flows());
        // A host of a run may have nothing to send or receive.
        if ip_packets == 0 && addresses.is_empty() {
            notes.without_ip = number;
        }
        if notes.truncated {
            joined.truncated.push(capture.path.clone());
        }
        joined.notes.push((capture.path.clone(), notes));
    }
    for (local, flow) in tracker.into_flows().iter().enumerate() {
        if own(&flow.key.src)
            && let Some(Some(global)) = global.get(local)
        {
            index.flows[*global as usize].stats = flow.stats;
        }
    }
    for tag in found.copies {
        if let Some(row) = joined.packets.get_mut(tag as usize) {
            row.copy = true;
        }
    }
    for (tag, verdict) in found.verdicts {
        // Tags are row indices, which fit in `usize` on 64-bit machines.
        let Some(row) = joined.packets.get_mut(tag as usize) else {
            continue;
        };
        match verdict {
            Verdict::Delivered { .. } => row.judged = true,
            Verdict::Lost { loss, .. } => {
                row.judged = true;
                row.inferred = Some((loss.detected_ns, loss.cause));
                row.confidence = Some(loss.confidence);
            }
            Verdict::Unknown => {}
        }
    }
    joined.rtts.extend(renumbered(found.rtts, &global));
    joined
        .delivery_rates
        .extend(renumbered(found.delivery_rates, &global));
    Ok(last_ns)
}

/// The pieces of a clock from that of the current record on.
struct Pieces<'a>(&'a [ClockPiece]);

impl Pieces<'_> {
    /// The time of the record with this number, which is not smaller than the one before; before the first piece, that applies.
    fn moved(&mut self, record: u64, time_ns: i64) -> i64 {
        while let [_, next, ..] = self.0
            && next.first_record <= record
        {
            self.0 = &self.0[1..];
        }
        self.0
            .first()
            .map_or(time_ns, |piece| piece.target(time_ns))
    }
}

/// Samples with flow numbers of this capture replaced by those of all captures.
fn renumbered<T>(samples: Vec<(u32, T)>, global: &[Option<u32>]) -> impl Iterator<Item = (u32, T)> {
    let all = samples.into_iter();
    all.filter_map(|(local, sample)| Some(((*global.get(local as usize)?)?, sample)))
}

fn global_flow(
    global: &mut Vec<Option<u32>>,
    local: u32,
    segment: &Segment,
    index: &mut FlowIndex,
) -> u32 {
    let local = local as usize;
    if global.len() <= local {
        global.resize(local + 1, None);
    }
    *global[local].get_or_insert_with(|| index.get_or_add(&segment.key))
}

/// Verdicts come long after their packets, so they are kept until all rows exist.
#[derive(Debug, Default)]
struct Found {
    verdicts: Vec<(u64, Verdict)>,
    copies: Vec<u64>,
    rtts: Vec<(u32, RttSample)>,
    delivery_rates: Vec<(u32, DeliveryRate)>,
}

impl FlowSink for Found {
    const DELIVERY_RATES: bool = true;

    fn verdict(&mut self, _flow: u32, tag: u64, verdict: Verdict) {
        self.verdicts.push((tag, verdict));
    }

    fn copy(&mut self, _flow: u32, tag: u64) {
        self.copies.push(tag);
    }

    fn rtt(&mut self, flow: u32, sample: RttSample) {
        self.rtts.push((flow, sample));
    }

    fn delivery_rate(&mut self, flow: u32, sample: DeliveryRate) {
        self.delivery_rates.push((flow, sample));
    }
}
