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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCapture {
    /// The pcap file.
    pub path: PathBuf,
    /// The host's own addresses: it sent the packets from them. If empty, every address is its own.
    pub addresses: Vec<IpAddr>,
}

/// One IP packet that a host sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketRow {
    /// Index of its flow.
    pub flow: u32,
    /// Capture time at the sender, by its clock.
    pub sent_ns: i64,
    /// Bytes of the frame without FCS.
    pub wire_length: u32,
    /// TCP sequence number.
    pub seq: Option<u32>,
    /// Bytes after the transport header.
    pub payload_length: u32,
    /// It repeats sequence numbers that were sent before.
    pub retransmission: bool,
    /// The inference has a verdict: it takes sequence space and did not end in flight.
    pub judged: bool,
    /// When and how the inference from the sender's capture detected the loss of this transmission.
    pub inferred: Option<(i64, Cause)>,
    /// How well that loss is corroborated.
    pub confidence: Option<Confidence>,
    /// Capture time at the receiver, by its clock.
    pub received_ns: Option<i64>,
    /// The switch's drop report.
    pub drop: Option<Drop>,
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
