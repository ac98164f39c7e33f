// SPDX-License-Identifier: Apache-2.0
//! The input and the result of a join: host captures, packets, flows.

use std::net::IpAddr;
use std::path::PathBuf;

use rustc_hash::FxHashMap;
use weir_packet::FlowKey;

use super::reports::Drop;
use crate::infer::{Cause, Confidence, DeliveryRate, RttSample};
use crate::notes::Notes;
use crate::tracker::FlowStats;

/// A host's capture.
#[derive(Debug, Clone, PartialEq)]
pub struct HostCapture {
    /// The pcap file.
    pub path: PathBuf,
    /// The host's own addresses: it sent the packets from them. If empty, every address is its own.
    pub addresses: Vec<IpAddr>,
    /// Moves the times of its records to another clock, piece by piece in the order of the file; if empty, they stay.
    pub clock: Vec<ClockPiece>,
}

/// How a capture's times become those of another clock, from one of its records to the next piece's first.
///
/// The record and not the time says where it begins: a clock that was set back shows some times twice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockPiece {
    /// Number of its first record in the file, from 0.
    pub first_record: u64,
    /// A time of the capture's clock, …
    pub source_ns: i64,
    /// … and of the other clock at the same moment.
    pub target_ns: i64,
    /// By how much the other clock runs faster, as a part of the time.
    pub drift: f64,
}

impl ClockPiece {
    /// The other clock's time.
    pub fn target(&self, time_ns: i64) -> i64 {
        let since = time_ns.saturating_sub(self.source_ns);
        let drift = (since as f64 * self.drift).round() as i64;
        self.target_ns.saturating_add(since).saturating_add(drift)
    }
}

/// One IP packet that a host sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketRow {
    /// Index of its flow.
    pub flow: u32,
    /// Capture time at the sender, by its clock or the one it was moved to.
    pub sent_ns: i64,
    /// Number of its record in the sender's capture, from 0.
    pub sent_record: u64,
    /// Bytes of the frame without FCS.
    pub wire_length: u32,
    /// TCP sequence number.
    pub seq: Option<u32>,
    /// Bytes after the transport header.
    pub payload_length: u32,
    /// It has the SYN flag: with another number than the SYN before, it begins a connection on the same ports.
    pub syn: bool,
    /// It repeats sequence numbers that were sent before.
    pub retransmission: bool,
    /// The capture has an earlier packet a second time; this is the second one.
    pub copy: bool,
    /// The inference has a verdict: it takes sequence space and did not end in flight.
    pub judged: bool,
    /// When and how the inference from the sender's capture detected the loss of this transmission.
    pub inferred: Option<(i64, Cause)>,
    /// How well that loss is corroborated.
    pub confidence: Option<Confidence>,
    /// Capture time at the receiver, by its clock or the one it was moved to.
    pub received_ns: Option<i64>,
    /// Number of its record in the receiver's capture, from 0.
    pub received_record: Option<u64>,
    /// The switch's drop report.
    pub drop: Option<Drop>,
    /// When it came into the switch by the report of a packet that passed, on the switch's clock.
    pub passed_ns: Option<u64>,
}

/// One directed flow.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedFlow {
    /// Its 5-tuple.
    pub key: FlowKey,
    /// Packets in the sender's capture.
    pub sent: u64,
    /// Of those, packets in the receiver's capture.
    pub received: u64,
    /// Of those sent, packets reported dropped.
    pub reported_drops: u64,
    /// Neither received nor reported, and sent so late that the receiver's capture may have ended before.
    pub in_flight_candidates: u64,
    /// Payload bytes received (after the transport headers), retransmissions included.
    pub received_payload_bytes: u64,
    /// Counters of the sender's capture.
    pub stats: FlowStats,
}

/// Counts of packets and reports without a match, and of frames left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unmatched {
    /// Drop reports of packets that no capture shows as sent.
    pub reports: u64,
    /// Packets received that no capture shows as sent.
    pub received: u64,
    /// Packets that were received and reported as dropped as well.
    pub received_and_dropped: u64,
    /// Drop reports whose inner frame is not IP.
    pub reports_not_ip: u64,
    /// Captured frames that are not IP (ARP, …) or whose IP header cannot be read.
    pub not_ip: u64,
    /// Captured IP packets that the capturing host neither sent nor was the destination of.
    pub foreign: u64,
}

/// The result of a join.
#[derive(Debug, Default)]
pub struct Joined {
    /// Flows, in order of their first packet in the captures as given.
    pub flows: Vec<JoinedFlow>,
    /// Packets, in order of the captures as given, then of the file.
    pub packets: Vec<PacketRow>,
    /// Round-trip times with the index of their flow.
    pub rtts: Vec<(u32, RttSample)>,
    /// Delivery rates with the index of their flow.
    pub delivery_rates: Vec<(u32, DeliveryRate)>,
    /// Counts of packets and reports without a match.
    pub unmatched: Unmatched,
    /// Records of each capture, in the order of the captures as given.
    pub records: Vec<u64>,
    /// Captures that end inside a record.
    pub truncated: Vec<PathBuf>,
    /// Warnings about each capture, truncation among them.
    pub notes: Vec<(PathBuf, Notes)>,
}

/// Flows of all captures by their 5-tuple.
#[derive(Debug, Default)]
pub(super) struct FlowIndex {
    pub(super) flows: Vec<JoinedFlow>,
    pub(super) by_key: FxHashMap<FlowKey, u32>,
}

impl FlowIndex {
    pub(super) fn get_or_add(&mut self, key: &FlowKey) -> u32 {
        *self.by_key.entry(*key).or_insert_with(|| {
            self.flows.push(JoinedFlow {
                key: *key,
                sent: 0,
                received: 0,
                reported_drops: 0,
                in_flight_candidates: 0,
                received_payload_bytes: 0,
                stats: FlowStats::default(),
            });
            // 2³² flows would need more memory than any machine has.
            (self.flows.len() - 1) as u32
        })
    }
}
