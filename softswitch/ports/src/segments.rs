// SPDX-License-Identifier: Apache-2.0
//! Segmentation in software: cuts a frame of many segments (TSO, GSO) into the frames of a wire.
//!
//! So every packet is matched, metered and counted as a wire would carry it. The segments are those that Linux' own
//! software makes (`Documentation/networking/segmentation-offloads.rst`), byte for byte; only a TCP checksum of zero is written as
//! all ones, which means the same.

#[cfg(test)]
mod tests;

use super::checksum;
use super::virtio::{ChecksumField, Segments, Transport};

const ETHERTYPE_AT: usize = 12;
const TAG_BYTES: usize = 4;
const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
const UDP_HEADER_BYTES: usize = 8;
const TCP_HEADER_BYTES: usize = 20;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Where the headers of a frame of segments are.
#[derive(Debug, Clone, Copy)]
struct Layout {
    is_ipv6: bool,
    network: usize,
    transport: usize,
    payload: usize,
}

/// Calls `use_segment` with each segment of a frame (Ethernet without FCS), in order: `room` unused bytes, then the segment.
/// `buffer` is used for them. Returns false, after no call, if the headers do not say how.
pub fn cut(
    frame: &[u8],
    (segments, field): (Segments, ChecksumField),
    (buffer, room): (&mut Vec<u8>, usize),
    mut use_segment: impl FnMut(&mut [u8]),
) -> bool {
    let Some(layout) = layout(frame, segments.transport, field) else {
        return false;
    };
    let (header, payload) = frame.split_at(layout.payload);
    let pieces = payload.len().div_ceil(segments.payload_bytes);
    for (number, piece) in payload.chunks(segments.payload_bytes).enumerate() {
        buffer.clear();
        buffer.resize(room, 0);
        buffer.extend_from_slice(header);
        buffer.extend_from_slice(piece);
        let segment = &mut buffer[room..];
        let transport_bytes = segment.len() - layout.transport;
        write_network(segment, layout, number);
        match segments.transport {
            Transport::Tcp => {
                let ahead = number * segments.payload_bytes;
                write_tcp(
                    &mut segment[layout.transport..],
                    ahead,
                    number + 1 == pieces,
                );
            }
            Transport::Udp | Transport::Unknown => {
                put(segment, layout.transport + 4, transport_bytes as u16);
            }
        }
        // The field holds the sum of the pseudo header with the length of all segments together.
        let at = layout.transport + field.offset;
        let all = (frame.len() - layout.transport) as u32;
        let sum = u32::from(get(segment, at)) + fold(!all) + transport_bytes as u32;
        put(segment, at, fold(sum) as u16);
        checksum::complete(segment, layout.transport, field.offset);
        use_segment(buffer);
    }
    pieces > 0
}

/// How many frames a TCP frame of segments is on a wire, and the bytes of the headers of each; None if the headers do not
/// say it, or for another transport.
pub fn on_a_wire(frame: &[u8], segments: Segments, field: ChecksumField) -> Option<(u64, usize)> {
    if segments.transport != Transport::Tcp {
        return None;
    }
    let layout = layout(frame, segments.transport, field)?;
    let payload = frame.len() - layout.payload;
    let frames = payload.div_ceil(segments.payload_bytes).max(1);
    Some((frames as u64, layout.payload))
}

/// How many frames a frame of `bytes` is on a wire, of which only the beginning is known.
pub fn count(
    beginning: &[u8],
    bytes: usize,
    segments: Segments,
    field: Option<ChecksumField>,
) -> u64 {
    let layout = field.and_then(|field| layout(beginning, segments.transport, field));
    let payload = bytes.saturating_sub(layout.map_or(0, |layout| layout.payload));
    payload.div_ceil(segments.payload_bytes).max(1) as u64
}

fn layout(frame: &[u8], transport: Transport, field: ChecksumField) -> Option<Layout> {
    let mut ethertype_at = ETHERTYPE_AT;
    let mut ethertype = read(frame, ethertype_at)?;
    while [libc::ETH_P_8021Q as u16, libc::ETH_P_8021AD as u16].contains(&ethertype) {
        ethertype_at += TAG_BYTES;
        ethertype = read(frame, ethertype_at)?;
    }
    let network = ethertype_at + 2;
    let is_ipv6 = match ethertype {
        0x0800 => false,
        0x86DD => true,
        _ => return None,
    };
    // No length: a jumbogram (RFC 2675).
    if is_ipv6 && read(frame, network + 4)? == 0 {
        return None;
    }
    let network_bytes = if is_ipv6 {
        IPV6_HEADER_BYTES
    } else {
        IPV4_HEADER_BYTES
    };
    let (least, header_bytes) = match transport {
        Transport::Tcp => (
            TCP_HEADER_BYTES,
            usize::from(frame.get(field.start + 12)? >> 4) * 4,
        ),
        Transport::Udp => (UDP_HEADER_BYTES, UDP_HEADER_BYTES),
        Transport::Unknown => return None,
    };
    let payload = field.start + header_bytes;
    let is_valid = field.start >= network + network_bytes
        && header_bytes >= least
        && field.offset + 2 <= header_bytes
        && payload <= frame.len();
    is_valid.then_some(Layout {
        is_ipv6,
        network,
        transport: field.start,
        payload,
    })
}

/// Length, identification and checksum of the network header.
fn write_network(segment: &mut [u8], layout: Layout, number: usize) {
    let bytes = segment.len() - layout.network;
    if layout.is_ipv6 {
        put(
            segment,
            layout.network + 4,
            (bytes - IPV6_HEADER_BYTES) as u16,
        );
        return;
    }
    put(segment, layout.network + 2, bytes as u16);
    let identification = get(segment, layout.network + 4).wrapping_add(number as u16);
    put(segment, layout.network + 4, identification);
    put(segment, layout.network + 10, 0);
    checksum::complete(&mut segment[layout.network..layout.transport], 0, 10);
    // Only UDP has all ones for a sum of zero.
    if get(segment, layout.network + 10) == 0xFFFF {
        put(segment, layout.network + 10, 0);
    }
}

/// Sequence number and flags of a TCP header.
fn write_tcp(header: &mut [u8], ahead: usize, is_last: bool) {
    if let Some((sequence, _)) = header[4..].split_first_chunk_mut::<4>() {
        *sequence = u32::from_be_bytes(*sequence)
            .wrapping_add(ahead as u32)
            .to_be_bytes();
    }
    if !is_last {
        header[13] &= !FIN_PSH;
    }
    if ahead > 0 {
        header[13] &= !CWR;
    }
}

fn fold(sum: u32) -> u32 {
    let sum = (sum & 0xFFFF) + (sum >> 16);
    (sum & 0xFFFF) + (sum >> 16)
}

fn read(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

fn get(frame: &[u8], at: usize) -> u16 {
    read(frame, at).unwrap_or_default()
}

fn put(frame: &mut [u8], at: usize, value: u16) {
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
