// SPDX-License-Identifier: Apache-2.0
//! `CounterEntry` and `DirectCounterEntry`.

use weir_dataplane::CounterValue;
use weir_p4runtime::p4::v1;

use super::entry_key::find_or_default;
use super::failure::Failure;
use super::write::{Operation, cells};
use super::{Node, parts};

/// The dataplane's form of a value.
///
/// # Errors
/// `INVALID_ARGUMENT` for a negative value.
pub fn to_dataplane(data: &v1::CounterData, place: &str) -> Result<CounterValue, Failure> {
    match (
        u64::try_from(data.packet_count),
        u64::try_from(data.byte_count),
    ) {
        (Ok(packets), Ok(bytes)) => Ok(CounterValue { packets, bytes }),
        _ => Err(Failure::invalid(format!(
            "{place}: counter data: packet_count and byte_count cannot be negative"
        ))),
    }
}

/// The P4Runtime form of a value; saturates at the largest signed number.
pub fn to_p4runtime(value: CounterValue) -> v1::CounterData {
    v1::CounterData {
        byte_count: i64::try_from(value.bytes).unwrap_or(i64::MAX),
        packet_count: i64::try_from(value.packets).unwrap_or(i64::MAX),
    }
}

impl Node {
    pub(super) fn write_counter(
        &mut self,
        operation: Operation,
        entry: &v1::CounterEntry,
    ) -> Result<(), Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        operation.only_modify("CounterEntry")?;
        let counter = pipeline.counter(entry.counter_id)?;
        let place = format!("counter {}", counter.name);
        let cells = cells(entry.index.as_ref(), counter.size, &place)?;
        // Without data the value stays unchanged.
        let Some(data) = &entry.data else {
            return Ok(());
        };
        let value = to_dataplane(data, &place)?;
        for cell in cells {
            switch.set_counter(counter.id, cell, value)?;
        }
        Ok(())
    }

    pub(super) fn write_direct_counter(
        &mut self,
        operation: Operation,
        entry: &v1::DirectCounterEntry,
    ) -> Result<(), Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        operation.only_modify("DirectCounterEntry")?;
        let Some(key) = &entry.table_entry else {
            return Err(Failure::invalid(
                "DirectCounterEntry: table_entry is missing",
            ));
        };
        let table = pipeline.table(key.table_id)?;
        let place = format!("table {}", table.name);
        if !table.direct_counter {
            return Err(Failure::invalid(format!(
                "{place}: it has no direct counter"
            )));
        }
        let handle = find_or_default(table, switch, key)?;
        match &entry.data {
            Some(data) => {
                Ok(switch.set_direct_counter(table.id, handle, to_dataplane(data, &place)?)?)
            }
            None => Ok(()),
        }
    }
}
