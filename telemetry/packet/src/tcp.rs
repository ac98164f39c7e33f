// SPDX-License-Identifier: Apache-2.0
//! TCP (RFC 9293).

use crate::bytes::{u8_at, u16_at, u32_at};
use crate::error::{Header, PacketError, take};
use crate::tcp_options::TcpOptions;

const FIXED_BYTES: usize = 20;

/// The eight flag bits of a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    #[must_use]
    pub const fn fin(self) -> bool {
        self.0 & 0x01 != 0
    }

    /// Synchronize sequence numbers.
    #[must_use]
    pub const fn syn(self) -> bool {
        self.0 & 0x02 != 0
    }

    /// Reset the connection.
    #[must_use]
    pub const fn rst(self) -> bool {
        self.0 & 0x04 != 0
    }

    /// Push.
    #[must_use]
    pub const fn psh(self) -> bool {
        self.0 & 0x08 != 0
    }

    /// The acknowledgment number is valid.
    #[must_use]
    pub const fn ack(self) -> bool {
        self.0 & 0x10 != 0
    }

    /// The urgent pointer is valid.
    #[must_use]
    pub const fn urg(self) -> bool {
        self.0 & 0x20 != 0
    }

    /// ECN echo (RFC 3168).
    #[must_use]
    pub const fn ece(self) -> bool {
        self.0 & 0x40 != 0
    }

    /// Congestion window reduced (RFC 3168).
    #[must_use]
    pub const fn cwr(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// A TCP header and the captured bytes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp<'a> {
    fixed: &'a [u8],
    options: &'a [u8],
    payload: &'a [u8],
    header_length: usize,
    payload_length: usize,
}

impl<'a> Tcp<'a> {
    /// Reads the header from the captured IP payload, which had `ip_payload_length` bytes when sent.
    ///
    /// Cut options are no error here: [`Tcp::options`] tells how far they could be read.
    #[inline]
    pub(crate) fn parse(captured: &'a [u8], ip_payload_length: usize) -> Result<Self, PacketError> {
        let fixed = take(captured, FIXED_BYTES, Header::Tcp)?;
        let data_offset = u8_at(fixed, 12) >> 4;
        let header_length = usize::from(data_offset) * 4;
        let malformed = |valid| PacketError::Malformed {
            header: Header::Tcp,
            field: "data offset",
            value: u32::from(data_offset),
            valid,
        };
        if header_length < FIXED_BYTES {
            return Err(malformed("5 to 15 words"));
        }
        let Some(payload_length) = ip_payload_length.checked_sub(header_length) else {
            return Err(malformed("no more words than the IP packet carries"));
        };
        let options = captured
            .get(FIXED_BYTES..header_length.min(captured.len()))
            .unwrap_or_default();
        let payload = captured.get(header_length..).unwrap_or_default();
        Ok(Self {
            fixed,
            options,
            payload,
            header_length,
            payload_length,
        })
    }

    /// Source port.
    #[must_use]
    pub fn src_port(&self) -> u16 {
        u16_at(self.fixed, 0)
    }

    /// Destination port.
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        u16_at(self.fixed, 2)
    }

    /// Sequence number of the first byte (or of SYN).
    #[must_use]
    pub fn seq(&self) -> u32 {
        u32_at(self.fixed, 4)
    }

    /// Acknowledgment number; valid only with [`TcpFlags::ack`].
    #[must_use]
    pub fn ack(&self) -> u32 {
        u32_at(self.fixed, 8)
    }

    /// The flags.
    #[must_use]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(u8_at(self.fixed, 13))
    }

    /// Receive window as written, not scaled.
    #[must_use]
    pub fn window(&self) -> u16 {
        u16_at(self.fixed, 14)
    }

    /// The checksum as captured; partial where checksum offload completes it later.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16_at(self.fixed, 16)
    }

    /// The options that weir knows, as far as they were captured.
    #[must_use]
    #[inline]
    pub fn options(&self) -> TcpOptions {
        TcpOptions::read(self.options, self.header_length - FIXED_BYTES)
    }

    /// Bytes of the header with options, captured or not.
    #[must_use]
    pub const fn header_length(&self) -> usize {
        self.header_length
    }

    /// Bytes of payload as sent, from the IP length; the capture may hold fewer.
    #[must_use]
    #[inline]
    pub const fn payload_length(&self) -> usize {
        self.payload_length
    }

    /// Sequence space this segment takes: payload, plus one each for SYN and FIN (RFC 9293 section 3.4).
    #[must_use]
    #[inline]
    pub fn sequence_length(&self) -> u32 {
        let payload = u32::try_from(self.payload_length).unwrap_or(u32::MAX);
        payload
            .saturating_add(u32::from(self.flags().syn()))
            .saturating_add(u32::from(self.flags().fin()))
    }

    /// The captured part of the payload.
    #[must_use]
    #[inline]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}
