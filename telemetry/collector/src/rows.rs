// SPDX-License-Identifier: Apache-2.0
//! Reports as rows: the schema of `telemetry.parquet`, and the columns while they are filled.

use std::net::IpAddr;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Int64Array, PrimitiveArray, RecordBatch, StringArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Field, Schema, SchemaRef, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow::error::ArrowError;
use rustc_hash::FxHashMap;
use weir_packet::{LinkType, Packet};
use weir_report::{Domain, GroupHeader, InnerType, Report, WeirMetadata};

/// Columns whose values rarely repeat but are close to the previous one: stored as differences.
pub(crate) const COUNTING_COLUMNS: [&str; 5] = [
    "received_ns",
    "sequence",
    "ingress_ns",
    "egress_ns",
    "packet_number",
];
/// Columns with few values and long runs of each: no dictionary.
pub(crate) const STEADY_COLUMNS: [&str; 9] = [
    "node_id",
    "hw_id",
    "queue_id",
    "queue_occupancy",
    "drop_reason",
    "colour",
    "wire_length",
    "queue_lost",
    "protocol",
];
/// Columns whose minimum and maximum are of no use: no statistics.
pub(crate) const UNORDERED_COLUMNS: [&str; 3] = ["src", "dst", "inner"];
/// The column with most of the bytes.
pub(crate) const PACKETS_COLUMN: &str = "inner";

/// Version of the columns, stored in each file.
pub(crate) const SCHEMA_VERSION: &str = "1";

/// The columns, in order. Nullable columns hold fields that a report may lack.
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

/// The columns while they are filled, one row per report.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// For each row, the columns that have a value, and its flags; see [`bit`].
    bits: Vec<u32>,
    /// Bits that are set in all rows.
    always: u32,
    received_ns: Vec<i64>,
    node_id: Vec<u32>,
    hw_id: Vec<u8>,
    sequence: Vec<u32>,
    queue_id: Vec<u8>,
    queue_occupancy: Vec<u32>,
    ingress_ns: Vec<u64>,
    egress_ns: Vec<u64>,
    drop_reason: Vec<u8>,
    policer: Vec<u16>,
    colour: Vec<u8>,
    wire_length: Vec<u32>,
    packet_number: Vec<u32>,
    queue_lost: Vec<u32>,
    /// Indices of source and destination in `addresses`.
    hosts: Vec<[u32; 2]>,
    addresses: Addresses,
    src_port: Vec<u16>,
    dst_port: Vec<u16>,
    protocol: Vec<u8>,
    inner: Vec<u8>,
    /// End offset of each row's inner packet.
    inner_ends: Vec<i32>,
}

/// The bits of a row, all in one word: one bitmap per column took longer to fill than the columns.
mod bit {
    pub(super) const DROPPED: u32 = 1;
    pub(super) const CONGESTED: u32 = 1 << 1;
    pub(super) const TRACKED: u32 = 1 << 2;
    pub(super) const QUEUE_ID: u32 = 1 << 3;
    pub(super) const QUEUE: u32 = 1 << 4;
    pub(super) const INGRESS: u32 = 1 << 5;
    pub(super) const EGRESS: u32 = 1 << 6;
    pub(super) const DROP_REASON: u32 = 1 << 7;
    pub(super) const VERDICT: u32 = 1 << 8;
    pub(super) const WIRE_LENGTH: u32 = 1 << 9;
    pub(super) const PACKET_NUMBER: u32 = 1 << 10;
    pub(super) const QUEUE_LOST: u32 = 1 << 11;
    pub(super) const IP: u32 = 1 << 12;
    pub(super) const PORTS: u32 = 1 << 13;
}

impl Rows {
    /// Rows since the last [`Rows::take`].
    pub(crate) const fn len(&self) -> usize {
        self.bits.len()
    }

    /// Bytes of inner packets since the last [`Rows::take`]: the part of a row that has no fixed size.
    pub(crate) const fn inner_bytes(&self) -> usize {
        self.inner.len()
    }

