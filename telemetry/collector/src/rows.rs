// SPDX-License-Identifier: Apache-2.0
//! Reports as rows: the schema of `telemetry.parquet`, and the columns being filled.

use std::net::IpAddr;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Int64Builder, RecordBatch, StringBuilder,
    UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use rustc_hash::FxHashMap;
use weir_packet::{LinkType, Packet};
use weir_report::{Domain, GroupHeader, InnerType, Report, WeirMetadata};

/// Bytes of an IPv4 address as text, about.
const ADDRESS_BYTES: usize = 12;
/// Addresses whose text is kept.
const MAX_ADDRESS_TEXTS: usize = 4096;

/// Columns in which hardly a value comes twice, but the next one is near: their differences are stored.
pub(crate) const COUNTING_COLUMNS: [&str; 5] = [
    "received_ns",
    "sequence",
    "ingress_ns",
    "egress_ns",
    "packet_number",
];

/// Version of the columns, stored in each file.
pub(crate) const SCHEMA_VERSION: &str = "1";

/// The columns, in order. Nullable are those that a report may not carry.
pub(crate) fn schema() -> SchemaRef {
    let required = |name: &str, data_type| Field::new(name, data_type, false);
    let optional = |name: &str, data_type| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        required("received_ns", DataType::Int64),
        required("node_id", DataType::UInt32),
        required("hw_id", DataType::UInt8),
        required("sequence", DataType::UInt32),
        required("dropped", DataType::Boolean),
        required("congested", DataType::Boolean),
        required("tracked", DataType::Boolean),
        optional("queue_id", DataType::UInt8),
        optional("queue_occupancy", DataType::UInt32),
        optional("ingress_ns", DataType::UInt64),
        optional("egress_ns", DataType::UInt64),
        optional("drop_reason", DataType::UInt8),
        optional("policer", DataType::UInt16),
        optional("colour", DataType::UInt8),
        optional("wire_length", DataType::UInt32),
        optional("packet_number", DataType::UInt32),
        optional("queue_lost", DataType::UInt32),
        optional("src", DataType::Utf8),
        optional("dst", DataType::Utf8),
        optional("src_port", DataType::UInt16),
        optional("dst_port", DataType::UInt16),
        optional("protocol", DataType::UInt8),
        required("inner", DataType::Binary),
    ]))
}

/// Columns being filled, one row per report.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    length: usize,
    bytes: usize,
    received_ns: Int64Builder,
    node_id: UInt32Builder,
    hw_id: UInt8Builder,
    sequence: UInt32Builder,
    dropped: BooleanBuilder,
    congested: BooleanBuilder,
    tracked: BooleanBuilder,
    queue_id: UInt8Builder,
    queue_occupancy: UInt32Builder,
    ingress_ns: UInt64Builder,
    egress_ns: UInt64Builder,
    drop_reason: UInt8Builder,
    policer: UInt16Builder,
    colour: UInt8Builder,
    wire_length: UInt32Builder,
    packet_number: UInt32Builder,
    queue_lost: UInt32Builder,
    addresses: AddressTexts,
    src: StringBuilder,
    dst: StringBuilder,
    src_port: UInt16Builder,
    dst_port: UInt16Builder,
    protocol: UInt8Builder,
    inner: BinaryBuilder,
}

impl Rows {
    /// Rows since the last [`Rows::take`].
    pub(crate) const fn len(&self) -> usize {
        self.length
    }

    /// Bytes of inner packets since the last [`Rows::take`]: the part of a row that has no fixed size.
    pub(crate) const fn inner_bytes(&self) -> usize {
        self.bytes
    }

    /// Appends one report that came at `received_ns` (Unix time).
    pub(crate) fn push(&mut self, received_ns: i64, group: &GroupHeader, report: &Report<'_>) {
        self.length += 1;
        self.bytes += report.inner.len();
        self.received_ns.append_value(received_ns);
        self.node_id.append_value(group.node_id);
        self.hw_id.append_value(group.hw_id);
        self.sequence.append_value(group.sequence);
        self.dropped.append_value(report.dropped);
        self.congested.append_value(report.congested);
        self.tracked.append_value(report.tracked);

        let baseline = &report.baseline;
        // Either block may name the packet's queue; a drop report of another switch may have the second alone.
        let queue_id = baseline
            .queue
            .map(|queue| queue.id)
            .or(baseline.drop.map(|drop| drop.queue_id));
        self.queue_id.append_option(queue_id);
        self.queue_occupancy
            .append_option(baseline.queue.map(|queue| queue.level));
        self.ingress_ns.append_option(baseline.ingress_ns);
        self.egress_ns.append_option(baseline.egress_ns);
        self.drop_reason
            .append_option(baseline.drop.map(|drop| drop.reason));

        let weir = match report.domain {
            Domain::Weir(weir) => weir,
            Domain::Other { .. } => WeirMetadata::default(),
        };
        self.policer
            .append_option(weir.verdict.map(|verdict| verdict.policer));
        self.colour
            .append_option(weir.verdict.map(|verdict| verdict.colour));
        self.wire_length.append_option(weir.wire_length);
        self.packet_number.append_option(weir.packet_number);
        self.queue_lost.append_option(weir.queue_lost);

        self.push_flow(report);
        self.inner.append_value(report.inner);
    }

