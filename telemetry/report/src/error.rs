// SPDX-License-Identifier: Apache-2.0
//! Errors of decoding and encoding a report.

use crate::format::rep_type;

/// The reason why a datagram, or a report in it, could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The datagram ends inside a header or its metadata.
    #[error("{part} is cut: it needs {needed} bytes, {available} are there")]
    Truncated {
        /// The part that was being read.
        part: &'static str,
        /// Bytes the part needs.
        needed: usize,
        /// Bytes available.
        available: usize,
    },
    /// The version nibble is not 2.
    #[error("version is {found}, valid is 2")]
    Version {
        /// The version in the datagram.
        found: u8,
    },
    /// A report of a kind that weir does not read.
    #[error("RepType {found} ({}) is not supported, valid is 1 (INT)", rep_type::name(*.found))]
    RepType {
        /// The value in the report.
        found: u8,
    },
    /// The report length leaves no room for the metadata.
    #[error(
        "report length is {words} words, at least {needed_words} are needed for main contents and metadata"
    )]
    ReportLength {
        /// The value in the report.
        words: u8,
        /// The words that its metadata length needs.
        needed_words: usize,
    },
    /// The metadata length is less than the bit maps need.
    #[error("metadata length is {words} words, the metadata bits demand {needed_words}")]
    MetadataLength {
        /// The value in the report.
        words: u8,
        /// The words that `RepMdBits` (and `DSMdBits` of weir's domain) need.
        needed_words: usize,
    },
}

impl ReportError {
    /// The error's name as in the spec page's vectors and the collector's statistics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::Version { .. } => "version",
            Self::RepType { .. } => "rep_type",
            Self::ReportLength { .. } => "report_length",
            Self::MetadataLength { .. } => "metadata_length",
        }
    }
}

/// The reason why a report could not be encoded: a value that its field cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}, valid is 0 to {max}")]
pub struct EncodeError {
    /// The field.
    pub field: &'static str,
    /// The value given.
    pub value: u64,
    /// The largest value the field holds.
    pub max: u64,
}
