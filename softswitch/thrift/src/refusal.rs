// SPDX-License-Identifier: Apache-2.0
//! The reasons for refusing a call: the codes of the exceptions that bmv2's services declare, and Thrift's own.

use weir_dataplane::ControlError;

/// The reason why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The exception that the method declares, with this code.
    Declared(i32),
    /// A `TApplicationException`.
    Application {
        /// Its type.
        kind: i32,
        /// What was wrong.
        text: String,
    },
}

/// Types of `TApplicationException`.
const UNKNOWN_METHOD: i32 = 1;
const INTERNAL_ERROR: i32 = 6;
const PROTOCOL_ERROR: i32 = 7;

impl Refusal {
    /// There is no such method.
    pub fn unknown(text: String) -> Self {
        let kind = UNKNOWN_METHOD;
        Self::Application { kind, text }
    }

    /// The arguments are not those of the method.
    pub fn malformed(text: String) -> Self {
        let kind = PROTOCOL_ERROR;
        Self::Application { kind, text }
    }

    /// weir-switch cannot do this.
    pub fn unsupported(text: impl Into<String>) -> Self {
        let (kind, text) = (INTERNAL_ERROR, text.into());
        Self::Application { kind, text }
    }

    /// The switch is shutting down.
    pub fn stopped() -> Self {
        Self::unsupported("the switch is shutting down")
    }
}

/// Codes of `InvalidTableOperation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    Full = 1,
    InvalidHandle = 2,
    ExpiredHandle = 3,
    CountersDisabled = 4,
    MetersDisabled = 5,
    AgeingDisabled = 6,
    InvalidTableName = 7,
    InvalidActionName = 8,
    WrongTableType = 9,
    InvalidMember = 10,
    MemberStillUsed = 11,
    MemberAlreadyInGroup = 12,
    MemberNotInGroup = 13,
    InvalidGroup = 14,
    GroupStillUsed = 15,
    EmptyGroup = 16,
    DuplicateEntry = 17,
    BadMatchKey = 18,
    DefaultEntryIsConst = 21,
    InvalidProfileName = 23,
    NoSelection = 24,
    ImmutableEntries = 25,
    BadActionData = 26,
    Error = 100,
}

/// Codes of the exceptions for arrays (meters, counters, registers): no such name, no such index.
pub const INVALID_NAME: Refusal = Refusal::Declared(1);
/// See [`INVALID_NAME`].
pub const INVALID_INDEX: Refusal = Refusal::Declared(2);

/// Codes of `InvalidMeterOperation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meter {
    BadRatesList = 3,
    InvalidInfoRate = 4,
    InvalidBurst = 5,
    Error = 6,
}

/// Codes of `InvalidMcOperation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multicast {
    TableFull = 1,
    InvalidMgid = 2,
    InvalidGroup = 3,
    InvalidNode = 4,
    Error = 5,
}

macro_rules! declared {
    ($($codes:ident),*) => {
        $(impl From<$codes> for Refusal {
            fn from(code: $codes) -> Self {
                Self::Declared(code as i32)
            }
        })*
    };
}
declared!(Table, Meter, Multicast);

/// The code for an error of the dataplane in an operation on a table or an action profile.
pub fn of_table(error: &ControlError) -> Refusal {
    let code = match error {
        ControlError::TableFull { .. } => Table::Full,
        ControlError::Duplicate { .. } => Table::DuplicateEntry,
        ControlError::NotFound { .. } => Table::InvalidHandle,
        ControlError::Const { what } if what.ends_with("default action") => {
            Table::DefaultEntryIsConst
        }
        ControlError::Const { .. } => Table::ImmutableEntries,
        ControlError::ActionNotInTable { .. } => Table::InvalidActionName,
        ControlError::InvalidArguments { .. } => Table::BadActionData,
        ControlError::InvalidKey { .. } => Table::BadMatchKey,
        _ => Table::Error,
    };
    code.into()
}
