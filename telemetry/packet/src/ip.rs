// SPDX-License-Identifier: Apache-2.0
//! Common access to IPv4 and IPv6 headers.

use std::net::IpAddr;

use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;

/// An IP header of either version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ip<'a> {
    /// IPv4.
    V4(Ipv4<'a>),
    /// IPv6 with its extension headers.
    V6(Ipv6<'a>),
}

impl<'a> Ip<'a> {
    /// Source address.
    #[must_use]
    #[inline]
    pub fn src(&self) -> IpAddr {
        match self {
            Self::V4(ip) => IpAddr::V4(ip.src()),
            Self::V6(ip) => IpAddr::V6(ip.src()),
        }
    }

    /// Destination address.
    #[must_use]
    #[inline]
    pub fn dst(&self) -> IpAddr {
        match self {
            Self::V4(ip) => IpAddr::V4(ip.dst()),
            Self::V6(ip) => IpAddr::V6(ip.dst()),
        }
    }

    /// Protocol number of the payload, after IPv6 extension headers.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.protocol(),
            Self::V6(ip) => ip.protocol(),
        }
    }

    /// DSCP in the upper six bits, ECN in the lower two.
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        match self {
            Self::V4(ip) => ip.traffic_class(),
            Self::V6(ip) => ip.traffic_class(),
        }
    }

    /// The IP id: always present in IPv4, only in fragments in IPv6.
    #[must_use]
    pub fn identification(&self) -> Option<u32> {
        match self {
            Self::V4(ip) => Some(u32::from(ip.identification())),
            Self::V6(ip) => ip.identification(),
        }
    }

    /// Whether this is a fragment of a larger packet. An IPv6 "atomic fragment" (RFC 6946) is a whole packet.
    #[must_use]
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.more_fragments() || self.fragment_offset_bytes() != 0
    }

    /// MF: a fragment that is not the last.
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        match self {
            Self::V4(ip) => ip.more_fragments(),
            Self::V6(ip) => ip.more_fragments(),
        }
    }

    /// Offset of this fragment in bytes; 0 in a first fragment and in a whole packet.
    #[must_use]
    pub fn fragment_offset_bytes(&self) -> usize {
        match self {
            Self::V4(ip) => ip.fragment_offset_bytes(),
            Self::V6(ip) => ip.fragment_offset_bytes(),
        }
    }

    /// Bytes of the packet from its IP header on, by the header's length field.
    #[must_use]
    pub const fn total_length(&self) -> usize {
        match self {
            Self::V4(ip) => ip.total_length(),
            Self::V6(ip) => ip.total_length(),
        }
    }

    /// Bytes of the headers: IPv4 with options, IPv6 with extension headers.
    #[must_use]
    pub const fn header_length(&self) -> usize {
        match self {
            Self::V4(ip) => ip.header_length(),
            Self::V6(ip) => ip.header_length(),
        }
    }

    /// Bytes after the headers as sent; the capture may hold fewer.
    #[must_use]
    #[inline]
    pub const fn payload_length(&self) -> usize {
        self.total_length().saturating_sub(self.header_length())
    }

    /// The captured part of the payload, without Ethernet padding.
    #[must_use]
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        match self {
            Self::V4(ip) => ip.payload(),
            Self::V6(ip) => ip.payload(),
        }
    }
}
