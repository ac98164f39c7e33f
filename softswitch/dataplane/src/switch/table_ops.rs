// SPDX-License-Identifier: Apache-2.0
//! Control of tables: entries and defaults.

use super::Switch;
use super::profile_ops::without_action;
use crate::control::{ActionCall, EntryHandle, KeyMatch, TableEntry};
use crate::error::ControlError;
use crate::info::{TableId, TableInfo};
use crate::ir::Table;
use crate::program::Program;
use crate::tables::profile::Pointer;
use crate::tables::{BoundAction, Entry, TableState, key};

/// A table's declaration, its compiled form and its state.
pub(super) struct View<'a> {
    pub info: &'a TableInfo,
    pub spec: &'a Table,
    pub state: &'a TableState,
}

/// Index in the table's action list, and arguments.
type Encoded = (u16, Box<[u64]>);

fn no_entry(info: &TableInfo) -> ControlError {
    ControlError::NotFound {
        what: format!("table {}: entry", info.name),
    }
}

impl Switch {
    pub(super) fn table_view(&self, table: TableId) -> Result<View<'_>, ControlError> {
        let at = table.index();
        match (
            self.program.info.tables.get(at),
            self.program.ir.tables.get(at),
            self.tables.get(at),
        ) {
            (Some(info), Some(spec), Some(state)) => Ok(View { info, spec, state }),
            _ => Err(ControlError::UnknownId {
                kind: "table",
                id: table.0,
                count: self.tables.len(),
            }),
        }
    }

    pub(super) fn table_entry(
        &self,
        table: TableId,
        handle: EntryHandle,
    ) -> Result<(View<'_>, &Entry), ControlError> {
        let view = self.table_view(table)?;
        let entry = view
            .state
            .entry(handle.0)
            .ok_or_else(|| no_entry(view.info))?;
        Ok((view, entry))
    }

    pub(super) fn state_mut(&mut self, table: TableId) -> Result<&mut TableState, ControlError> {
        let count = self.tables.len();
        let state = self.tables.get_mut(table.index());
        state.ok_or(ControlError::UnknownId {
            kind: "table",
            id: table.0,
            count,
        })
    }

    fn refuse_const(info: &TableInfo) -> Result<(), ControlError> {
        if info.const_entries {
            return Err(ControlError::Const {
                what: format!("table {}: its entries", info.name),
            });
        }
        Ok(())
    }

    fn refuse_indirect(info: &TableInfo) -> Result<(), ControlError> {
        if info.profile.is_some() {
            return Err(ControlError::InvalidValue {
                what: format!("table {}", info.name),
                reason: "its entries point to members or groups of its action profile".into(),
            });
        }
        Ok(())
    }

    /// The member or group that an entry of an indirect table points to.
    pub(super) fn entry_pointer(
        &self,
        table: TableId,
        handle: EntryHandle,
    ) -> Result<Option<Pointer>, ControlError> {
        let (view, entry) = self.table_entry(table, handle)?;
        let word = view.spec.profile.and(entry.action.args().first());
        Ok(word.map(|word| Pointer::from_word(*word)))
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// `UnknownId`, `InvalidKey`, `InvalidArguments`, `ActionNotInTable`, `Duplicate`, `TableFull`, `Const`.
    pub fn insert_entry(
        &mut self,
        table: TableId,
        entry: &TableEntry,
    ) -> Result<EntryHandle, ControlError> {
        Self::refuse_indirect(self.table_view(table)?.info)?;
        self.insert_encoded(table, &entry.key, entry.priority, |program, info, spec| {
            program.encode_action(info, spec, &entry.action)
        })
    }

    pub(super) fn insert_encoded(
        &mut self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
        encode: impl FnOnce(&Program, &TableInfo, &Table) -> Result<Encoded, ControlError>,
    ) -> Result<EntryHandle, ControlError> {
        let view = self.table_view(table)?;
        Self::refuse_const(view.info)?;
        let (key, rank) = key::encode(view.info, view.spec, key, priority)?;
        let action = encode(&self.program, view.info, view.spec)?;
        if view.state.find(&key, rank).is_some() {
            return Err(ControlError::Duplicate {
                table: view.info.name.clone(),
            });
        }
        if view.state.len() >= view.info.size {
            return Err(ControlError::TableFull {
                table: view.info.name.clone(),
                size: view.info.size,
            });
        }
        let now_ns = self.now_ns;
        let state = self.state_mut(table)?;
        let slot = state.insert(key, rank, priority, action);
        if let Some(idle) = state.idle_mut() {
            idle.start(slot, 0, now_ns);
        }
        Ok(EntryHandle(slot))
    }

    /// The entry with this key and priority.
    ///
    /// # Errors
    /// `UnknownId`, `InvalidKey`, `NotFound`.
    pub fn find_entry(
        &self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
    ) -> Result<EntryHandle, ControlError> {
        let view = self.table_view(table)?;
        let (key, rank) = key::encode(view.info, view.spec, key, priority)?;
        view.state
            .find(&key, rank)
            .map(EntryHandle)
            .ok_or_else(|| no_entry(view.info))
    }

    /// Replaces the action of an entry; direct counter and meter keep their state.
    ///
    /// # Errors
    /// As `insert_entry`, and `NotFound`.
    pub fn modify_entry(
        &mut self,
        table: TableId,
        handle: EntryHandle,
        action: &ActionCall,
    ) -> Result<(), ControlError> {
        Self::refuse_indirect(self.table_view(table)?.info)?;
        self.replace_encoded(table, handle, |program, info, spec| {
            program.encode_action(info, spec, action)
        })
    }

    pub(super) fn replace_encoded(
        &mut self,
        table: TableId,
        handle: EntryHandle,
        encode: impl FnOnce(&Program, &TableInfo, &Table) -> Result<Encoded, ControlError>,
    ) -> Result<(), ControlError> {
        let (view, _) = self.table_entry(table, handle)?;
        Self::refuse_const(view.info)?;
        let action = encode(&self.program, view.info, view.spec)?;
        self.state_mut(table)?.replace(handle.0, action);
        Ok(())
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`, `Const`.
    pub fn delete_entry(
        &mut self,
        table: TableId,
        handle: EntryHandle,
    ) -> Result<(), ControlError> {
        let (view, _) = self.table_entry(table, handle)?;
        Self::refuse_const(view.info)?;
        let pointer = self.entry_pointer(table, handle)?;
        self.state_mut(table)?.remove(handle.0);
        self.release_pointer(table, pointer)
    }

    /// Removes all entries of a table; the default entry stays.
    ///
    /// # Errors
    /// `UnknownId`, `Const`.
    pub fn clear_table(&mut self, table: TableId) -> Result<(), ControlError> {
        Self::refuse_const(self.table_view(table)?.info)?;
        if self.profile_of(table)?.is_some() {
            for handle in self.entries(table)? {
                self.delete_entry(table, handle)?;
            }
        }
        self.state_mut(table)?.clear();
        Ok(())
    }

    /// One entry.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn entry(&self, table: TableId, handle: EntryHandle) -> Result<TableEntry, ControlError> {
        let (view, entry) = self.table_entry(table, handle)?;
        let key = key::decode(view.info, view.spec, &view.state.key(handle.0));
        if view.spec.profile.is_some() {
            return Ok(without_action(key, entry.priority));
        }
        Ok(TableEntry {
            key,
            priority: entry.priority,
            action: self.program.decode_action(
                view.spec,
                entry.action.local(),
                entry.action.args(),
            ),
        })
    }

    /// Number of entries of a table.
    ///
    /// # Errors
    /// `UnknownId`.
    pub fn entry_count(&self, table: TableId) -> Result<usize, ControlError> {
        Ok(self.table_view(table)?.state.len())
    }

    /// Handles of all entries of a table, oldest first.
    ///
    /// # Errors
    /// `UnknownId`.
    pub fn entries(&self, table: TableId) -> Result<Vec<EntryHandle>, ControlError> {
        Ok(self
            .table_view(table)?
            .state
            .slots()
            .into_iter()
            .map(EntryHandle)
            .collect())
    }

    /// The default entry; None when the table has none.
    ///
    /// # Errors
    /// `UnknownId`.
    pub fn default_entry(&self, table: TableId) -> Result<Option<ActionCall>, ControlError> {
        let view = self.table_view(table)?;
        let call = |action: &BoundAction| {
            self.program
                .decode_action(view.spec, action.local(), action.args())
        };
        Ok(view.state.action_of(None).map(call))
    }

    /// Sets the default entry, or with None restores the program's own.
    ///
    /// # Errors
    /// `UnknownId`, `ActionNotInTable`, `InvalidArguments`, `Const`.
    pub fn set_default_entry(
        &mut self,
        table: TableId,
        action: Option<&ActionCall>,
    ) -> Result<(), ControlError> {
        let view = self.table_view(table)?;
        if view.info.const_default {
            return Err(ControlError::Const {
                what: format!("table {}: its default action", view.info.name),
            });
        }
        let default = match action {
            Some(call) => Some(self.program.encode_action(view.info, view.spec, call)?),
            None => view
                .spec
                .default
                .as_ref()
                .map(|(local, args)| (*local, args.clone().into())),
        };
        self.state_mut(table)?.set_default(default);
        Ok(())
    }
}
