// SPDX-License-Identifier: Apache-2.0
//! IPv6 and its extension headers (RFC 8200).

use std::net::Ipv6Addr;

use crate::bytes::{array_at, u8_at, u16_at, u32_at};
use crate::error::{Header, PacketError, take};
use crate::ipv4::LARGEST_OFFLOADED_BYTES;

const FIXED_BYTES: usize = 40;
/// Extension headers are at least one unit of 8 bytes.
const EXTENSION_UNIT_BYTES: usize = 8;

/// Next-header values that are extension headers weir walks over (IANA "IPv6 Extension Header Types").
mod next_header {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const HIP: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fragment {
    identification: u32,
    offset_bytes: usize,
    more: bool,
}

/// An IPv6 header with its extension headers, and the captured bytes after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6<'a> {
    fixed: &'a [u8],
    payload: &'a [u8],
    /// Fixed and extension headers together.
    header_length: usize,
    total_length: usize,
    protocol: u8,
    fragment: Option<Fragment>,
}

impl<'a> Ipv6<'a> {
    /// Reads the headers from `captured`; `wire_length` is the length of the packet from this header on.
    #[inline]
    pub(crate) fn parse(captured: &'a [u8], wire_length: usize) -> Result<Self, PacketError> {
        let fixed = take(captured, FIXED_BYTES, Header::Ipv6)?;
        let version = u8_at(fixed, 0) >> 4;
        if version != 6 {
            let value = u32::from(version);
            return Err(PacketError::Malformed {
                header: Header::Ipv6,
                field: "version",
                value,
                valid: "6",
            });
        }
        let total_length = match usize::from(u16_at(fixed, 4)) {
            0 if wire_length > LARGEST_OFFLOADED_BYTES => {
                return Err(PacketError::Malformed {
                    header: Header::Ipv6,
                    field: "payload length",
                    value: 0,
                    valid: "the packet's length, if it is longer than any that is offloaded",
                });
            }
            // As in IPv4: offloaded super-segments (and jumbograms) have no length here.
            0 => wire_length.max(FIXED_BYTES),
            length => FIXED_BYTES + length,
        };
        let packet = captured
            .get(..total_length.min(captured.len()))
            .unwrap_or_default();
        let (header_length, protocol, fragment) = walk_extensions(packet, u8_at(fixed, 6))?;
        let payload = packet.get(header_length..).unwrap_or_default();
        Ok(Self {
            fixed,
            payload,
            header_length,
            total_length,
            protocol,
            fragment,
        })
    }

    /// Source address.
    #[must_use]
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        array_at::<16>(self.fixed, 8).map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from)
    }

    /// Destination address, as in the fixed header (a routing header is not followed).
    #[must_use]
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        array_at::<16>(self.fixed, 24).map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from)
    }

    /// Protocol number of what follows the last extension header.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// DSCP and ECN.
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        // The class straddles the first two bytes: after the shift it is the first one.
        let [class, ..] = (u32_at(self.fixed, 0) << 4).to_be_bytes();
        class
    }

    /// Hop limit.
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        u8_at(self.fixed, 7)
    }

    /// The identification in the fragment header, if there is one.
    #[must_use]
    pub fn identification(&self) -> Option<u32> {
        self.fragment.map(|fragment| fragment.identification)
    }

    /// This is a fragment that is not the last.
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.more)
    }

    /// Offset of this fragment's payload in the fragmentable part, in bytes.
    #[must_use]
    pub fn fragment_offset_bytes(&self) -> usize {
        self.fragment.map_or(0, |fragment| fragment.offset_bytes)
    }

    /// Bytes of fixed and extension headers.
    #[must_use]
    pub const fn header_length(&self) -> usize {
        self.header_length
    }

    /// Bytes of the packet from the fixed header on.
    #[must_use]
    pub const fn total_length(&self) -> usize {
        self.total_length
    }

    /// The captured part of the payload, without padding.
    #[must_use]
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Walks the extension headers: (bytes of all headers, protocol after them, fragment header).
///
/// Each step advances by at least 8 bytes, so the packet's length bounds the walk.
#[inline]
fn walk_extensions(packet: &[u8], first: u8) -> Result<(usize, u8, Option<Fragment>), PacketError> {
    let mut at = FIXED_BYTES;
    let mut next = first;
    let mut fragment = None;
    while is_extension(next) {
        let rest = packet.get(at..).unwrap_or_default();
        let start = take(rest, EXTENSION_UNIT_BYTES, Header::Ipv6Extension)?;
        let length_field = usize::from(u8_at(start, 1));
        let length = match next {
            next_header::FRAGMENT => EXTENSION_UNIT_BYTES,
            // RFC 4302: in words of 4 bytes, minus 2.
            next_header::AUTHENTICATION => ((length_field + 2) * 4).max(EXTENSION_UNIT_BYTES),
            _ => (length_field + 1) * EXTENSION_UNIT_BYTES,
        };
        take(rest, length, Header::Ipv6Extension)?;
        at += length;
        let was_fragment = next == next_header::FRAGMENT;
        next = u8_at(start, 0);
        if was_fragment {
            let offset_and_more = u16_at(start, 2);
            let offset_bytes = usize::from(offset_and_more & 0xfff8);
            fragment = Some(Fragment {
                identification: u32_at(start, 4),
                offset_bytes,
                more: offset_and_more & 1 != 0,
            });
            if offset_bytes != 0 {
                // A later fragment's header is followed by the middle of the packet, not by a header.
                break;
            }
        }
    }
    Ok((at, next, fragment))
}

const fn is_extension(next: u8) -> bool {
    matches!(
        next,
        next_header::HOP_BY_HOP
            | next_header::ROUTING
            | next_header::FRAGMENT
            | next_header::AUTHENTICATION
            | next_header::DESTINATION
            | next_header::MOBILITY
            | next_header::HIP
            | next_header::SHIM6
    )
}
