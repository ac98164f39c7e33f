// SPDX-License-Identifier: Apache-2.0
//! IPv4 (RFC 791).

use std::net::Ipv4Addr;

use crate::bytes::{array_at, u8_at, u16_at};
use crate::error::{Header, PacketError, take};

/// Linux offloads up to 8 × 65,535 bytes. A damaged record may say gigabytes, which would be millions of segments.
pub(crate) const LARGEST_OFFLOADED_BYTES: usize = 1 << 20;

const FIXED_BYTES: usize = 20;
const MORE_FRAGMENTS: u16 = 0x2000;
const DO_NOT_FRAGMENT: u16 = 0x4000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// An IPv4 header and the captured bytes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4<'a> {
    /// The header with its options; at least 20 bytes.
    header: &'a [u8],
    payload: &'a [u8],
    total_length: usize,
}

impl<'a> Ipv4<'a> {
    /// Reads the header from `captured`; `wire_length` is the length of the packet from this header on.
    #[inline]
    pub(crate) fn parse(captured: &'a [u8], wire_length: usize) -> Result<Self, PacketError> {
        let fixed = take(captured, FIXED_BYTES, Header::Ipv4)?;
        let malformed = |field, value, valid| PacketError::Malformed {
            header: Header::Ipv4,
            field,
            value,
            valid,
        };
        let version = u8_at(fixed, 0) >> 4;
        if version != 4 {
            return Err(malformed("version", u32::from(version), "4"));
        }
        let ihl = u8_at(fixed, 0) & 0x0f;
        let header_length = usize::from(ihl) * 4;
        if header_length < FIXED_BYTES {
            return Err(malformed("IHL", u32::from(ihl), "5 to 15 words"));
        }
        let header = take(captured, header_length, Header::Ipv4)?;
        let total_length = match usize::from(u16_at(fixed, 2)) {
            // With segmentation offload, a super-segment is captured before its length is written.
            0 if wire_length <= LARGEST_OFFLOADED_BYTES => wire_length,
            length => length,
        };
        if total_length < header_length {
            let value = u32::try_from(total_length).unwrap_or(u32::MAX);
            return Err(malformed(
                "total length",
                value,
                "at least the header's length",
            ));
        }
        // Bytes after the total length are Ethernet padding.
        let end = total_length.min(captured.len());
        let payload = captured.get(header_length..end).unwrap_or_default();
        Ok(Self {
            header,
            payload,
            total_length,
        })
    }

    /// Source address.
    #[must_use]
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        array_at::<4>(self.header, 12).map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from)
    }

    /// Destination address.
    #[must_use]
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        array_at::<4>(self.header, 16).map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from)
    }

    /// Protocol number of the payload.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        u8_at(self.header, 9)
    }

    /// DSCP and ECN (RFC 2474, RFC 3168).
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        u8_at(self.header, 1)
    }

    /// Time to live.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        u8_at(self.header, 8)
    }

    /// The identification field, which senders count up, so it differs between retransmissions of one segment.
    #[must_use]
    pub fn identification(&self) -> u16 {
        u16_at(self.header, 4)
    }

    /// DF.
    #[must_use]
    pub fn do_not_fragment(&self) -> bool {
        u16_at(self.header, 6) & DO_NOT_FRAGMENT != 0
    }

    /// MF: this is a fragment that is not the last.
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        u16_at(self.header, 6) & MORE_FRAGMENTS != 0
    }

    /// Offset of this fragment's payload in the whole packet's payload, in bytes.
    #[must_use]
    pub fn fragment_offset_bytes(&self) -> usize {
        usize::from(u16_at(self.header, 6) & FRAGMENT_OFFSET) * 8
    }

    /// Option bytes, not interpreted.
    #[must_use]
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        self.header.get(FIXED_BYTES..).unwrap_or_default()
    }

    /// Bytes of the header with options.
    #[must_use]
    pub const fn header_length(&self) -> usize {
        self.header.len()
    }

    /// Bytes of the packet from this header on, by its length field (by the wire length when that is 0).
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