    /// Appends one report received at `received_ns` (Unix time).
    pub(crate) fn push(&mut self, received_ns: i64, group: &GroupHeader, report: &Report<'_>) {
        self.received_ns.push(received_ns);
        self.node_id.push(group.node_id);
        self.hw_id.push(group.hw_id);
        self.sequence.push(group.sequence);
        let mut bits = flag(bit::DROPPED, report.dropped)
            | flag(bit::CONGESTED, report.congested)
            | flag(bit::TRACKED, report.tracked);

        let baseline = &report.baseline;
        // Either block may name the packet's queue; a drop report of another switch may have only the second.
        let queue_id = baseline
            .queue
            .map(|queue| queue.id)
            .or(baseline.drop.map(|drop| drop.queue_id));
        push(&mut self.queue_id, queue_id, bit::QUEUE_ID, &mut bits);
        let level = baseline.queue.map(|queue| queue.level);
        push(&mut self.queue_occupancy, level, bit::QUEUE, &mut bits);
        let (came, left) = (baseline.ingress_ns, baseline.egress_ns);
        push(&mut self.ingress_ns, came, bit::INGRESS, &mut bits);
        push(&mut self.egress_ns, left, bit::EGRESS, &mut bits);
        let reason = baseline.drop.map(|drop| drop.reason);
        push(&mut self.drop_reason, reason, bit::DROP_REASON, &mut bits);

        let weir = match report.domain {
            Domain::Weir(weir) => weir,
            Domain::Other { .. } => WeirMetadata::default(),
        };
        let policer = weir.verdict.map(|verdict| verdict.policer);
        push(&mut self.policer, policer, bit::VERDICT, &mut bits);
        let colour = weir.verdict.map(|verdict| verdict.colour);
        push(&mut self.colour, colour, bit::VERDICT, &mut bits);
        let length = weir.wire_length;
        push(&mut self.wire_length, length, bit::WIRE_LENGTH, &mut bits);
        let number = weir.packet_number;
        push(
            &mut self.packet_number,
            number,
            bit::PACKET_NUMBER,
            &mut bits,
        );
        let lost = weir.queue_lost;
        push(&mut self.queue_lost, lost, bit::QUEUE_LOST, &mut bits);

        self.push_flow(report, &mut bits);
        self.inner.extend_from_slice(report.inner);
        self.inner_ends.push(offset(self.inner.len()));
        self.always = bits
            & if self.bits.is_empty() {
                bits
            } else {
                self.always
            };
        self.bits.push(bits);
    }

    /// Appends addresses, ports and protocol, as far as the inner packet contains them.
    fn push_flow(&mut self, report: &Report<'_>, bits: &mut u32) {
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
        let hosts = ip.map_or(Addresses::NONE, |ip| {
            self.addresses.indices(ip.src(), ip.dst())
        });
        self.hosts.push(hosts);
        let protocol = ip.map(weir_packet::Ip::protocol);
        push(&mut self.protocol, protocol, bit::IP, bits);
        push(
            &mut self.src_port,
            ports.map(|(src, _)| src),
            bit::PORTS,
            bits,
        );
        push(
            &mut self.dst_port,
            ports.map(|(_, dst)| dst),
            bit::PORTS,
            bits,
        );
    }

    /// Takes the rows as a record batch; the columns are then empty, with capacity for as many rows again.
    pub(crate) fn take(&mut self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let anew = Self::with_capacity(self.len(), self.inner_bytes());
        std::mem::replace(self, anew).into_batch(schema)
    }

    /// Columns with capacity for this many rows and bytes of inner packets.
    fn with_capacity(rows: usize, inner_bytes: usize) -> Self {
        Self {
            bits: Vec::with_capacity(rows),
            always: 0,
            received_ns: Vec::with_capacity(rows),
            node_id: Vec::with_capacity(rows),
            hw_id: Vec::with_capacity(rows),
            sequence: Vec::with_capacity(rows),
            queue_id: Vec::with_capacity(rows),
            queue_occupancy: Vec::with_capacity(rows),
            ingress_ns: Vec::with_capacity(rows),
            egress_ns: Vec::with_capacity(rows),
            drop_reason: Vec::with_capacity(rows),
            policer: Vec::with_capacity(rows),
            colour: Vec::with_capacity(rows),
            wire_length: Vec::with_capacity(rows),
            packet_number: Vec::with_capacity(rows),
            queue_lost: Vec::with_capacity(rows),
            hosts: Vec::with_capacity(rows),
            addresses: Addresses::default(),
            src_port: Vec::with_capacity(rows),
            dst_port: Vec::with_capacity(rows),
            protocol: Vec::with_capacity(rows),
            inner: Vec::with_capacity(inner_bytes),
            inner_ends: Vec::with_capacity(rows),
        }
    }

