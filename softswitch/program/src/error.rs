// SPDX-License-Identifier: Apache-2.0
//! Errors of the loader.

/// The reason why a BMv2 JSON file was refused. Every variant names the construct and its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The bytes are not JSON, or do not have the structure of BMv2 JSON.
    #[error("not a BMv2 JSON program: {reason}; expected what `p4c-bm2-ss -o FILE.json` writes")]
    NotBmv2 {
        /// The JSON reader's message, with line and column.
        reason: String,
    },
    /// The major format version is not one that this loader reads.
    #[error("BMv2 JSON format version {found} is not supported; version 2.x (2.18 or later) is")]
    Version {
        /// Version found in `__meta__`.
        found: String,
    },
    /// A name or an id does not exist.
    #[error("{location}: {kind} {name:?} does not exist in this program")]
    Dangling {
        /// Location in the JSON.
        location: String,
        /// Kind of the object sought, e.g. `header`.
        kind: &'static str,
        /// Name or id sought.
        name: String,
    },
    /// A construct that is legal but that this switch does not execute.
    #[error("{location}: {what} is not supported by this switch")]
    Unsupported {
        /// Location in the JSON.
        location: String,
        /// The construct, by its name.
        what: String,
    },
    /// A construct that is malformed.
    #[error("{location}: {what}")]
    Invalid {
        /// Location in the JSON.
        location: String,
        /// The problem, and what would be valid.
        what: String,
    },
}