    /// Addresses, ports and protocol, as far as the inner packet shows them.
    fn push_flow(&mut self, report: &Report<'_>) {
        let packet = match report.inner_type {
            InnerType::Ethernet => {
                Packet::parse(LinkType::Ethernet, report.inner, report.inner.len()).ok()
            }
            InnerType::Ipv4 | InnerType::Ipv6 => {
                Packet::parse(LinkType::RawIp, report.inner, report.inner.len()).ok()
            }
            _ => None,
        };
        let ip = packet.as_ref().and_then(Packet::ip);
        let ports = packet.as_ref().and_then(Packet::ports);
        let src = ip.map(|ip| self.addresses.text(ip.src()));
        self.src.append_option(src);
        let dst = ip.map(|ip| self.addresses.text(ip.dst()));
        self.dst.append_option(dst);
        self.src_port.append_option(ports.map(|(src, _)| src));
        self.dst_port.append_option(ports.map(|(_, dst)| dst));
        self.protocol
            .append_option(ip.map(weir_packet::Ip::protocol));
    }

    /// The rows as a record batch; what follows begins anew, with room for as much again.
    pub(crate) fn take(&mut self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let mut taken = std::mem::replace(self, Self::with_capacity(self.length, self.bytes));
        std::mem::swap(&mut self.addresses, &mut taken.addresses);
        taken.into_batch(schema)
    }

    /// Columns that need not grow up to so many rows and bytes of inner packets.
    fn with_capacity(rows: usize, inner_bytes: usize) -> Self {
        Self {
            length: 0,
            bytes: 0,
            received_ns: Int64Builder::with_capacity(rows),
            node_id: UInt32Builder::with_capacity(rows),
            hw_id: UInt8Builder::with_capacity(rows),
            sequence: UInt32Builder::with_capacity(rows),
            dropped: BooleanBuilder::with_capacity(rows),
            congested: BooleanBuilder::with_capacity(rows),
            tracked: BooleanBuilder::with_capacity(rows),
            queue_id: UInt8Builder::with_capacity(rows),
            queue_occupancy: UInt32Builder::with_capacity(rows),
            ingress_ns: UInt64Builder::with_capacity(rows),
            egress_ns: UInt64Builder::with_capacity(rows),
            drop_reason: UInt8Builder::with_capacity(rows),
            policer: UInt16Builder::with_capacity(rows),
            colour: UInt8Builder::with_capacity(rows),
            wire_length: UInt32Builder::with_capacity(rows),
            packet_number: UInt32Builder::with_capacity(rows),
            queue_lost: UInt32Builder::with_capacity(rows),
            addresses: AddressTexts::default(),
            src: StringBuilder::with_capacity(rows, rows * ADDRESS_BYTES),
            dst: StringBuilder::with_capacity(rows, rows * ADDRESS_BYTES),
            src_port: UInt16Builder::with_capacity(rows),
            dst_port: UInt16Builder::with_capacity(rows),
            protocol: UInt8Builder::with_capacity(rows),
            inner: BinaryBuilder::with_capacity(rows, inner_bytes),
        }
    }

    fn into_batch(mut self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.received_ns.finish()),
            Arc::new(self.node_id.finish()),
            Arc::new(self.hw_id.finish()),
            Arc::new(self.sequence.finish()),
            Arc::new(self.dropped.finish()),
            Arc::new(self.congested.finish()),
            Arc::new(self.tracked.finish()),
            Arc::new(self.queue_id.finish()),
            Arc::new(self.queue_occupancy.finish()),
            Arc::new(self.ingress_ns.finish()),
            Arc::new(self.egress_ns.finish()),
            Arc::new(self.drop_reason.finish()),
            Arc::new(self.policer.finish()),
            Arc::new(self.colour.finish()),
            Arc::new(self.wire_length.finish()),
            Arc::new(self.packet_number.finish()),
            Arc::new(self.queue_lost.finish()),
            Arc::new(self.src.finish()),
            Arc::new(self.dst.finish()),
            Arc::new(self.src_port.finish()),
            Arc::new(self.dst_port.finish()),
            Arc::new(self.protocol.finish()),
            Arc::new(self.inner.finish()),
        ];
        RecordBatch::try_new(Arc::clone(schema), columns)
    }
}

/// Addresses as text: a flow has the same two in each of its reports, and to format one takes longer than to decode a
/// report.
#[derive(Debug, Default)]
struct AddressTexts(FxHashMap<IpAddr, Box<str>>);

impl AddressTexts {
    fn text(&mut self, address: IpAddr) -> &str {
        // They come from outside, and each one takes memory.
        if self.0.len() >= MAX_ADDRESS_TEXTS {
            self.0.clear();
        }
        self.0
            .entry(address)
            .or_insert_with(|| address.to_string().into())
    }
}
