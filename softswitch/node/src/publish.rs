// SPDX-License-Identifier: Apache-2.0
//! Events for subscribers of bmv2's notifications.

use weir_dataplane::{EntryHandle, Switch, TableId};

use crate::digest::learn::Samples;

/// Something that subscribers are told.
pub enum Event<'a> {
    /// A list of digests.
    Learned(Samples),
    /// A port has come up, or has gone down.
    Port {
        /// The port.
        port: u32,
        /// Whether it is up now.
        up: bool,
    },
    /// Entries of one table that no packet hit for their timeout.
    Idle(Idle<'a>),
}

/// Entries that no packet hit.
pub struct Idle<'a> {
    /// The dataplane, for what is to be known of the entries.
    pub switch: &'a Switch,
    /// Number of the program that the entries are of.
    pub program: u64,
    /// Their table.
    pub table: TableId,
    /// The entries.
    pub entries: &'a [EntryHandle],
}

/// Takes events; must not block.
pub type Publish = Box<dyn FnMut(Event<'_>) + Send>;
