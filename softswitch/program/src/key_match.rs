// SPDX-License-Identifier: Apache-2.0
//! The match fields of an entry. Values are big-endian byte strings, as in the control interface.

/// The match of one key field of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeyMatch {
    /// The field is not constrained. Valid for LPM, ternary, range and optional fields; in a read it means
    /// prefix length 0, an all-zero mask, the full range and an absent optional.
    Any,
    /// Exact, or a present optional.
    Exact(Vec<u8>),
    /// Bits beyond the prefix must be 0.
    Lpm {
        /// Value.
        value: Vec<u8>,
        /// Length in bits, 1 to the width of the field.
        prefix_len: u32,
    },
    /// Bits of `value` outside `mask` must be 0.
    Ternary {
        /// Value.
        value: Vec<u8>,
        /// Mask.
        mask: Vec<u8>,
    },
    /// Inclusive.
    Range {
        /// Lower bound.
        low: Vec<u8>,
        /// Upper bound, not below `low`.
        high: Vec<u8>,
    },
}
