// SPDX-License-Identifier: Apache-2.0
//! The key of a `TableEntry`: its match and priority, and the live entry that has them.

use tonic::Code;
use weir_dataplane::{EntryHandle, KeyMatch, Switch};
use weir_p4runtime::p4::v1;

use super::failure::Failure;
use super::matching::{self, Owner};
use super::pipeline::TableView;

/// Looks up the live entry with this table, match and priority.
///
/// # Errors
/// `INVALID_ARGUMENT` or `OUT_OF_RANGE` for a malformed key, `NOT_FOUND` when there is no such entry.
pub fn find(
    table: &TableView,
    switch: &Switch,
    entry: &v1::TableEntry,
) -> Result<EntryHandle, Failure> {
    let key = key_of(table, entry)?;
    switch
        .find_entry(table.id, &key, entry.priority)
        .map_err(|error| {
            let failure = Failure::from(error);
            if failure.code == Code::NotFound {
                return Failure::not_found(format!(
                    "table {}: no entry has this match and priority",
                    table.name
                ));
            }
            failure
        })
}

/// As [`find`]; None for the default entry.
///
/// # Errors
/// As [`find`].
pub fn find_or_default(
    table: &TableView,
    switch: &Switch,
    entry: &v1::TableEntry,
) -> Result<Option<EntryHandle>, Failure> {
    if entry.is_default_action {
        return Ok(None);
    }
    find(table, switch, entry).map(Some)
}

/// The dataplane's form of the match of an entry.
///
/// # Errors
/// `INVALID_ARGUMENT` or `OUT_OF_RANGE` for a malformed key or priority.
pub fn key_of(table: &TableView, entry: &v1::TableEntry) -> Result<Vec<KeyMatch>, Failure> {
    if table.needs_priority && entry.priority <= 0 {
        let message = format!(
            "table {}: priority {} must be at least 1",
            table.name, entry.priority
        );
        return Err(Failure::invalid(message));
    }
    if !table.needs_priority && entry.priority != 0 {
        let message = format!(
            "table {}: priority {} must be 0, because no match field is ternary, range or optional",
            table.name, entry.priority
        );
        return Err(Failure::invalid(message));
    }
    matching::to_dataplane(Owner("table", &table.name), &table.fields, &entry.r#match)
}
