// SPDX-License-Identifier: Apache-2.0
//! Direct resources and the idle timeout of a table entry, as part of `TableEntry` (specification section "Direct
//! Resources").

use weir_dataplane::{ColourCounters, CounterValue, EntryHandle, MeterConfig, Switch, TableId};
use weir_p4runtime::p4::v1;

use super::failure::Failure;
use super::pipeline::TableView;
use super::write::Operation;
use super::{counter, meter};

/// The direct resources that a write sets.
#[derive(Debug)]
pub struct DirectResources {
    /// Some where the table has a direct meter; Some(None) resets it to the default, all green.
    meter: Option<Option<MeterConfig>>,
    reset_colours: bool,
    counter: Option<CounterValue>,
    idle_timeout_ns: Option<u64>,
}

impl DirectResources {
    /// The direct resources in a `TableEntry`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a resource that the table does not have and for invalid values.
    pub fn of(
        table: &TableView,
        entry: &v1::TableEntry,
        operation: Operation,
    ) -> Result<Self, Failure> {
        let place = || format!("table {}", table.name);
        let no_meter = || Failure::invalid(format!("{}: it has no direct meter", place()));
        let kind = table.direct_meter;
        let meter = match (&entry.meter_config, kind) {
            (None, None) => None,
            (None, Some(_)) => Some(None),
            (Some(_), None) => return Err(no_meter()),
            (Some(config), Some(kind)) => Some(Some(meter::to_dataplane(config, kind, &place())?)),
        };
        let reset_colours = match &entry.meter_counter_data {
            None => false,
            Some(_) if kind.is_none() => return Err(no_meter()),
            Some(data) => {
                meter::check_reset(data, &place())?;
                true
            }
        };
        let counter = match &entry.counter_data {
            None => None,
            Some(_) if !table.direct_counter => {
                return Err(Failure::invalid(format!(
                    "{}: it has no direct counter",
                    place()
                )));
            }
            Some(data) => Some(counter::to_dataplane(data, &place())?),
        };
        let idle = u64::try_from(entry.idle_timeout_ns).map_err(|_| {
            Failure::invalid(format!(
                "{}: idle_timeout_ns {} is negative",
                place(),
                entry.idle_timeout_ns
            ))
        })?;
        // A new entry has no timeout by default.
        let idle = (table.idle_timeout && !entry.is_default_action)
            .then_some(idle)
            .filter(|ns| *ns > 0 || operation != Operation::Insert);
        Ok(Self {
            meter,
            reset_colours,
            counter,
            idle_timeout_ns: idle,
        })
    }

    /// The initial values, to reset an entry's resources.
    pub fn initial(table: &TableView) -> Self {
        Self {
            meter: table.direct_meter.map(|_| None),
            reset_colours: table.direct_meter.is_some(),
            counter: table.direct_counter.then(CounterValue::default),
            idle_timeout_ns: None,
        }
    }

    /// Sets them for an entry; None: for the default entry. The meter comes first, because it may be refused.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a meter configuration without meaning.
    pub fn set(
        &self,
        switch: &mut Switch,
        table: TableId,
        handle: Option<EntryHandle>,
    ) -> Result<(), Failure> {
        if let Some(meter) = self.meter {
            switch.set_direct_meter(table, handle, meter)?;
        }
        if self.reset_colours {
            switch.set_direct_meter_counters(table, handle, ColourCounters::default())?;
        }
        if let Some(counter) = self.counter {
            switch.set_direct_counter(table, handle, counter)?;
        }
        if let (Some(idle_ns), Some(handle)) = (self.idle_timeout_ns, handle) {
            switch.set_idle_timeout(table, handle, idle_ns)?;
        }
        Ok(())
    }
}
