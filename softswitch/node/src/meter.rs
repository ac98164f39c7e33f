// SPDX-License-Identifier: Apache-2.0
//! `MeterEntry` and `DirectMeterEntry`.

use weir_dataplane::{ColourCounters, MeterConfig};
use weir_p4runtime::p4::config::v1::meter_spec::Type as MeterType;
use weir_p4runtime::p4::v1;

use super::entry_key::find_or_default;
use super::failure::Failure;
use super::write::{Operation, cells};
use super::{Node, counter, parts};

/// The dataplane's form of a configuration for a meter of type `kind`.
///
/// # Errors
/// `INVALID_ARGUMENT` for a negative value and for values that the type of meter does not have.
pub fn to_dataplane(
    config: &v1::MeterConfig,
    kind: MeterType,
    place: &str,
) -> Result<MeterConfig, Failure> {
    let value = |name: &str, value: i64| {
        u64::try_from(value).map_err(|_| {
            Failure::invalid(format!("{place}: meter config: {name} {value} is negative"))
        })
    };
    let (cir, cbs) = (value("cir", config.cir)?, value("cburst", config.cburst)?);
    let (pir, pbs) = (value("pir", config.pir)?, value("pburst", config.pburst)?);
    let ebs = value("eburst", config.eburst)?;
    if kind != MeterType::SingleRateThreeColor && ebs != 0 {
        let message = format!(
            "{place}: meter config: eburst {ebs} must be 0, it belongs to a single-rate three-colour meter"
        );
        return Err(Failure::invalid(message));
    }
    if kind != MeterType::TwoRateThreeColor && (pir, pbs) != (cir, cbs) {
        let message = format!(
            "{place}: meter config: pir and pburst must equal cir and cburst for a single-rate meter"
        );
        return Err(Failure::invalid(message));
    }
    Ok(match kind {
        MeterType::TwoRateThreeColor => MeterConfig::TwoRateThreeColour { cir, cbs, pir, pbs },
        MeterType::SingleRateThreeColor => MeterConfig::SingleRateThreeColour { cir, cbs, ebs },
        MeterType::SingleRateTwoColor => MeterConfig::SingleRateTwoColour { cir, cbs },
    })
}

/// The P4Runtime form of a configuration; rates are whole, so millionths that bmv2's CLI has set are rounded.
pub fn to_p4runtime(config: MeterConfig) -> v1::MeterConfig {
    // Values came from an i64.
    let value = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let (cir, cbs, pir, pbs, ebs) = match config {
        MeterConfig::TwoRateThreeColour { cir, cbs, pir, pbs } => (cir, cbs, pir, pbs, 0),
        MeterConfig::TwoMicroRatesThreeColour { cir, cbs, pir, pbs } => {
            let whole = |micro: u64| micro / 1_000_000 + u64::from(micro % 1_000_000 >= 500_000);
            (whole(cir), cbs, whole(pir), pbs, 0)
        }
        MeterConfig::SingleRateThreeColour { cir, cbs, ebs } => (cir, cbs, cir, cbs, ebs),
        MeterConfig::SingleRateTwoColour { cir, cbs } => (cir, cbs, cir, cbs, 0),
    };
    v1::MeterConfig {
        cir: value(cir),
        cburst: value(cbs),
        pir: value(pir),
        pburst: value(pbs),
        eburst: value(ebs),
    }
}

/// The P4Runtime form of counters by colour.
pub fn colours_to_p4runtime(colours: ColourCounters) -> v1::MeterCounterData {
    v1::MeterCounterData {
        green: Some(counter::to_p4runtime(colours.green)),
        yellow: Some(counter::to_p4runtime(colours.yellow)),
        red: Some(counter::to_p4runtime(colours.red)),
    }
}

/// Requires that counters by colour are set to 0, the only valid value.
///
/// # Errors
/// `INVALID_ARGUMENT` for any other value.
pub fn check_reset(data: &v1::MeterCounterData, place: &str) -> Result<(), Failure> {
    let zero = v1::CounterData::default();
    let counters = [data.green, data.yellow, data.red];
    if counters.into_iter().flatten().all(|data| data == zero) {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "{place}: counters by colour can only be reset, so all values must be 0"
    )))
}

impl Node {
    pub(super) fn write_meter(
        &mut self,
        operation: Operation,
        entry: &v1::MeterEntry,
    ) -> Result<(), Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        operation.only_modify("MeterEntry")?;
        let meter = pipeline.meter(entry.meter_id)?;
        let place = format!("meter {}", meter.name);
        if let Some(data) = &entry.counter_data {
            check_reset(data, &place)?;
        }
        let cells = cells(entry.index.as_ref(), meter.size, &place)?;
        let config = entry
            .config
            .as_ref()
            .map(|c| to_dataplane(c, meter.extra, &place))
            .transpose()?;
        for cell in cells {
            switch.set_meter(meter.id, cell, config)?;
            if entry.counter_data.is_some() {
                switch.set_meter_counters(meter.id, cell, ColourCounters::default())?;
            }
        }
        Ok(())
    }

    pub(super) fn write_direct_meter(
        &mut self,
        operation: Operation,
        entry: &v1::DirectMeterEntry,
    ) -> Result<(), Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        operation.only_modify("DirectMeterEntry")?;
        let Some(key) = &entry.table_entry else {
            return Err(Failure::invalid("DirectMeterEntry: table_entry is missing"));
        };
        let table = pipeline.table(key.table_id)?;
        let place = format!("table {}", table.name);
        let Some(kind) = table.direct_meter else {
            return Err(Failure::invalid(format!("{place}: it has no direct meter")));
        };
        if let Some(data) = &entry.counter_data {
            check_reset(data, &place)?;
        }
        let config = entry
            .config
            .as_ref()
            .map(|c| to_dataplane(c, kind, &place))
            .transpose()?;
        let handle = find_or_default(table, switch, key)?;
        switch.set_direct_meter(table.id, handle, config)?;
        if entry.counter_data.is_some() {
            switch.set_direct_meter_counters(table.id, handle, ColourCounters::default())?;
        }
        Ok(())
    }
}
