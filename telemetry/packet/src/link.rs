// SPDX-License-Identifier: Apache-2.0
//! Link layers: the headers before the IP header.

use crate::bytes::{u8_at, u16_at};
use crate::error::{Header, PacketError, take};

pub(crate) const ETHER_TYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHER_TYPE_IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and the pre-standard outer tag that switches still send.
const VLAN_ETHER_TYPES: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const VLAN_TAG_BYTES: usize = 4;
/// Unicast; labels that a router of a multicast tree or an upstream router assigned.
const MPLS_ETHER_TYPES: [u16; 2] = [0x8847, 0x8848];
const MPLS_LABEL_BYTES: usize = 4;
const ETHER_TYPE_PPPOE_SESSION: u16 = 0x8864;
/// Version and type, code, session, length; the PPP header follows.
const PPPOE_BYTES: usize = 6;
/// The EtherType of link headers that have none, where neither IP nor MPLS follows.
const ETHER_TYPE_NONE: u16 = 0;

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
    /// PPP, with or without the address and control fields of HDLC (RFC 1661, RFC 1662).
    Ppp,
    /// The address family in 4 bytes: loopback and VPN interfaces of macOS and the BSDs, in either byte order.
    BsdLoopback,
}

/// A pcap link type that weir does not support; [`LinkType::SUPPORTED`] are valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("link type {}{} is not supported", .0, named(*.0))]
pub struct UnsupportedLinkType(pub u32);

/// The name of a link type that users may have captured, in brackets; empty for any other.
const fn named(code: u32) -> &'static str {
    match code {
        50 => " (PPP on a serial line)",
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
    pub const SUPPORTED: &str = "0 or 108 (BSD loopback), 1 (Ethernet), 9 (PPP), 12, 14 or 101 (raw IP), \
                                 113 or 276 (Linux cooked v1, v2), 228 or 229 (raw IPv4, raw IPv6)";

    /// The link type of a pcap or pcapng file (tcpdump.org "Link-layer header types").
    ///
    /// # Errors
    /// [`UnsupportedLinkType`] names the code.
    pub const fn from_pcap(code: u32) -> Result<Self, UnsupportedLinkType> {
        match code {
            0 | 108 => Ok(Self::BsdLoopback),
            1 => Ok(Self::Ethernet),
            9 => Ok(Self::Ppp),
            12 | 14 | 101 | 228 | 229 => Ok(Self::RawIp),
            113 => Ok(Self::LinuxCookedV1),
            276 => Ok(Self::LinuxCookedV2),
            other => Err(UnsupportedLinkType(other)),
        }
    }
}

/// The link header with its VLAN tags, PPPoE header and MPLS labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    ether_type: u16,
    vlan_tags: &'a [u8],
    outer_length: usize,
    header_length: usize,
}

impl<'a> Link<'a> {
    #[inline]
    pub(crate) fn parse(link_type: LinkType, captured: &'a [u8]) -> Result<Self, PacketError> {
        let (outer_length, ether_type) = match link_type {
            LinkType::Ethernet => (14, u16_at(take(captured, 14, Header::Ethernet)?, 12)),
            LinkType::LinuxCookedV1 => (16, u16_at(take(captured, 16, Header::LinuxCookedV1)?, 14)),
            LinkType::LinuxCookedV2 => (20, u16_at(take(captured, 20, Header::LinuxCookedV2)?, 0)),
            LinkType::RawIp => (0, raw_ether_type(captured)?),
            LinkType::Ppp => {
                let (length, ether_type) = ppp(captured)?;
                (length, ether_type.unwrap_or(ETHER_TYPE_NONE))
            }
            LinkType::BsdLoopback => (4, family_ether_type(captured)?),
        };
        let mut link = Self {
            ether_type,
            vlan_tags: &[],
            outer_length,
            header_length: outer_length,
        };
        if !matches!(ether_type, ETHER_TYPE_IPV4 | ETHER_TYPE_IPV6) {
            link.read_tags(captured)?;
            link.read_pppoe(captured)?;
            link.read_mpls(captured)?;
        }
        Ok(link)
    }

