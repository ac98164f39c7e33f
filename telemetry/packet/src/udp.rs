// SPDX-License-Identifier: Apache-2.0
//! UDP (RFC 768).

use crate::bytes::u16_at;
use crate::error::{Header, PacketError, take};

pub(crate) const HEADER_BYTES: usize = 8;

/// A UDP header and the captured bytes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udp<'a> {
    header: &'a [u8],
    payload: &'a [u8],
    payload_length: usize,
}

impl<'a> Udp<'a> {
    /// Reads the header from the captured IP payload, which had `ip_payload_length` bytes when sent.
    pub(crate) fn parse(captured: &'a [u8], ip_payload_length: usize) -> Result<Self, PacketError> {
        let header = take(captured, HEADER_BYTES, Header::Udp)?;
        let length = match usize::from(u16_at(header, 4)) {
            // Jumbograms (RFC 2675) and offloaded super-datagrams: the IP length applies.
            0 => ip_payload_length,
            length => length,
        };
        let Some(payload_length) = length.checked_sub(HEADER_BYTES) else {
            let value = u32::try_from(length).unwrap_or(u32::MAX);
            return Err(PacketError::Malformed {
                header: Header::Udp,
                field: "length",
                value,
                valid: "at least 8",
            });
        };
        let payload = captured
            .get(HEADER_BYTES..length.min(captured.len()))
            .unwrap_or_default();
        Ok(Self {
            header,
            payload,
            payload_length,
        })
    }

    /// Source port.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        u16_at(self.header, 0)
    }

    /// Destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        u16_at(self.header, 2)
    }

    /// The checksum as captured: 0 if there is none; partial where checksum offload completes it later.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16_at(self.header, 6)
    }

    /// Bytes of payload by the UDP header's length; in a first fragment that is the whole datagram's payload.
    #[must_use]
    pub const fn payload_length(&self) -> usize {
        self.payload_length
    }

    /// The captured part of the payload.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
