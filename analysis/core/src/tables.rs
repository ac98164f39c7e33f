// SPDX-License-Identifier: Apache-2.0
//! Results as Arrow record batches. Units are in the column names; addresses are text, except in [`segments`] and
//! [`acknowledged`].

use std::net::IpAddr;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, Field, Schema};
use weir_packet::FlowKey;

use crate::acknowledged::Acknowledged;
use crate::infer::{Cause, Confidence, DeliveryRate, Loss, RttSample};
use crate::join::Joined;
use crate::tracker::{Flow, FlowStats};
use crate::transport::TransportPacket;

type Columns = Vec<(&'static str, bool, ArrayRef)>;

fn batch(columns: Columns) -> Result<RecordBatch, ArrowError> {
    let field = |(name, nullable, array): &(&str, bool, ArrayRef)| {
        Field::new(*name, array.data_type().clone(), *nullable)
    };
    let fields: Vec<Field> = columns.iter().map(field).collect();
    let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

macro_rules! column {
    ($name:literal, $array:ty, $values:expr) => {
        (
            $name,
            false,
            Arc::new(<$array>::from_iter_values($values)) as ArrayRef,
        )
    };
}

macro_rules! nullable {
    ($name:literal, $array:ty, $values:expr) => {
        (
            $name,
            true,
            Arc::new($values.collect::<$array>()) as ArrayRef,
        )
    };
}

fn text(values: impl Iterator<Item = String>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn flag(name: &'static str, values: impl Iterator<Item = bool>) -> (&'static str, bool, ArrayRef) {
    let values: Vec<bool> = values.collect();
    (
        name,
        false,
        Arc::new(BooleanArray::from(values)) as ArrayRef,
    )
}

/// Columns `flow, src, dst, src_port, dst_port, protocol`.
fn keys<'a>(keys: impl ExactSizeIterator<Item = &'a FlowKey> + Clone) -> Columns {
    let count = u32::try_from(keys.len()).unwrap_or(u32::MAX);
    vec![
        column!("flow", UInt32Array, 0..count),
        (
            "src",
            false,
            text(keys.clone().map(|key| key.src.to_string())),
        ),
        (
            "dst",
            false,
            text(keys.clone().map(|key| key.dst.to_string())),
        ),
        column!(
            "src_port",
            UInt16Array,
            keys.clone().map(|key| key.src_port)
        ),
        column!(
            "dst_port",
            UInt16Array,
            keys.clone().map(|key| key.dst_port)
        ),
        column!("protocol", UInt8Array, keys.map(|key| key.protocol)),
    ]
}

/// Flows of one capture: `packets, bytes, payload_bytes, first_ns, last_ns, min_rtt_ns?, retransmissions, spurious,
/// losses`, the losses by cause `fast_retransmit, rto, lost_retransmission, tail`, and
/// `losses_before, overtaken, copies, missed_bytes, cut_acknowledgments`, after the 5-tuple.
///
/// # Errors
/// [`ArrowError`] when the columns do not fit together, which would be a bug here.
pub fn flows(flows: &[Flow]) -> Result<RecordBatch, ArrowError> {
    let stats = || flows.iter().map(|flow| &flow.stats);
    let mut columns = keys(flows.iter().map(|flow| &flow.key));
    columns.extend([
        column!("packets", UInt64Array, stats().map(|stats| stats.packets)),
        column!("bytes", UInt64Array, stats().map(|stats| stats.bytes)),
        column!(
            "payload_bytes",
            UInt64Array,
            stats().map(|stats| stats.payload_bytes)
        ),
        column!("first_ns", Int64Array, stats().map(|stats| stats.first_ns)),
        column!("last_ns", Int64Array, stats().map(|stats| stats.last_ns)),
        nullable!(
            "min_rtt_ns",
            Int64Array,
            stats().map(|stats| stats.min_rtt_ns)
        ),
        column!(
            "retransmissions",
            UInt64Array,
            stats().map(|stats| stats.retransmissions)
        ),
        column!("spurious", UInt64Array, stats().map(|stats| stats.spurious)),
        column!("losses", UInt64Array, stats().map(|stats| stats.losses)),
    ]);
    for cause in Cause::ALL {
        let counts = stats().map(|stats| stats.losses_by_cause[cause as usize]);
        columns.push((
            cause.name(),
            false,
            Arc::new(UInt64Array::from_iter_values(counts)),
        ));
    }
    columns.extend([
        column!(
            "losses_before",
            UInt64Array,
            stats().map(|stats| stats.losses_before)
        ),
        column!(
            "overtaken",
            UInt64Array,
            stats().map(|stats| stats.overtaken)
        ),
        column!("copies", UInt64Array, stats().map(|stats| stats.copies)),
        column!(
            "missed_bytes",
            UInt64Array,
            stats().map(|stats| stats.missed_bytes)
        ),
        column!(
            "cut_acknowledgments",
            UInt64Array,
            stats().map(|stats| stats.cut_acknowledgments)
        ),
    ]);
    batch(columns)
}

/// Loss events: `flow, sent_ns, detected_ns, seq, length, cause, place, confidence`.
///
/// # Errors
/// As [`flows`].
pub fn losses(losses: &[(u32, Loss)]) -> Result<RecordBatch, ArrowError> {
    let events = || losses.iter().map(|(_, loss)| loss);
    batch(vec![
        column!("flow", UInt32Array, losses.iter().map(|(flow, _)| *flow)),
        column!("sent_ns", Int64Array, events().map(|loss| loss.sent_ns)),
        column!(
            "detected_ns",
            Int64Array,
            events().map(|loss| loss.detected_ns)
        ),
        column!("seq", UInt32Array, events().map(|loss| loss.seq)),
        column!("length", UInt32Array, events().map(|loss| loss.length)),
        (
            "cause",
            false,
            names(events().map(|loss| Some(loss.cause.name()))),
        ),
        (
            "place",
            false,
            names(events().map(|loss| Some(loss.place.name()))),
        ),
        (
            "confidence",
            false,
            names(events().map(|loss| Some(loss.confidence.name()))),
        ),
    ])
}

/// Round-trip times: `flow, time_ns, rtt_ns`.
///
/// # Errors
/// As [`flows`].
pub fn rtts(rtts: &[(u32, RttSample)]) -> Result<RecordBatch, ArrowError> {
    batch(vec![
        column!("flow", UInt32Array, rtts.iter().map(|(flow, _)| *flow)),
        column!(
            "time_ns",
            Int64Array,
            rtts.iter().map(|(_, sample)| sample.time_ns)
        ),
        column!(
            "rtt_ns",
            Int64Array,
            rtts.iter().map(|(_, sample)| sample.rtt_ns)
        ),
    ])
}

/// Delivery rates: `flow, time_ns, delivered_bytes, interval_ns, rate_bps, retransmission`.
///
/// # Errors
/// As [`flows`].
pub fn delivery_rates(rates: &[(u32, DeliveryRate)]) -> Result<RecordBatch, ArrowError> {
    let samples = || rates.iter().map(|(_, sample)| sample);
    batch(vec![
        column!("flow", UInt32Array, rates.iter().map(|(flow, _)| *flow)),
        column!(
            "time_ns",
            Int64Array,
            samples().map(|sample| sample.time_ns)
        ),
        column!(
            "delivered_bytes",
            UInt64Array,
            samples().map(|sample| sample.delivered_bytes)
        ),
        column!(
            "interval_ns",
            Int64Array,
            samples().map(|sample| sample.interval_ns)
        ),
        column!(
            "rate_bps",
            Float64Array,
            samples().map(DeliveryRate::bits_per_second)
        ),
        flag(
            "retransmission",
            samples().map(|sample| sample.retransmission),
        ),
    ])
}

/// Flows of a run: packets sent, received and reported dropped of each.
///
/// # Errors
/// As [`flows`].
pub fn joined_flows(joined: &Joined) -> Result<RecordBatch, ArrowError> {
    let flows = || joined.flows.iter();
    let stats = || flows().map(|flow| &flow.stats);
    let seen = |stats: &FlowStats, time_ns: i64| (stats.packets > 0).then_some(time_ns);
    let mut columns = keys(flows().map(|flow| &flow.key));
    columns.extend([
        column!("sent", UInt64Array, flows().map(|flow| flow.sent)),
        column!("received", UInt64Array, flows().map(|flow| flow.received)),
        column!(
            "reported_drops",
            UInt64Array,
            flows().map(|flow| flow.reported_drops)
        ),
        column!(
            "in_flight_candidates",
            UInt64Array,
            flows().map(|flow| flow.in_flight_candidates)
        ),
        column!("sent_bytes", UInt64Array, stats().map(|stats| stats.bytes)),
        column!(
            "received_payload_bytes",
            UInt64Array,
            flows().map(|flow| flow.received_payload_bytes)
        ),
        nullable!(
            "first_ns",
            Int64Array,
            stats().map(|stats| seen(stats, stats.first_ns))
        ),
        nullable!(
            "last_ns",
            Int64Array,
            stats().map(|stats| seen(stats, stats.last_ns))
        ),
        nullable!(
            "min_rtt_ns",
            Int64Array,
            stats().map(|stats| stats.min_rtt_ns)
        ),
        nullable!(
            "mean_rtt_ns",
            Float64Array,
            stats().map(FlowStats::mean_rtt_ns)
        ),
        column!(
            "retransmissions",
            UInt64Array,
            stats().map(|stats| stats.retransmissions)
        ),
        column!("spurious", UInt64Array, stats().map(|stats| stats.spurious)),
    ]);
    batch(columns)
}

/// Packets of a run, one row per IP packet sent.
///
/// # Errors
/// As [`flows`].
pub fn joined_packets(joined: &Joined) -> Result<RecordBatch, ArrowError> {
    let rows = || joined.packets.iter();
    let drops = || rows().map(|row| row.drop);
    let inferred = || rows().map(|row| row.inferred);
    batch(vec![
        column!("flow", UInt32Array, rows().map(|row| row.flow)),
        column!("sent_ns", Int64Array, rows().map(|row| row.sent_ns)),
        column!(
            "wire_length",
            UInt32Array,
            rows().map(|row| row.wire_length)
        ),
        nullable!("seq", UInt32Array, rows().map(|row| row.seq)),
        column!(
            "payload_length",
            UInt32Array,
            rows().map(|row| row.payload_length)
        ),
        flag("syn", rows().map(|row| row.syn)),
        flag("retransmission", rows().map(|row| row.retransmission)),
        flag("copy", rows().map(|row| row.copy)),
        flag("judged", rows().map(|row| row.judged)),
        flag(
            "inferred_lost",
            inferred().map(|inferred| inferred.is_some()),
        ),
        (
            "cause",
            true,
            names(inferred().map(|inferred| inferred.map(|(_, cause)| cause.name()))),
        ),
        (
            "confidence",
            true,
            names(rows().map(|row| row.confidence.map(Confidence::name))),
        ),
        nullable!(
            "inferred_at_ns",
            Int64Array,
            inferred().map(|inferred| inferred.map(|(time_ns, _)| time_ns))
        ),
        nullable!("received_ns", Int64Array, rows().map(|row| row.received_ns)),
        column!(
            "sent_record",
            UInt64Array,
            rows().map(|row| row.sent_record)
        ),
        nullable!(
            "received_record",
            UInt64Array,
            rows().map(|row| row.received_record)
        ),
        nullable!("passed_ns", UInt64Array, rows().map(|row| row.passed_ns)),
        flag("dropped", drops().map(|drop| drop.is_some())),
        nullable!("policer", UInt16Array, drops().map(|drop| drop?.policer)),
        nullable!("colour", UInt8Array, drops().map(|drop| drop?.colour)),
        nullable!(
            "packet_number",
            UInt32Array,
            drops().map(|drop| drop?.packet_number)
        ),
        nullable!(
            "ingress_ns",
            UInt64Array,
            drops().map(|drop| drop?.ingress_ns)
        ),
    ])
}

/// TCP segments and UDP datagrams: `time_ns, src, dst, src_port, dst_port, protocol, seq?, ack?, syn, payload_bytes`.
/// Addresses are bytes in network order, 4 or 16 of them: text would cost more than all other columns together.
///
/// # Errors
/// As [`flows`].
pub fn segments(packets: &[TransportPacket]) -> Result<RecordBatch, ArrowError> {
    let rows = || packets.iter();
    let keys = || rows().map(|packet| &packet.key);
    let tcp = || rows().map(|packet| packet.tcp);
    batch(vec![
        column!("time_ns", Int64Array, rows().map(|packet| packet.time_ns)),
        ("src", false, addresses(keys().map(|key| key.src))),
        ("dst", false, addresses(keys().map(|key| key.dst))),
        column!("src_port", UInt16Array, keys().map(|key| key.src_port)),
        column!("dst_port", UInt16Array, keys().map(|key| key.dst_port)),
        column!("protocol", UInt8Array, keys().map(|key| key.protocol)),
        nullable!("seq", UInt32Array, tcp().map(|tcp| Some(tcp?.seq))),
        nullable!("ack", UInt32Array, tcp().map(|tcp| tcp?.ack)),
        flag("syn", tcp().map(|tcp| tcp.is_some_and(|tcp| tcp.syn))),
        nullable!(
            "tsval",
            UInt32Array,
            tcp().map(|tcp| Some(tcp?.timestamps?.value))
        ),
        nullable!(
            "tsecr",
            UInt32Array,
            tcp().map(|tcp| Some(tcp?.timestamps?.echo_reply))
        ),
        column!(
            "payload_bytes",
            UInt32Array,
            rows().map(|packet| packet.payload_bytes)
        ),
    ])
}

/// Acknowledged bytes: `time_ns, src, dst, src_port, dst_port` (of the flow of the data), `seq, length`; addresses as in
/// [`segments`].
///
/// # Errors
/// [`ArrowError`] when the columns do not fit together, which would be a bug here.
pub fn acknowledged(rows: &[Acknowledged]) -> Result<RecordBatch, ArrowError> {
    let keys = || rows.iter().map(|row| &row.key);
    batch(vec![
        column!("time_ns", Int64Array, rows.iter().map(|row| row.time_ns)),
        ("src", false, addresses(keys().map(|key| key.src))),
        ("dst", false, addresses(keys().map(|key| key.dst))),
        column!("src_port", UInt16Array, keys().map(|key| key.src_port)),
        column!("dst_port", UInt16Array, keys().map(|key| key.dst_port)),
        column!("seq", UInt32Array, rows.iter().map(|row| row.seq)),
        column!("length", UInt32Array, rows.iter().map(|row| row.length)),
    ])
}

fn addresses(values: impl Iterator<Item = IpAddr>) -> ArrayRef {
    let mut addresses = BinaryBuilder::new();
    for value in values {
        match value {
            IpAddr::V4(address) => addresses.append_value(address.octets()),
            IpAddr::V6(address) => addresses.append_value(address.octets()),
        }
    }
    Arc::new(addresses.finish())
}

fn names(values: impl Iterator<Item = Option<&'static str>>) -> ArrayRef {
    let mut names = StringBuilder::new();
    for value in values {
        names.append_option(value);
    }
    Arc::new(names.finish())
}
