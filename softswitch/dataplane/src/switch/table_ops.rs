// SPDX-License-Identifier: Apache-2.0
//! Control of tables: entries, defaults, direct counters and meters.

use super::Switch;
use crate::control::{ActionCall, CounterValue, EntryHandle, KeyMatch, MeterConfig, TableEntry};
use crate::error::ControlError;
use crate::info::{TableId, TableInfo};
use crate::ir::Table;
use crate::meter::{self, Meter};
use crate::tables::{Entry, TableState, key};

/// One table from all its sides.
struct View<'a> {
    info: &'a TableInfo,
    spec: &'a Table,
    state: &'a TableState,
}

fn no_entry(info: &TableInfo) -> ControlError {
    ControlError::NotFound {
        what: format!("table {}: entry", info.name),
    }
}

impl Switch {
    fn table_view(&self, table: TableId) -> Result<View<'_>, ControlError> {
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

    fn table_entry(
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

    fn state_mut(&mut self, table: TableId) -> Result<&mut TableState, ControlError> {
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

    /// Adds an entry.
    ///
    /// # Errors
    /// `UnknownId`, `InvalidKey`, `InvalidArguments`, `ActionNotInTable`, `Duplicate`, `TableFull`, `Const`.
    pub fn insert_entry(
        &mut self,
        table: TableId,
        entry: &TableEntry,
    ) -> Result<EntryHandle, ControlError> {
        let view = self.table_view(table)?;
        Self::refuse_const(view.info)?;
        let (key, rank) = key::encode(view.info, view.spec, &entry.key, entry.priority)?;
        let (action, args) = self
            .program
            .encode_action(view.info, view.spec, &entry.action)?;
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
        let slot = self
            .state_mut(table)?
            .insert(key, rank, entry.priority, action, args);
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

    /// Changes what a hit does; direct counter and meter state stay.
    ///
    /// # Errors
    /// As `insert_entry`, and `NotFound`.
    pub fn modify_entry(
        &mut self,
        table: TableId,
        handle: EntryHandle,
        action: &ActionCall,
    ) -> Result<(), ControlError> {
        let (view, _) = self.table_entry(table, handle)?;
        Self::refuse_const(view.info)?;
        let (action, args) = self.program.encode_action(view.info, view.spec, action)?;
        if let Some(entry) = self.state_mut(table)?.entry_mut(handle.0) {
            entry.action = action;
            entry.args = args;
        }
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
        self.state_mut(table)?.remove(handle.0);
        Ok(())
    }

    /// Removes all entries of a table; the default entry stays.
    ///
    /// # Errors
    /// `UnknownId`, `Const`.
    pub fn clear_table(&mut self, table: TableId) -> Result<(), ControlError> {
        Self::refuse_const(self.table_view(table)?.info)?;
        self.state_mut(table)?.clear();
        Ok(())
    }

    /// One entry.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn entry(&self, table: TableId, handle: EntryHandle) -> Result<TableEntry, ControlError> {
        let (view, entry) = self.table_entry(table, handle)?;
        Ok(TableEntry {
            key: key::decode(view.info, view.spec, &view.state.key(handle.0)),
            priority: entry.priority,
            action: self
                .program
                .decode_action(view.spec, entry.action, &entry.args),
        })
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
        let call =
            |(local, args): &(u16, Box<[u64]>)| self.program.decode_action(view.spec, *local, args);
        Ok(view.state.default.as_ref().map(call))
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
        self.state_mut(table)?.default = default;
        Ok(())
    }

    /// Configures the direct meter of an entry; its buckets start full. None: unset.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound` (entry, or the table has no direct meter), `InvalidValue`.
    pub fn set_direct_meter(
        &mut self,
        table: TableId,
        handle: EntryHandle,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        self.direct_meter(table, handle)?;
        if let Some(config) = &config {
            meter::check(config)?;
        }
        if let Some(entry) = self.state_mut(table)?.entry_mut(handle.0) {
            entry.meter = config.map(|config| {
                let mut meter = Meter::default();
                meter.set(Some(config));
                Box::new(meter)
            });
        }
        Ok(())
    }

    /// Configuration of the direct meter of an entry.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn direct_meter(
        &self,
        table: TableId,
        handle: EntryHandle,
    ) -> Result<Option<MeterConfig>, ControlError> {
        let (view, entry) = self.table_entry(table, handle)?;
        if view.spec.direct_meter.is_none() {
            return Err(ControlError::NotFound {
                what: format!("table {}: direct meter", view.info.name),
            });
        }
        Ok(entry.meter.as_ref().and_then(|m| m.config()))
    }

    /// The direct counter of an entry.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn direct_counter(
        &self,
        table: TableId,
        handle: EntryHandle,
    ) -> Result<CounterValue, ControlError> {
        let (view, entry) = self.table_entry(table, handle)?;
        if !view.spec.direct_counter {
            return Err(ControlError::NotFound {
                what: format!("table {}: direct counter", view.info.name),
            });
        }
        Ok(entry.counter)
    }

    /// Writes the direct counter of an entry.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn set_direct_counter(
        &mut self,
        table: TableId,
        handle: EntryHandle,
        value: CounterValue,
    ) -> Result<(), ControlError> {
        self.direct_counter(table, handle)?;
        if let Some(entry) = self.state_mut(table)?.entry_mut(handle.0) {
            entry.counter = value;
        }
        Ok(())
    }
}
