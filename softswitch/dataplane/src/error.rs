// SPDX-License-Identifier: Apache-2.0
//! Errors of the control interface. The packet path has no errors: it counts drops.

/// The reason why a control operation was refused. The state of the switch is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// An id that this program does not have.
    #[error("unknown {kind} id {id}; this program has {count}")]
    UnknownId {
        /// `table`, `action`, `meter`, ...
        kind: &'static str,
        /// The id given.
        id: u32,
        /// How many there are.
        count: usize,
    },
    /// The index lies outside an indirect array.
    #[error("{name}: index {index} is out of range, the array has {size} cells")]
    IndexOutOfRange {
        /// Array name.
        name: String,
        /// Index given.
        index: u64,
        /// Cells.
        size: u64,
    },
    /// The action is not in the table's action list.
    #[error("table {table}: action {action:?} is not one of its actions ({valid})")]
    ActionNotInTable {
        /// Table name.
        table: String,
        /// Action given.
        action: String,
        /// The valid ones.
        valid: String,
    },
    /// Wrong number or width of action arguments.
    #[error("action {action}: {reason}")]
    InvalidArguments {
        /// Action name.
        action: String,
        /// The problem, and what would be valid.
        reason: String,
    },
    /// Wrong number, kind, width or value of match fields, or a priority in a table without priorities.
    #[error("table {table}: {reason}")]
    InvalidKey {
        /// Table name.
        table: String,
        /// The problem, and what would be valid.
        reason: String,
    },
    /// An entry with this key (and priority) exists.
    #[error("table {table}: an entry with this key exists")]
    Duplicate {
        /// Table name.
        table: String,
    },
    /// The entry, group or session does not exist.
    #[error("{what} not found")]
    NotFound {
        /// The missing object.
        what: String,
    },
    /// A group or session with this id exists.
    #[error("{what} exists")]
    Exists {
        /// The existing object.
        what: String,
    },
    /// The table has reached its declared size.
    #[error("table {table} is full ({size} entries)")]
    TableFull {
        /// Table name.
        table: String,
        /// Declared size.
        size: usize,
    },
    /// More members than the parser value set is declared for.
    #[error("value set {value_set} takes {size} members, {given} were given")]
    ValueSetFull {
        /// Value set name.
        value_set: String,
        /// Declared size.
        size: usize,
        /// Members given.
        given: usize,
    },
    /// More members than the action profile is declared for.
    #[error("action profile {profile} is full ({size} members)")]
    ProfileFull {
        /// Profile name.
        profile: String,
        /// Declared size.
        size: usize,
    },
    /// Something else still points to it.
    #[error("{what} is in use: {references} entries or groups point to it")]
    InUse {
        /// The object that was to be removed.
        what: String,
        /// How many point to it.
        references: u32,
    },
    /// Const entries or a const default action cannot be changed.
    #[error("{what} is const in the program")]
    Const {
        /// The object that was to be changed.
        what: String,
    },
    /// A value that the object cannot take.
    #[error("{what}: {reason}")]
    InvalidValue {
        /// The object.
        what: String,
        /// The problem, and what would be valid.
        reason: String,
    },
}
