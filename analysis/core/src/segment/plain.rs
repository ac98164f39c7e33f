// SPDX-License-Identifier: Apache-2.0
//! Fast path for the most common packets: Ethernet without tags, IPv4 without options or IPv6 without extension headers,
//! an unfragmented TCP segment.
//!
//! [`weir_packet`] is the reference and reads everything; this does a quarter of its work, and is tested against it on
//! arbitrary bytes. Any other frame, even one with a cut header, is left to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::{OptionsEnd, TcpFlags, TcpOptions, protocol};

use super::{Segment, TcpSegment};

const IPV4_BYTES: u32 = 20;
const IPV6_BYTES: u32 = 40;
const TCP_BYTES: usize = 20;
/// Version 4, a header of five words.
const IPV4_WITHOUT_OPTIONS: u8 = 0x45;
/// More fragments, or an offset.
const IPV4_FRAGMENT: u16 = 0x3fff;

/// Reads the segment in an Ethernet frame into `to`; false when the frame needs a closer look.
///
/// In place, because moving a segment costs as much as reading it.
#[inline]
pub(super) fn read(frame: &[u8], wire_length: u32, to: &mut Segment) -> bool {
    let Some((link, network)) = frame.split_first_chunk::<14>() else {
        return false;
    };
    to.wire_length = wire_length;
    let done = match [link[12], link[13]] {
        [0x08, 0x00] => ipv4(network, to),
        [0x86, 0xdd] => ipv6(network, to),
        _ => None,
    };
    done.is_some()
}

#[inline]
fn ipv4(packet: &[u8], to: &mut Segment) -> Option<()> {
    let (ip, payload) = packet.split_first_chunk::<20>()?;
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & IPV4_FRAGMENT;
    if ip[0] != IPV4_WITHOUT_OPTIONS || ip[9] != protocol::TCP || fragment != 0 {
        return None;
    }
    to.ip_length = u32::from(u16::from_be_bytes([ip[2], ip[3]]));
    to.id = u32::from(u16::from_be_bytes([ip[4], ip[5]]));
    to.key.src = IpAddr::V4(Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]));
    to.key.dst = IpAddr::V4(Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]));
    tcp(payload, to.ip_length.checked_sub(IPV4_BYTES)?, to)
}

#[inline]
fn ipv6(packet: &[u8], to: &mut Segment) -> Option<()> {
    let (ip, payload) = packet.split_first_chunk::<40>()?;
    let length = u32::from(u16::from_be_bytes([ip[4], ip[5]]));
    if ip[0] >> 4 != 6 || ip[6] != protocol::TCP || length == 0 {
        return None;
    }
    let address = |at: usize| ip.get(at..)?.first_chunk::<16>().copied();
    to.ip_length = IPV6_BYTES + length;
    let checksum = payload.get(16..)?.first_chunk::<2>()?;
    to.id = u32::from(u16::from_be_bytes(*checksum));
    to.key.src = IpAddr::V6(Ipv6Addr::from(address(8)?));
    to.key.dst = IpAddr::V6(Ipv6Addr::from(address(24)?));
    tcp(payload, length, to)
}

/// Reads the TCP segment of `length` bytes at the start of the captured IP payload.
#[inline]
fn tcp(payload: &[u8], length: u32, to: &mut Segment) -> Option<()> {
    let captured = payload.get(..payload.len().min(length as usize))?;
    let (tcp, rest) = captured.split_first_chunk::<TCP_BYTES>()?;
    let header_bytes = usize::from(tcp[12] >> 4) * 4;
    let option_bytes = header_bytes.checked_sub(TCP_BYTES)?;
    to.payload_length = length.checked_sub(header_bytes as u32)?;
    to.key.src_port = u16::from_be_bytes([tcp[0], tcp[1]]);
    to.key.dst_port = u16::from_be_bytes([tcp[2], tcp[3]]);
    to.key.protocol = protocol::TCP;
    let options = TcpOptions::read(rest.get(..option_bytes.min(rest.len()))?, option_bytes);
    let flags = TcpFlags(tcp[13]);
    to.tcp = Some(TcpSegment {
        seq: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
        sequence_length: to.payload_length + u32::from(flags.syn()) + u32::from(flags.fin()),
        ack: u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]),
        flags,
        window: u16::from_be_bytes([tcp[14], tcp[15]]),
        timestamps: options.timestamps,
        sack: options.sack,
        sack_permitted: options.sack_permitted,
        mss_bytes: options.mss_bytes,
        options_cut: options.end == OptionsEnd::Cut,
    });
    Some(())
}
