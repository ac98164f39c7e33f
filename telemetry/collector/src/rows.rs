// SPDX-License-Identifier: Apache-2.0
//! Reports as rows, while they are received. [`crate::columns`] writes them.

use std::net::IpAddr;
use std::ops::Range;

use bytes::Bytes;
use parquet::data_type::ByteArray;
use rustc_hash::FxHashMap;
use weir_packet::{LinkType, Packet};
use weir_report::{Domain, GroupHeader, InnerType, Report, WeirMetadata};

/// The columns while they are filled, one row per report. Where a report lacks a field, its column has no value; see
/// [`Batch::levels`].
///
/// Parquet stores unsigned numbers as signed ones of the same bits.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// For each row, the columns that have a value, and its flags; see [`bit`].
    bits: Vec<u32>,
    pub(crate) received_ns: Vec<i64>,
    pub(crate) node_id: Vec<i32>,
    pub(crate) hw_id: Vec<u8>,
    pub(crate) sequence: Vec<i32>,
    pub(crate) queue_id: Vec<u8>,
    pub(crate) queue_occupancy: Vec<i32>,
    pub(crate) ingress_ns: Vec<i64>,
    pub(crate) egress_ns: Vec<i64>,
    pub(crate) drop_reason: Vec<u8>,
    pub(crate) policer: Vec<u16>,
    pub(crate) colour: Vec<u8>,
    pub(crate) wire_length: Vec<i32>,
    pub(crate) packet_number: Vec<i32>,
    pub(crate) queue_lost: Vec<i32>,
    /// Indices of source and destination in `addresses`.
    hosts: Vec<[u32; 2]>,
    addresses: Addresses,
    pub(crate) src_port: Vec<u16>,
    pub(crate) dst_port: Vec<u16>,
    pub(crate) protocol: Vec<u8>,
    inner: Vec<u8>,
    /// End offset of each row's inner packet.
    inner_ends: Vec<u32>,
}

/// Rows that were received, on their way to storage.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) rows: Rows,
    inner: Bytes,
}

/// Memory of a row whose columns all have a value, without its inner packet.
const ROW_BYTES: usize = 88;

/// The bits of a row, all in one word: one bitmap per column took longer to fill than the columns.
pub(crate) mod bit {
    pub(crate) const DROPPED: u32 = 1;
    pub(crate) const CONGESTED: u32 = 1 << 1;
    pub(crate) const TRACKED: u32 = 1 << 2;
    pub(crate) const QUEUE_ID: u32 = 1 << 3;
    pub(crate) const QUEUE: u32 = 1 << 4;
    pub(crate) const INGRESS: u32 = 1 << 5;
    pub(crate) const EGRESS: u32 = 1 << 6;
    pub(crate) const DROP_REASON: u32 = 1 << 7;
    pub(crate) const VERDICT: u32 = 1 << 8;
    pub(crate) const WIRE_LENGTH: u32 = 1 << 9;
    pub(crate) const PACKET_NUMBER: u32 = 1 << 10;
    pub(crate) const QUEUE_LOST: u32 = 1 << 11;
    pub(crate) const IP: u32 = 1 << 12;
    pub(crate) const PORTS: u32 = 1 << 13;
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
        self.node_id.push(group.node_id.cast_signed());
        self.hw_id.push(group.hw_id);
        self.sequence.push(group.sequence.cast_signed());
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
        let level = baseline.queue.map(|queue| queue.level.cast_signed());
        push(&mut self.queue_occupancy, level, bit::QUEUE, &mut bits);
        let (came, left) = (baseline.ingress_ns, baseline.egress_ns);
        push(
            &mut self.ingress_ns,
            came.map(u64::cast_signed),
            bit::INGRESS,
            &mut bits,
        );
        push(
            &mut self.egress_ns,
            left.map(u64::cast_signed),
            bit::EGRESS,
            &mut bits,
        );
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
        let length = weir.wire_length.map(u32::cast_signed);
        push(&mut self.wire_length, length, bit::WIRE_LENGTH, &mut bits);
        let number = weir.packet_number.map(u32::cast_signed);
        push(
            &mut self.packet_number,
            number,
            bit::PACKET_NUMBER,
            &mut bits,
        );
        let lost = weir.queue_lost.map(u32::cast_signed);
        push(&mut self.queue_lost, lost, bit::QUEUE_LOST, &mut bits);

