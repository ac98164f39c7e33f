// SPDX-License-Identifier: Apache-2.0
//! The flat form of tables and of the control flow between them.

use super::{AnyField, Expr, Field, Prim, Target};

/// One of the two pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gress {
    Ingress,
    Egress,
}

/// A node of the control flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Node {
    Table(u16),
    Condition(u16),
    Call(u16),
    End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub value: Expr,
    pub if_true: Node,
    pub if_false: Node,
    /// The condition of the program that this is, or is a half of, by its number in the JSON.
    pub named: u16,
    /// If it is true, the program's condition is: there is no other half after it.
    pub last: bool,
}

/// A direct action call between tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub action: u16,
    pub next: Node,
    /// The table that this was.
    pub table: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPart {
    pub field: AnyField,
    /// Word of the packed key in which it starts, and its shift there (narrow fields only).
    pub word: u16,
    pub shift: u8,
    /// Static mask, as words from the least significant.
    pub mask: Option<Vec<u64>>,
    /// Validity of the field's header: while that is 0, the key has 0 in place of the field.
    pub valid: Option<Field>,
}

/// A table: the immutable part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub key: Vec<KeyPart>,
    pub key_words: u16,
    /// Global action index per action of the table.
    pub actions: Vec<u16>,
    /// Next node per action of the table; the same for all if the program branches on hit or miss.
    pub next: Vec<Node>,
    pub hit: Option<Node>,
    pub miss: Option<Node>,
    /// Next node if nothing matches and there is no default action.
    pub base_next: Node,
    pub default: Option<(u16, Vec<u64>)>,
    pub entries: Vec<ConstEntry>,
    pub direct_counter: bool,
    pub direct_meter: Option<Target>,
    pub meter_bytes: bool,
    /// Entries have idle timers.
    pub support_timeout: bool,
    /// Entries point to a profile's members and groups instead of holding an action.
    pub profile: Option<ProfileUse>,
}

/// How a table uses an action profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileUse {
    pub profile: u16,
    /// The table's number among the tables of the profile.
    pub user: u16,
}

/// An action profile or selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// The selector's hash.
    pub calculation: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstEntry {
    pub key: Vec<crate::key_match::KeyMatch>,
    pub priority: i32,
    pub action: u16,
    pub args: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    pub prims: Vec<Prim>,
    /// First word and width of each parameter.
    pub params: Vec<(u16, u32)>,
    pub arg_words: u16,
    /// For each primitive of the JSON, the first of `prims` that it became.
    pub starts: Vec<u32>,
}
