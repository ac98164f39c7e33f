// SPDX-License-Identifier: Apache-2.0
//! The header fields that inference and join need, as plain values.

pub(crate) mod merged;
mod plain;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr};

use weir_packet::{FlowKey, Link, LinkType, OptionsEnd, Packet, SackBlocks, TcpFlags, Timestamps};

const UDP_HEADER_BYTES: usize = 8;
const ETHERNET_HEADER_BYTES: u32 = 14;

/// The length of a frame with an Ethernet header in place of the captured one; VLAN tags and MPLS labels stay.
const fn of_ethernet(link: &Link<'_>, wire_length: u32) -> u32 {
    wire_length
        .saturating_add(ETHERNET_HEADER_BYTES)
        .saturating_sub(link.outer_length() as u32)
}

/// One IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Directed 5-tuple; ports are 0 where they cannot be seen (later fragments, cut headers).
    pub key: FlowKey,
    /// Bytes of the Ethernet frame without FCS, also where the capture has another link header or none.
    pub wire_length: u32,
    /// Bytes of the IP packet from its header on.
    pub ip_length: u32,
    /// Bytes after the transport header (after the IP header where there is none).
    pub payload_length: u32,
    /// Distinguishes the packets of one flow: the IP identification, or the TCP or UDP checksum of an IPv6 packet that is
    /// not a fragment and has none. The checksum covers the payload that a capture cuts off.
    pub id: u32,
    /// The TCP header, in packets that are not fragments.
    pub tcp: Option<TcpSegment>,
}

/// The TCP header's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSegment {
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Sequence space taken: payload, SYN and FIN.
    pub sequence_length: u32,
    /// Acknowledgment number; counts only with the ACK flag.
    pub ack: u32,
    /// Flags.
    pub flags: TcpFlags,
    /// Receive window as written, not scaled.
    pub window: u16,
    /// Timestamps option.
    pub timestamps: Option<Timestamps>,
    /// SACK blocks as sent, a DSACK block first.
    pub sack: SackBlocks,
    /// SACK permitted, in SYN segments.
    pub sack_permitted: bool,
    /// The maximum segment size, in SYN segments.
    pub mss_bytes: Option<u16>,
    /// The capture ends within the options: more may have been sent than is known here.
    pub options_cut: bool,
}

impl Segment {
    /// A value for [`Segment::read`] to overwrite.
    pub(crate) const EMPTY: Self = Self {
        key: FlowKey {
            src: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            dst: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            src_port: 0,
            dst_port: 0,
            protocol: 0,
        },
        wire_length: 0,
        ip_length: 0,
        payload_length: 0,
        id: 0,
        tcp: None,
    };

    /// Reads a captured frame; `None` when it is not IP or its link or IP header cannot be read.
    pub fn parse(link_type: LinkType, bytes: &[u8], wire_length: u32) -> Option<Self> {
        let mut segment = Self::EMPTY;
        segment
            .read(link_type, bytes, wire_length)
            .then_some(segment)
    }

    /// As [`Segment::parse`], in place. When it returns false, the content of `self` is meaningless.
    #[inline]
    pub(crate) fn read(&mut self, link_type: LinkType, bytes: &[u8], wire_length: u32) -> bool {
        if link_type == LinkType::Ethernet && plain::read(bytes, wire_length, self) {
            return true;
        }
        match Self::parse_any(link_type, bytes, wire_length) {
            Some(segment) => {
                *self = segment;
                true
            }
            None => false,
        }
    }

    fn parse_any(link_type: LinkType, bytes: &[u8], wire_length: u32) -> Option<Self> {
        let packet = Packet::parse(link_type, bytes, wire_length as usize).ok()?;
        let ip = packet.ip()?;
        let key = packet.flow().unwrap_or(FlowKey {
            src: ip.src(),
            dst: ip.dst(),
            src_port: 0,
            dst_port: 0,
            protocol: ip.protocol(),
        });
        let tcp = packet.tcp().filter(|_| !packet.is_fragment());
        let payload = match (tcp, packet.udp()) {
            (Some(tcp), _) => tcp.payload_length(),
            (None, Some(_)) => ip.payload_length().saturating_sub(UDP_HEADER_BYTES),
            (None, None) => ip.payload_length(),
        };
        Some(Self {
            key,
            wire_length: of_ethernet(packet.link(), wire_length),
            ip_length: u32::try_from(ip.total_length()).unwrap_or(u32::MAX),
            payload_length: u32::try_from(payload).unwrap_or(u32::MAX),
            id: ip.identification().unwrap_or_else(|| {
                let udp = || packet.udp().map(weir_packet::Udp::checksum);
                u32::from(
                    tcp.map(weir_packet::Tcp::checksum)
                        .or_else(udp)
                        .unwrap_or(0),
                )
            }),
            tcp: tcp.map(|tcp| {
                let options = tcp.options();
                TcpSegment {
                    seq: tcp.seq(),
                    sequence_length: tcp.sequence_length(),
                    ack: tcp.ack(),
                    flags: tcp.flags(),
                    window: tcp.window(),
                    timestamps: options.timestamps,
                    sack: options.sack,
                    sack_permitted: options.sack_permitted,
                    mss_bytes: options.mss_bytes,
                    options_cut: options.end == OptionsEnd::Cut,
                }
            }),
        })
    }
}
