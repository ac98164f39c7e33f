// SPDX-License-Identifier: Apache-2.0
//! Link layers: the headers before the IP header.

use crate::bytes::{u8_at, u16_at};
use crate::error::{Header, PacketError, take};

pub(crate) const ETHER_TYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHER_TYPE_IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and the pre-standard outer tag that switches still send.
const VLAN_ETHER_TYPES: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const VLAN_TAG_BYTES: usize = 4;

/// The link layer of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Ethernet II.
    Ethernet,
    /// IPv4 or IPv6 with nothing before it; the version nibble decides.
    RawIp,
    /// `tcpdump -i any` as older libpcap wrote it.
    LinuxCookedV1,
    /// `tcpdump -i any` as newer libpcap writes it.
    LinuxCookedV2,
}

/// A pcap link type that weir does not support; [`LinkType::SUPPORTED`] are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("link type {}{} is not supported", .0, named(*.0))]
pub struct UnsupportedLinkType(pub u32);

/// The name of a link type that users may have captured, in brackets; empty for any other.
const fn named(code: u32) -> &'static str {
    match code {
        0 | 108 => " (BSD loopback)",
        9 => " (PPP)",
        105 => " (IEEE 802.11)",
        119 => " (IEEE 802.11 with Prism headers)",
        127 => " (IEEE 802.11 with radiotap headers)",
        189 | 220 => " (USB, Linux)",
        192 => " (IEEE 802.11 with PPI headers)",
        239 => " (NFLOG)",
        249 => " (USBPcap)",
        253 => " (Netlink)",
        _ => "",
    }
}

impl LinkType {
    /// The codes that [`LinkType::from_pcap`] takes.
    pub const SUPPORTED: &str = "1 (Ethernet), 12, 14 or 101 (raw IP), 113 or 276 (Linux cooked v1, v2), \
                                 228 or 229 (raw IPv4, raw IPv6)";

    /// The link type of a pcap or pcapng file (tcpdump.org "Link-layer header types").
    ///
    /// # Errors
    /// [`UnsupportedLinkType`] names the code.
    pub const fn from_pcap(code: u32) -> Result<Self, UnsupportedLinkType> {
        match code {
            1 => Ok(Self::Ethernet),
            12 | 14 | 101 | 228 | 229 => Ok(Self::RawIp),
            113 => Ok(Self::LinuxCookedV1),
            276 => Ok(Self::LinuxCookedV2),
            other => Err(UnsupportedLinkType(other)),
        }
    }
}

/// The link header with its VLAN tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    ether_type: u16,
    vlan_tags: &'a [u8],
    header_length: usize,
}

impl<'a> Link<'a> {
    #[inline]
    pub(crate) fn parse(link_type: LinkType, captured: &'a [u8]) -> Result<Self, PacketError> {
        let (fixed_length, ether_type) = match link_type {
            LinkType::Ethernet => (14, u16_at(take(captured, 14, Header::Ethernet)?, 12)),
            LinkType::LinuxCookedV1 => (16, u16_at(take(captured, 16, Header::LinuxCookedV1)?, 14)),
            LinkType::LinuxCookedV2 => (20, u16_at(take(captured, 20, Header::LinuxCookedV2)?, 0)),
            LinkType::RawIp => (0, raw_ether_type(captured)?),
        };
        Self::with_tags(captured, fixed_length, ether_type)
    }

    #[inline]
    fn with_tags(
        captured: &'a [u8],
        fixed_length: usize,
        mut ether_type: u16,
    ) -> Result<Self, PacketError> {
        let mut header_length = fixed_length;
        while VLAN_ETHER_TYPES.contains(&ether_type) {
            let rest = captured.get(header_length..).unwrap_or_default();
            // A tag is its TCI, then the EtherType of what follows.
            ether_type = u16_at(take(rest, VLAN_TAG_BYTES, Header::Vlan)?, 2);
            header_length += VLAN_TAG_BYTES;
        }
        let vlan_tags = captured
            .get(fixed_length..header_length)
            .unwrap_or_default();
        Ok(Self {
            ether_type,
            vlan_tags,
            header_length,
        })
    }

    /// EtherType after the last VLAN tag. Below 0x0600 it is an 802.3 length, which weir does not read.
    #[must_use]
    pub const fn ether_type(&self) -> u16 {
        self.ether_type
    }

    /// VLAN ids (12 bits), outermost first.
    #[must_use]
    pub fn vlan_ids(&self) -> VlanIds<'a> {
        VlanIds {
            tags: self.vlan_tags,
        }
    }

    /// Bytes of link header and tags before the network header.
    #[must_use]
    pub const fn header_length(&self) -> usize {
        self.header_length
    }
}

/// Iterator over the VLAN ids of a frame, outermost first.
#[derive(Debug, Clone)]
pub struct VlanIds<'a> {
    tags: &'a [u8],
}

impl Iterator for VlanIds<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let (tag, rest) = self.tags.split_at_checked(VLAN_TAG_BYTES)?;
        self.tags = rest;
        Some(u16_at(tag, 0) & 0x0fff)
    }
}

#[inline]
fn raw_ether_type(captured: &[u8]) -> Result<u16, PacketError> {
    let version = u8_at(take(captured, 1, Header::Ip)?, 0) >> 4;
    match version {
        4 => Ok(ETHER_TYPE_IPV4),
        6 => Ok(ETHER_TYPE_IPV6),
        _ => Err(PacketError::Malformed {
            header: Header::Ip,
            field: "version",
            value: u32::from(version),
            valid: "4 or 6",
        }),
    }
}
