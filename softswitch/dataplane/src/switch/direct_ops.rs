// SPDX-License-Identifier: Apache-2.0
//! Control of direct counters and meters: those of an entry or, for None, of the default entry.

use super::Switch;
use crate::control::{ColourCounters, CounterValue, EntryHandle, MeterConfig};
use crate::error::ControlError;
use crate::info::{TableId, TableInfo};
use crate::meter::{self, CountedMeter};
use crate::tables::Direct;

fn absent(info: &TableInfo, what: &str) -> ControlError {
    ControlError::NotFound {
        what: format!("table {}: {what}", info.name),
    }
}

impl Switch {
    fn direct(
        &self,
        table: TableId,
        handle: Option<EntryHandle>,
    ) -> Result<(&TableInfo, &Direct), ControlError> {
        let Some(handle) = handle else {
            let view = self.table_view(table)?;
            return Ok((view.info, &view.state.default_direct));
        };
        let (view, entry) = self.table_entry(table, handle)?;
        Ok((view.info, &entry.direct))
    }

    fn counted_meter(
        &self,
        table: TableId,
        handle: Option<EntryHandle>,
    ) -> Result<&CountedMeter, ControlError> {
        let (info, direct) = self.direct(table, handle)?;
        let meter = direct.meter.as_deref();
        meter.ok_or_else(|| absent(info, "direct meter"))
    }

    fn counted_meter_mut(
        &mut self,
        table: TableId,
        handle: Option<EntryHandle>,
    ) -> Result<Option<&mut CountedMeter>, ControlError> {
        self.counted_meter(table, handle)?;
        let direct = self.state_mut(table)?.direct_mut(handle.map(|h| h.0));
        Ok(direct.and_then(|d| d.meter.as_deref_mut()))
    }

    /// Configures a direct meter; its buckets start full. None: unset, which colours everything green.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound` (entry, or the table has no direct meter), `InvalidValue`.
    pub fn set_direct_meter(
        &mut self,
        table: TableId,
        handle: impl Into<Option<EntryHandle>>,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        if let Some(config) = &config {
            meter::check(config)?;
        }
        if let Some(counted) = self.counted_meter_mut(table, handle.into())? {
            counted.meter.set(config);
        }
        Ok(())
    }

    /// Configuration of a direct meter.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn direct_meter(
        &self,
        table: TableId,
        handle: impl Into<Option<EntryHandle>>,
    ) -> Result<Option<MeterConfig>, ControlError> {
        Ok(self.counted_meter(table, handle.into())?.meter.config())
    }

    /// Packets and bytes by colour of a direct meter.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn direct_meter_counters(
        &self,
        table: TableId,
        handle: impl Into<Option<EntryHandle>>,
    ) -> Result<ColourCounters, ControlError> {
        Ok(self.counted_meter(table, handle.into())?.colours)
    }

    /// Sets the packets and bytes by colour of a direct meter.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn set_direct_meter_counters(
        &mut self,
        table: TableId,
        handle: impl Into<Option<EntryHandle>>,
        counters: ColourCounters,
    ) -> Result<(), ControlError> {
        if let Some(counted) = self.counted_meter_mut(table, handle.into())? {
            counted.colours = counters;
        }
        Ok(())
    }

    /// A direct counter.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn direct_counter(
        &self,
        table: TableId,
        handle: impl Into<Option<EntryHandle>>,
    ) -> Result<CounterValue, ControlError> {
        let (info, direct) = self.direct(table, handle.into())?;
        if !self.table_view(table)?.spec.direct_counter {
            return Err(absent(info, "direct counter"));
        }
        Ok(direct.counter)
    }

    /// Writes a direct counter.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn set_direct_counter(
        &mut self,
        table: TableId,
        handle: impl Into<Option<EntryHandle>>,
        value: CounterValue,
    ) -> Result<(), ControlError> {
        let handle = handle.into();
        self.direct_counter(table, handle)?;
        if let Some(direct) = self.state_mut(table)?.direct_mut(handle.map(|h| h.0)) {
            direct.counter = value;
        }
        Ok(())
    }
}
