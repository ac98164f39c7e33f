// SPDX-License-Identifier: Apache-2.0
//! Widths, lengths and code points of the format, which `docs/spec/telemetry-report.md` describes.

/// Default UDP destination port of reports.
pub const UDP_PORT: u16 = 32766;
/// Sequence numbers count modulo this (22 bits).
pub const SEQUENCE_MODULUS: u32 = 1 << 22;
/// Domain id of weir's own metadata: "WE" in ASCII.
pub const WEIR_DOMAIN_ID: u16 = 0x5745;
/// Bytes of all report headers and metadata of a report as weir emits it, before the inner packet.
pub const WEIR_HEADERS_BYTES: usize = 56;

pub(crate) const VERSION: u8 = 2;
pub(crate) const GROUP_HEADER_BYTES: usize = 8;
pub(crate) const INDIVIDUAL_HEADER_BYTES: usize = 4;
/// `RepMdBits` … `DSMdstatus`, which the report length includes and the metadata length does not.
pub(crate) const MAIN_BYTES: usize = 8;
pub(crate) const WORD_BYTES: usize = 4;
/// A report length of this value means "to the end of the datagram".
pub(crate) const REPORT_LENGTH_TO_END: u8 = 0xff;
pub(crate) const HW_ID_LIMIT: u8 = 1 << 6;
pub(crate) const OCCUPANCY_LIMIT: u32 = 1 << 24;

/// `RepType` code points.
pub(crate) mod rep_type {
    pub(crate) const INT: u8 = 1;

    /// The name of a code point, for errors.
    pub(crate) const fn name(code: u8) -> &'static str {
        match code {
            0 => "Inner Only",
            1 => "INT",
            2 => "IOAM",
            _ => "reserved",
        }
    }
}

/// The bit maps of weir's pipeline.
pub(crate) mod emitted {
    pub(crate) const IN_TYPE_ETHERNET: u8 = 3;
    pub(crate) const REP_MD_BITS: u16 = 0x1c01;
    pub(crate) const DS_MD_BITS: u16 = 0xe000;
    /// Six words of baseline and three of domain metadata.
    pub(crate) const MD_WORDS: u8 = 9;
}

/// Bit `n` of a 16-bit map; the format counts from the most significant bit.
pub(crate) const fn bit(map: u16, n: u8) -> bool {
    map & (0x8000 >> n) != 0
}

/// Meter colours (RFC 2697, RFC 2698), as on the wire.
pub mod colour {
    /// Conforming to the committed rate.
    pub const GREEN: u8 = 0;
    /// Above the committed rate, within the peak rate.
    pub const YELLOW: u8 = 1;
    /// Above both rates.
    pub const RED: u8 = 2;
}

/// Drop reasons, as on the wire.
pub mod drop_reason {
    /// Not dropped.
    pub const NONE: u8 = 0;
    /// The queue was full.
    pub const QUEUE: u8 = 51;
    /// The verdict for its policer and colour.
    pub const POLICER: u8 = 70;
}