    fn into_batch(self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let bits = Bits {
            rows: &self.bits,
            always: self.always,
        };
        let ip = bits.nulls(bit::IP);
        let ports = bits.nulls(bit::PORTS);
        let verdict = bits.nulls(bit::VERDICT);
        let required_u32 = |values| column::<UInt32Type>(values, None);
        let optional_u8 = |values, bit| column::<UInt8Type>(values, bits.nulls(bit));
        let optional_u32 = |values, bit| column::<UInt32Type>(values, bits.nulls(bit));
        let optional_u64 = |values, bit| column::<UInt64Type>(values, bits.nulls(bit));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::new(self.received_ns.into(), None)),
            required_u32(self.node_id),
            column::<UInt8Type>(self.hw_id, None),
            required_u32(self.sequence),
            Arc::new(bits.flags(bit::DROPPED)),
            Arc::new(bits.flags(bit::CONGESTED)),
            Arc::new(bits.flags(bit::TRACKED)),
            optional_u8(self.queue_id, bit::QUEUE_ID),
            optional_u32(self.queue_occupancy, bit::QUEUE),
            optional_u64(self.ingress_ns, bit::INGRESS),
            optional_u64(self.egress_ns, bit::EGRESS),
            optional_u8(self.drop_reason, bit::DROP_REASON),
            column::<UInt16Type>(self.policer, verdict.clone()),
            column::<UInt8Type>(self.colour, verdict),
            optional_u32(self.wire_length, bit::WIRE_LENGTH),
            optional_u32(self.packet_number, bit::PACKET_NUMBER),
            optional_u32(self.queue_lost, bit::QUEUE_LOST),
            Arc::new(self.addresses.column(&self.hosts, 0, ip.clone())?),
            Arc::new(self.addresses.column(&self.hosts, 1, ip.clone())?),
            column::<UInt16Type>(self.src_port, ports.clone()),
            column::<UInt16Type>(self.dst_port, ports),
            column::<UInt8Type>(self.protocol, ip),
            Arc::new(BinaryArray::try_new(
                offsets(self.inner_ends),
                self.inner.into(),
                None,
            )?),
        ];
        RecordBatch::try_new(Arc::clone(schema), columns)
    }
}

/// Appends a value, or 0 if there is none; `bit` is set in `bits` if there is one.
fn push<T: Default>(column: &mut Vec<T>, value: Option<T>, bit: u32, bits: &mut u32) {
    *bits |= flag(bit, value.is_some());
    column.push(value.unwrap_or_default());
}

const fn flag(bit: u32, set: bool) -> u32 {
    if set { bit } else { 0 }
}

fn column<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

/// An offset into a column's bytes. Rows are handed to storage long before it would overflow.
fn offset(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// Arrow offsets from the end offsets of the values.
fn offsets(mut ends: Vec<i32>) -> OffsetBuffer<i32> {
    ends.insert(0, 0);
    OffsetBuffer::new(ScalarBuffer::from(ends))
}

/// The bits of all rows.
struct Bits<'a> {
    rows: &'a [u32],
    always: u32,
}

impl Bits<'_> {
    fn flags(&self, bit: u32) -> BooleanArray {
        BooleanArray::new(self.bitmap(bit), None)
    }

    /// The validity of the column of `bit`; `None` if no value is null.
    fn nulls(&self, bit: u32) -> Option<NullBuffer> {
        (self.always & bit == 0).then(|| NullBuffer::new(self.bitmap(bit)))
    }

    fn bitmap(&self, bit: u32) -> BooleanBuffer {
        BooleanBuffer::collect_bool(self.rows.len(), |row| self.rows[row] & bit != 0)
    }
}

/// Addresses as text, each pair once: all reports of a flow have the same two, and formatting one takes longer than
/// decoding a report.
#[derive(Debug, Default)]
struct Addresses {
    indices: FxHashMap<(IpAddr, IpAddr), [u32; 2]>,
    texts: Vec<Box<str>>,
}

impl Addresses {
    /// The indices of a packet without addresses.
    const NONE: [u32; 2] = [u32::MAX; 2];

    fn indices(&mut self, src: IpAddr, dst: IpAddr) -> [u32; 2] {
        *self.indices.entry((src, dst)).or_insert_with(|| {
            [src, dst].map(|address| {
                self.texts.push(address.to_string().into());
                u32::try_from(self.texts.len() - 1).unwrap_or(u32::MAX)
            })
        })
    }

    /// The column of sources (0) or destinations (1).
    fn column(
        &self,
        hosts: &[[u32; 2]],
        side: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<StringArray, ArrowError> {
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(hosts.len() + 1));
        for indices in hosts {
            let text = usize::try_from(indices[side])
                .ok()
                .and_then(|index| self.texts.get(index));
            bytes.extend_from_slice(text.map_or(&[][..], |text| text.as_bytes()));
            ends.push(offset(bytes.len()));
        }
        StringArray::try_new(offsets(ends), Buffer::from(bytes), nulls)
    }
}
