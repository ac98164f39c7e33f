// SPDX-License-Identifier: Apache-2.0
//! Control of indirect meters, counters and registers.

use super::Switch;
use crate::control::{ColourCounters, CounterValue, CrcConfig, MeterConfig};
use crate::crc::CustomCrc;
use crate::error::ControlError;
use crate::info::{CalculationId, CounterId, MeterId, RegisterId};
use crate::meter::{self, CountedMeter};
use weir_program::value::{parse_value, value_bytes};

fn unknown(kind: &'static str, id: u32, count: usize) -> ControlError {
    ControlError::UnknownId { kind, id, count }
}

fn out_of_range(name: &str, index: u64, size: u64) -> ControlError {
    ControlError::IndexOutOfRange {
        name: name.to_owned(),
        index,
        size,
    }
}

fn at(index: u64) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

impl Switch {
    /// Configures one cell of an indirect meter; the buckets start full. None: unset (always green).
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`, `InvalidValue`.
    pub fn set_meter(
        &mut self,
        meter: MeterId,
        index: u64,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        self.meter(meter, index)?;
        if let Some(config) = &config {
            meter::check(config)?;
        }
        let cells = self
            .externs
            .meters
            .get_mut(meter.index())
            .map(|m| &mut m.cells);
        if let Some(cell) = cells.and_then(|cells| cells.get_mut(at(index))) {
            cell.meter.set(config);
        }
        Ok(())
    }

    /// Configuration of one cell of an indirect meter; None when unset.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`.
    pub fn meter(&self, meter: MeterId, index: u64) -> Result<Option<MeterConfig>, ControlError> {
        Ok(self.meter_cell(meter, index)?.meter.config())
    }

    /// Packets and bytes by colour of one cell of an indirect meter.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`.
    pub fn meter_counters(
        &self,
        meter: MeterId,
        index: u64,
    ) -> Result<ColourCounters, ControlError> {
        Ok(self.meter_cell(meter, index)?.colours)
    }

    /// Sets the packets and bytes by colour of one cell of an indirect meter.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`.
    pub fn set_meter_counters(
        &mut self,
        meter: MeterId,
        index: u64,
        counters: ColourCounters,
    ) -> Result<(), ControlError> {
        self.meter_cell(meter, index)?;
        let array = self.externs.meters.get_mut(meter.index());
        if let Some(cell) = array.and_then(|array| array.cells.get_mut(at(index))) {
            cell.colours = counters;
        }
        Ok(())
    }

    fn meter_cell(&self, meter: MeterId, index: u64) -> Result<&CountedMeter, ControlError> {
        let arrays = &self.externs.meters;
        let array = arrays
            .get(meter.index())
            .ok_or_else(|| unknown("meter", meter.0, arrays.len()))?;
        array.cells.get(at(index)).ok_or_else(|| {
            let name = self
                .info()
                .meters
                .get(meter.index())
                .map_or("", |m| m.name.as_str());
            out_of_range(name, index, array.cells.len() as u64)
        })
    }

    /// One cell of an indirect counter.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`.
    pub fn counter(&self, counter: CounterId, index: u64) -> Result<CounterValue, ControlError> {
        let arrays = &self.externs.counters;
        let array = arrays
            .get(counter.index())
            .ok_or_else(|| unknown("counter", counter.0, arrays.len()))?;
        array.get(at(index)).copied().ok_or_else(|| {
            let name = self
                .info()
                .counters
                .get(counter.index())
                .map_or("", |c| c.name.as_str());
            out_of_range(name, index, array.len() as u64)
        })
    }

    /// Writes one cell of an indirect counter.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`.
    pub fn set_counter(
        &mut self,
        counter: CounterId,
        index: u64,
        value: CounterValue,
    ) -> Result<(), ControlError> {
        self.counter(counter, index)?;
        let array = self.externs.counters.get_mut(counter.index());
        if let Some(cell) = array.and_then(|array| array.get_mut(at(index))) {
            *cell = value;
        }
        Ok(())
    }

    /// Changes the parameters of a custom CRC; they stay until there is another program.
    ///
    /// # Errors
    /// `UnknownId`; `InvalidValue` for a calculation that is no custom CRC, and for numbers wider than it.
    pub fn set_custom_crc(
        &mut self,
        calculation: CalculationId,
        config: CrcConfig,
    ) -> Result<(), ControlError> {
        let at = calculation.index();
        let calculations = &self.program.info.calculations;
        let info = calculations
            .get(at)
            .ok_or_else(|| unknown("calculation", calculation.0, calculations.len()))?;
        let invalid = |reason: String| ControlError::InvalidValue {
            what: format!("calculation {}", info.name),
            reason,
        };
        let crc = self.externs.custom_crcs.get_mut(at);
        let crc = crc.and_then(Option::as_mut).ok_or_else(|| {
            invalid(format!(
                "it is a {}; crc16_custom and crc32_custom have parameters",
                info.algorithm
            ))
        })?;
        let width = crc.width();
        let numbers = [config.polynomial, config.initial, config.final_xor];
        if numbers
            .iter()
            .any(|number| u64::from(*number) >> width != 0)
        {
            return Err(invalid(format!("a number has more than {width} bits")));
        }
        **crc = CustomCrc::new(width, config);
        Ok(())
    }

    /// One register cell, `ceil(width / 8)` bytes.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`.
    pub fn register(&self, register: RegisterId, index: u64) -> Result<Vec<u8>, ControlError> {
        let arrays = &self.externs.registers;
        let array = arrays
            .get(register.index())
            .ok_or_else(|| unknown("register", register.0, arrays.len()))?;
        let cell = array.cell(index).ok_or_else(|| {
            let info = self.info().registers.get(register.index());
            out_of_range(
                info.map_or("", |r| r.name.as_str()),
                index,
                info.map_or(0, |r| r.size),
            )
        })?;
        Ok(value_bytes(cell, array.width))
    }

    /// Writes one register cell.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`, `InvalidValue` when the value is wider than the cell.
    pub fn set_register(
        &mut self,
        register: RegisterId,
        index: u64,
        value: &[u8],
    ) -> Result<(), ControlError> {
        self.register(register, index)?;
        let info = self.info().registers.get(register.index());
        let (name, width) = info.map_or((String::new(), 64), |r| (r.name.clone(), r.width_bits));
        let words = parse_value(value, width)
            .map_err(|reason| ControlError::InvalidValue { what: name, reason })?;
        let array = self.externs.registers.get_mut(register.index());
        if let Some(cell) = array.and_then(|array| array.cell_mut(index)) {
            cell.copy_from_slice(&words);
        }
        Ok(())
    }
}
