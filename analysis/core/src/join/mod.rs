// SPDX-License-Identifier: Apache-2.0
//! Captures of several hosts and the switch's drop reports, joined packet by packet.
//!
//! Every IP packet that a host sent becomes one row: what the receiver's capture says of it, what the switch reported,
//! and what the sender's capture alone lets one infer.
//!
//! - `packets`: one host's capture as rows and arrivals
//! - `reports`: drop reports from `telemetry.parquet`
//! - `matching`: which row an arrival or a report is about

mod matching;
mod packets;
mod reports;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use weir_packet::FlowKey;

use crate::CaptureError;
use crate::infer::{Cause, Confidence, DeliveryRate, RttSample};
use crate::notes::Notes;
use crate::tracker::FlowStats;
use matching::{MatchKey, Matcher};
use packets::{Arrival, read_host};
pub use reports::Drop;
use reports::read_drops;

/// A host's capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCapture {
    /// The pcap file.
    pub path: PathBuf,
    /// The host's own addresses: what they send is sent by this host. Where none is given, every address is its own.
    pub addresses: Vec<IpAddr>,
}

/// One IP packet that a host sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketRow {
    /// Index of its flow.
    pub flow: u32,
    /// Sender's clock.
    pub sent_ns: i64,
    /// Bytes of the frame without FCS.
    pub wire_length: u32,
    /// TCP sequence number.
    pub seq: Option<u32>,
    /// Bytes behind the transport header.
    pub payload_length: u32,
    /// It repeats sequence numbers that were sent before.
    pub retransmission: bool,
    /// The inference has a verdict: it takes sequence space and did not end in flight.
    pub judged: bool,
    /// When and why the sender's capture says that this transmission was lost.
    pub inferred: Option<(i64, Cause)>,
    /// How well that is corroborated.
    pub confidence: Option<Confidence>,
    /// Receiver's clock.
    pub received_ns: Option<i64>,
    /// The switch's report.
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
    /// Bytes of the packets received behind their transport headers, retransmissions included.
    pub received_payload_bytes: u64,
    /// Counters of the sender's capture.
    pub stats: FlowStats,
}

/// What found no partner, and what was left out.
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
    /// Captured IP packets that the capturing host neither sent nor was addressed by.
    pub foreign: u64,
}

/// The result.
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
    /// What found no partner.
    pub unmatched: Unmatched,
    /// Captures that end inside a record.
    pub truncated: Vec<PathBuf>,
    /// That of each capture, and what else the reader should know.
    pub notes: Vec<(PathBuf, Notes)>,
}

/// Joins `captures` with the drop reports of `reports` (a `telemetry.parquet`), if there are any.
///
/// # Errors
/// [`CaptureError`] for a file that cannot be read as what it should be, and for an address that two captures claim.
pub fn join_run(captures: &[HostCapture], reports: Option<&Path>) -> Result<Joined, CaptureError> {
    let owners = owners(captures)?;
    let drops = reports.map(read_drops).transpose()?.unwrap_or_default();
    let mut joined = Joined::default();
    let mut index = FlowIndex::default();
    let mut keys: Vec<MatchKey> = Vec::new();
    let mut arrivals: Vec<Arrival> = Vec::new();
    let mut last_ns = Vec::new();
    for (host, capture) in (0..).zip(captures) {
        last_ns.push(read_host(
            host,
            capture,
            &mut index,
            &mut joined,
            &mut keys,
            &mut arrivals,
        )?);
    }
    let mut senders = Vec::with_capacity(index.flows.len());
    for flow in &index.flows {
        senders.push(owners.get(&flow.key.src).copied());
    }
    let mut matcher = Matcher::new(&keys, &joined.packets, &senders);
    matcher.arrivals(&mut joined, &arrivals);
    matcher.drops(&mut joined, &drops, &index);
    let longest_way_ns = matcher.longest_way_ns;
    let mut flows = index.flows;
    for row in &joined.packets {
        let flow = &mut flows[row.flow as usize];
        flow.sent += 1;
        if row.received_ns.is_some() {
            flow.received += 1;
            flow.received_payload_bytes += u64::from(row.payload_length);
        }
        flow.reported_drops += u64::from(row.drop.is_some());
        joined.unmatched.received_and_dropped +=
            u64::from(row.received_ns.is_some() && row.drop.is_some());
        let (sender, receiver) = (owners.get(&flow.key.src), owners.get(&flow.key.dst));
        if row.received_ns.is_none()
            && row.drop.is_none()
            && let (Some(&sender), Some(&receiver)) = (sender, receiver)
            && let Some(&way_ns) = longest_way_ns.get(&(sender, receiver))
            && row.sent_ns + way_ns >= last_ns.get(receiver as usize).copied().unwrap_or(i64::MAX)
        {
            flow.in_flight_candidates += 1;
        }
    }
    joined.flows = flows;
    Ok(joined)
}

fn owners(captures: &[HostCapture]) -> Result<FxHashMap<IpAddr, u32>, CaptureError> {
    let mut owners = FxHashMap::default();
    for (host, capture) in (0..).zip(captures) {
        for &address in &capture.addresses {
            if owners
                .insert(address, host)
                .is_some_and(|other| other != host)
            {
                let problem = format!("address {address} is claimed by another capture as well");
                return Err(CaptureError::new(
                    &capture.path,
                    0,
                    problem,
                    "one capture per host address",
                ));
            }
        }
    }
    Ok(owners)
}

/// Flows of all captures by their 5-tuple.
#[derive(Debug, Default)]
struct FlowIndex {
    flows: Vec<JoinedFlow>,
    by_key: FxHashMap<FlowKey, u32>,
}

impl FlowIndex {
    fn get_or_add(&mut self, key: &FlowKey) -> u32 {
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