        self.push_flow(report, &mut bits);
        self.inner.extend_from_slice(report.inner);
        // Rows are handed to storage long before it would overflow.
        let end = u32::try_from(self.inner.len()).unwrap_or(u32::MAX);
        self.inner_ends.push(end);
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
        if let Some(ip) = ip {
            let hosts = self.addresses.indices(ip.src(), ip.dst());
            self.hosts.push(hosts);
        }
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

    /// Takes the rows; the columns are then empty, with capacity for as many rows again.
    pub(crate) fn take(&mut self) -> Batch {
        let anew = Self::with_capacity(self.len(), self.inner_bytes());
        let mut rows = std::mem::replace(self, anew);
        let inner = Bytes::from(std::mem::take(&mut rows.inner));
        Batch { rows, inner }
    }

    /// Columns with capacity for this many rows and bytes of inner packets.
    fn with_capacity(rows: usize, inner_bytes: usize) -> Self {
        Self {
            bits: Vec::with_capacity(rows),
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
}

impl Batch {
    /// Number of rows.
    pub(crate) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of memory, roughly.
    pub(crate) const fn bytes(&self) -> usize {
        self.len() * ROW_BYTES + self.inner.len()
    }

    /// Whether each row has this bit.
    pub(crate) fn flags(&self, bit: u32) -> Vec<bool> {
        self.rows.bits.iter().map(|bits| bits & bit != 0).collect()
    }

    /// The definition levels of the columns of this bit: 1 for a row with a value, 0 for one without.
    pub(crate) fn levels(&self, bit: u32) -> Vec<i16> {
        let present = self.rows.bits.iter().map(|bits| bits & bit != 0);
        present.map(i16::from).collect()
    }

    /// The sources (0) or destinations (1) of the rows that have an IP header.
    pub(crate) fn addresses(&self, side: usize) -> Vec<ByteArray> {
        let indices = self.rows.hosts.iter().map(|hosts| hosts[side] as usize);
        indices
            .map(|index| self.rows.addresses.texts[index].clone())
            .collect()
    }

    /// The inner packets of some rows.
    pub(crate) fn inner(&self, rows: Range<usize>) -> Vec<ByteArray> {
        let end_of = |row: usize| self.rows.inner_ends[row] as usize;
        let start_of = |row: usize| row.checked_sub(1).map_or(0, end_of);
        rows.map(|row| self.inner.slice(start_of(row)..end_of(row)).into())
            .collect()
    }
}

/// Appends a value if there is one, and sets `bit` in `bits` then.
fn push<T>(column: &mut Vec<T>, value: Option<T>, bit: u32, bits: &mut u32) {
    *bits |= flag(bit, value.is_some());
    column.extend(value);
}

const fn flag(bit: u32, set: bool) -> u32 {
    if set { bit } else { 0 }
}

/// Addresses as text, each pair once: all reports of a flow have the same two, and formatting one takes longer than
/// decoding a report.
#[derive(Debug, Default)]
struct Addresses {
    indices: FxHashMap<(IpAddr, IpAddr), [u32; 2]>,
    texts: Vec<ByteArray>,
}

impl Addresses {
    fn indices(&mut self, src: IpAddr, dst: IpAddr) -> [u32; 2] {
        *self.indices.entry((src, dst)).or_insert_with(|| {
            [src, dst].map(|address| {
                self.texts.push(address.to_string().into_bytes().into());
                // A batch is handed over long before it has 2^31 rows, each of which adds two texts at most.
                u32::try_from(self.texts.len() - 1).unwrap_or(u32::MAX)
            })
        })
    }
}
