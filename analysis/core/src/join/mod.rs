// SPDX-License-Identifier: Apache-2.0
//! Captures of several hosts and the switch's drop reports, joined packet by packet.
//!
//! Every IP packet that a host sent becomes one row: its arrival in the receiver's capture, the switch's drop report, and
//! the inference from the sender's capture alone.
//!
//! - `joined`: the input and the result of a join
//! - `key`: the key that identifies a packet in two captures
//! - `packets`: one host's capture as rows and arrivals
//! - `reports`: drop reports from the rows of `telemetry.parquet`
//! - `matching`: finds the row of an arrival or a report

mod joined;
mod key;
mod matching;
mod packets;
mod reports;

use std::net::IpAddr;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use rustc_hash::FxHashMap;

use crate::CaptureError;
use joined::FlowIndex;
pub use joined::{ClockPiece, HostCapture, Joined, JoinedFlow, PacketRow, Unmatched};
use key::{Arrival, MatchKey};
use matching::Matcher;
use packets::read_host;
use reports::Reported;
pub use reports::{Drop, Reports};

/// Joins `captures` with the drop reports among `reports`, if there are any.
///
/// # Errors
/// [`CaptureError`] for a file that cannot be read as what it should be, and for an address that two captures claim.
pub fn join_run<B: Iterator<Item = Result<RecordBatch, ArrowError>>>(
    captures: &[HostCapture],
    reports: Option<Reports<'_, B>>,
) -> Result<Joined, CaptureError> {
    let found = reports.map(Reports::read).transpose()?;
    join_reports(captures, &found.unwrap_or_default())
}

fn join_reports(captures: &[HostCapture], reports: &Reported) -> Result<Joined, CaptureError> {
    let owners = owners(captures)?;
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
    matcher.drops(&mut joined, &reports.drops, &index);
    matcher.passed(&mut joined, &reports.passed, &index);
    let longest_delay_ns = matcher.longest_delay_ns;
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
            && let Some(&delay_ns) = longest_delay_ns.get(&(sender, receiver))
            && row.sent_ns + delay_ns >= last_ns.get(receiver as usize).copied().unwrap_or(i64::MAX)
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
                return Err(CaptureError::of_file(
                    &capture.path,
                    problem,
                    "one capture per host address",
                ));
            }
        }
    }
    Ok(owners)
}