    /// VLAN tags (IEEE 802.1Q).
    fn read_tags(&mut self, captured: &'a [u8]) -> Result<(), PacketError> {
        while VLAN_ETHER_TYPES.contains(&self.ether_type) {
            // A tag is its TCI, then the EtherType of what follows.
            let tag = take(self.rest(captured), VLAN_TAG_BYTES, Header::Vlan)?;
            self.ether_type = u16_at(tag, 2);
            self.header_length += VLAN_TAG_BYTES;
        }
        self.vlan_tags = captured
            .get(self.outer_length..self.header_length)
            .unwrap_or_default();
        Ok(())
    }

    /// PPPoE (RFC 2516) before IP or MPLS; other PPP protocols, as LCP, leave its EtherType.
    fn read_pppoe(&mut self, captured: &[u8]) -> Result<(), PacketError> {
        if self.ether_type == ETHER_TYPE_PPPOE_SESSION {
            let rest = self.rest(captured);
            take(rest, PPPOE_BYTES, Header::Pppoe)?;
            if let (length, Some(ether_type)) = ppp(&rest[PPPOE_BYTES..])? {
                self.ether_type = ether_type;
                self.header_length += PPPOE_BYTES + length;
            }
        }
        Ok(())
    }

    /// MPLS labels (RFC 3032) before IP. No field says what follows the last label: as routers do for their load balancing
    /// (RFC 4928), the version of IP does, and a pseudowire's control word begins with 0.
    fn read_mpls(&mut self, captured: &[u8]) -> Result<(), PacketError> {
        if MPLS_ETHER_TYPES.contains(&self.ether_type) {
            let rest = self.rest(captured);
            let mut length = 0;
            let mut last = false;
            while !last {
                let label = take(&rest[length..], MPLS_LABEL_BYTES, Header::Mpls)?;
                last = label[2] & 1 == 1;
                length += MPLS_LABEL_BYTES;
            }
            if let Ok(ether_type) = raw_ether_type(&rest[length..]) {
                self.ether_type = ether_type;
                self.header_length += length;
            }
        }
        Ok(())
    }

    fn rest<'b>(&self, captured: &'b [u8]) -> &'b [u8] {
        captured.get(self.header_length..).unwrap_or_default()
    }

    /// EtherType of what follows the header: of IP, also where PPP or MPLS name it. Below 0x0600 it is an 802.3 length, which
    /// weir does not read, or 0 in captures whose link header has no EtherType.
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

    /// Bytes of the capture's own link header, before VLAN tags, PPPoE and MPLS labels.
    #[must_use]
    pub const fn outer_length(&self) -> usize {
        self.outer_length
    }

    /// Bytes of link header, tags and labels before the network header.
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

/// The length of a PPP header, and the EtherType of IP or MPLS after it.
///
/// Peers may agree to leave out the address and control fields and the first byte of protocol numbers below 256
/// (RFC 1661, sections 6.5 and 6.6).
fn ppp(bytes: &[u8]) -> Result<(usize, Option<u16>), PacketError> {
    let framing = if bytes.starts_with(&[0xff, 0x03]) {
        2
    } else {
        0
    };
    let rest = &bytes[framing..];
    let first = u8_at(take(rest, 1, Header::Ppp)?, 0);
    // The last bit of a protocol number is 1, and the last bit of its first byte 0 (RFC 1661, section 2).
    let (length, protocol) = if first & 1 == 1 {
        (1, u16::from(first))
    } else {
        (2, u16_at(take(rest, 2, Header::Ppp)?, 0))
    };
    let ether_type = match protocol {
        0x0021 => Some(ETHER_TYPE_IPV4),
        0x0057 => Some(ETHER_TYPE_IPV6),
        0x0281 => Some(MPLS_ETHER_TYPES[0]),
        0x0283 => Some(MPLS_ETHER_TYPES[1]),
        _ => None,
    };
    Ok((framing + length, ether_type))
}

/// The EtherType of an address family, which is in the byte order of the machine that captured (tcpdump.org, `LINKTYPE_NULL`).
fn family_ether_type(captured: &[u8]) -> Result<u16, PacketError> {
    let family = take(captured, 4, Header::BsdLoopback)?;
    let number = match *family {
        [0, 0, 0, number] | [number, 0, 0, 0] => number,
        _ => 0,
    };
    Ok(match number {
        2 => ETHER_TYPE_IPV4,
        // NetBSD and OpenBSD; FreeBSD; macOS.
        24 | 28 | 30 => ETHER_TYPE_IPV6,
        _ => ETHER_TYPE_NONE,
    })
}
