// SPDX-License-Identifier: Apache-2.0
//! Calls on meters, counters and registers.

use weir_dataplane::{CounterId, CounterValue, MeterConfig, MeterId, RegisterId, TableId};

use crate::args::{Args, fields, structs};
use crate::dispatch::Answer;
use crate::refusal::{INVALID_INDEX, INVALID_NAME, Meter, Refusal};
use crate::state::Context;
use crate::wire::{Type, Value};

/// Code `ERROR` of `InvalidCounterOperation` and `InvalidRegisterOperation`.
const ARRAY_ERROR: Refusal = Refusal::Declared(3);

/// Units per second in one unit per microsecond; also millionths of a unit per second in one unit per second.
const MILLION: f64 = 1e6;
/// Rates in millionths of a unit per second fit 64 bits if they are below so many units per second.
const WHOLE_FROM: f64 = 1e13;

/// `BmMeterRateConfig`s: units per microsecond, and bursts.
pub fn rates(args: Args<'_>, id: i16) -> Result<Vec<(f64, i32)>, Refusal> {
    let of = |rate: Args<'_>| Ok((rate.double(1)?, rate.i32(2)?));
    args.structs(id)?.into_iter().map(of).collect()
}

/// The dataplane's configuration for bmv2's two rates, the lower one first: exact to a millionth of a unit per second.
///
/// # Errors
/// `BAD_RATES_LIST` for another number of rates, `INVALID_INFO_RATE_VALUE` for one that is negative or below the one
/// before it, `INVALID_BURST_SIZE_VALUE` for a negative burst.
pub fn meter_config(rates: &[(f64, i32)]) -> Result<MeterConfig, Refusal> {
    let [(committed, cbs), (peak, pbs)] = *rates else {
        return Err(Meter::BadRatesList.into());
    };
    let valid = |rate: f64| rate.is_finite() && (0.0..1e12).contains(&rate);
    if !valid(committed) || !valid(peak) || peak < committed {
        return Err(Meter::InvalidInfoRate.into());
    }
    let burst = |burst: i32| u64::try_from(burst).map_err(|_| Meter::InvalidBurst);
    let (committed, peak) = (committed * MILLION, peak * MILLION);
    let (cbs, pbs) = (burst(cbs)?, burst(pbs)?);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked above"
    )]
    let rounded = |rate: f64| rate.round() as u64;
    let whole = |rate: f64| (rate * MILLION).round() % MILLION == 0.0;
    if peak >= WHOLE_FROM || (whole(committed) && whole(peak)) {
        let (cir, pir) = (rounded(committed), rounded(peak));
        return Ok(MeterConfig::TwoRateThreeColour { cir, cbs, pir, pbs });
    }
    let (cir, pir) = (rounded(committed * MILLION), rounded(peak * MILLION));
    Ok(MeterConfig::TwoMicroRatesThreeColour { cir, cbs, pir, pbs })
}

/// `BmMeterRateConfig`s of a configuration; none for a meter that is not configured.
pub fn to_rates(config: Option<MeterConfig>) -> Value {
    let micro = matches!(config, Some(MeterConfig::TwoMicroRatesThreeColour { .. }));
    let rate = |(rate, burst): (u64, u64)| {
        #[expect(clippy::cast_precision_loss, reason = "bmv2's rates are doubles")]
        let rate = rate as f64 / if micro { MILLION * MILLION } else { MILLION };
        let burst = i32::try_from(burst).unwrap_or(i32::MAX);
        fields([(1, Value::Double(rate)), (2, Value::I32(burst))])
    };
    let rates = match config {
        None => vec![],
        Some(
            MeterConfig::TwoRateThreeColour { cir, cbs, pir, pbs }
            | MeterConfig::TwoMicroRatesThreeColour { cir, cbs, pir, pbs },
        ) => {
            vec![(cir, cbs), (pir, pbs)]
        }
        Some(MeterConfig::SingleRateThreeColour { cir, cbs, ebs }) => vec![(cir, cbs), (cir, ebs)],
        Some(MeterConfig::SingleRateTwoColour { cir, cbs }) => vec![(cir, cbs), (cir, cbs)],
    };
    structs(rates.into_iter().map(rate))
}

/// An index that an argument gives, of an array with `size` cells.
fn index(given: i32, size: u64) -> Result<u64, Refusal> {
    let index = u64::try_from(given).ok().filter(|index| *index < size);
    index.ok_or(INVALID_INDEX)
}

/// The indirect meter array that argument 2 names, with its size.
fn meter(context: &Context<'_>, args: Args<'_>) -> Result<(MeterId, u64), Refusal> {
    let info = context.switch(INVALID_NAME)?.info();
    let id = info.meter(args.text(2)?).ok_or(INVALID_NAME)?;
    let size = info.meters.get(id.index()).map_or(0, |meter| meter.size);
    Ok((id, size))
}

fn set_meters(
    context: &mut Context<'_>,
    meter: MeterId,
    cells: std::ops::Range<u64>,
    config: MeterConfig,
) -> Answer {
    let switch = context.switch_mut(INVALID_NAME)?;
    for cell in cells {
        let set = switch.set_meter(meter, cell, Some(config));
        set.map_err(|_| Meter::Error)?;
    }
    Ok(None)
}

pub(crate) fn meter_array_set_rates(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (meter, size) = meter(context, args)?;
    let config = meter_config(&rates(args, 3)?)?;
    set_meters(context, meter, 0..size, config)?;
    // A direct meter's array has no cells of its own: they belong to the entries of its table.
    let switch = context.switch_mut(INVALID_NAME)?;
    let tables = &switch.info().tables;
    let direct = tables
        .iter()
        .position(|table| table.direct_meter == Some(meter));
    if let Some(table) = direct
        .and_then(|index| u32::try_from(index).ok())
        .map(TableId)
    {
        for entry in switch.entries(table).map_err(|_| Meter::Error)? {
            let set = switch.set_direct_meter(table, entry, Some(config));
            set.map_err(|_| Meter::Error)?;
        }
    }
    Ok(None)
}

pub(crate) fn meter_set_rates(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (meter, size) = meter(context, args)?;
    let at = index(args.i32(3)?, size)?;
    set_meters(context, meter, at..at + 1, meter_config(&rates(args, 4)?)?)
}

pub(crate) fn meter_get_rates(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (meter, size) = meter(context, args)?;
    let at = index(args.i32(3)?, size)?;
    let config = context.switch(INVALID_NAME)?.meter(meter, at);
    Ok(Some(to_rates(config.map_err(|_| Meter::Error)?)))
}

/// `BmCounterValue`.
pub fn counter_value(value: CounterValue) -> Value {
    fields([
        (1, Value::I64(value.bytes.cast_signed())),
        (2, Value::I64(value.packets.cast_signed())),
    ])
}

/// The value of a `BmCounterValue`.
pub fn to_counter(given: Args<'_>) -> Result<CounterValue, Refusal> {
    Ok(CounterValue {
        bytes: given.i64(1)?.cast_unsigned(),
        packets: given.i64(2)?.cast_unsigned(),
    })
}

fn counter(context: &Context<'_>, args: Args<'_>) -> Result<(CounterId, u64), Refusal> {
    let info = context.switch(INVALID_NAME)?.info();
    let id = info.counter(args.text(2)?).ok_or(INVALID_NAME)?;
    let size = info
        .counters
        .get(id.index())
        .map_or(0, |counter| counter.size);
    Ok((id, size))
}

pub(crate) fn counter_read(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (counter, size) = counter(context, args)?;
    let at = index(args.i32(3)?, size)?;
    let value = context.switch(INVALID_NAME)?.counter(counter, at);
    Ok(Some(counter_value(value.map_err(|_| ARRAY_ERROR)?)))
}

pub(crate) fn counter_reset_all(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (counter, size) = counter(context, args)?;
    let switch = context.switch_mut(INVALID_NAME)?;
    for cell in 0..size {
        let reset = switch.set_counter(counter, cell, CounterValue::default());
        reset.map_err(|_| ARRAY_ERROR)?;
    }
    Ok(None)
}

pub(crate) fn counter_write(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (counter, size) = counter(context, args)?;
    let at = index(args.i32(3)?, size)?;
    let value = to_counter(args.fields(4)?)?;
    let set = context
        .switch_mut(INVALID_NAME)?
        .set_counter(counter, at, value);
    set.map_err(|_| ARRAY_ERROR)?;
    Ok(None)
}

struct Register {
    id: RegisterId,
    size: u64,
    width_bits: u32,
}

fn register(context: &Context<'_>, args: Args<'_>) -> Result<Register, Refusal> {
    let info = context.switch(INVALID_NAME)?.info();
    let id = info.register(args.text(2)?).ok_or(INVALID_NAME)?;
    let info = info.registers.get(id.index()).ok_or(INVALID_NAME)?;
    Ok(Register {
        id,
        size: info.size,
        width_bits: info.width_bits,
    })
}

/// The low 64 bits of a cell; the services have no wider type.
fn low_bits(bytes: &[u8]) -> i64 {
    let value = bytes
        .iter()
        .fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    value.cast_signed()
}

/// The bytes of a value in a cell: two's complement, without the bits that the cell does not have.
fn cell_bytes(value: i64, width_bits: u32) -> Vec<u8> {
    let count = width_bits.div_ceil(8) as usize;
    let fill = if value < 0 { u8::MAX } else { 0 };
    let value = value.to_be_bytes();
    let mut bytes: Vec<u8> = std::iter::repeat_n(fill, count.saturating_sub(8))
        .chain(value.into_iter().skip(8_usize.saturating_sub(count)))
        .collect();
    if let (Some(first), part @ 1..) = (bytes.first_mut(), width_bits % 8) {
        *first &= u8::MAX >> (8 - part);
    }
    bytes
}

pub(crate) fn register_read(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let register = register(context, args)?;
    let at = index(args.i32(3)?, register.size)?;
    let value = context.switch(INVALID_NAME)?.register(register.id, at);
    Ok(Some(Value::I64(low_bits(&value.map_err(|_| ARRAY_ERROR)?))))
}

pub(crate) fn register_read_all(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let register = register(context, args)?;
    let switch = context.switch(INVALID_NAME)?;
    let read = |at| switch.register(register.id, at).map_err(|_| ARRAY_ERROR);
    let values: Result<Vec<Value>, Refusal> = (0..register.size)
        .map(|at| Ok(Value::I64(low_bits(&read(at)?))))
        .collect();
    Ok(Some(Value::List(Type::I64, values?)))
}

fn set_registers(
    context: &mut Context<'_>,
    register: &Register,
    cells: std::ops::Range<u64>,
    value: i64,
) -> Answer {
    let bytes = cell_bytes(value, register.width_bits);
    let switch = context.switch_mut(INVALID_NAME)?;
    for cell in cells {
        let set = switch.set_register(register.id, cell, &bytes);
        set.map_err(|_| ARRAY_ERROR)?;
    }
    Ok(None)
}

pub(crate) fn register_write(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let register = register(context, args)?;
    let at = index(args.i32(3)?, register.size)?;
    set_registers(context, &register, at..at + 1, args.i64(4)?)
}

pub(crate) fn register_write_range(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let register = register(context, args)?;
    let bound = |id| -> Result<u64, Refusal> { index(args.i32(id)?, register.size + 1) };
    let (start, end) = (bound(3)?, bound(4)?);
    if start > end {
        return Err(INVALID_INDEX);
    }
    set_registers(context, &register, start..end, args.i64(5)?)
}

pub(crate) fn register_reset(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let register = register(context, args)?;
    set_registers(context, &register, 0..register.size, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_register_value_is_cut_to_its_cell_as_two_s_complement() {
        assert_eq!(cell_bytes(-1, 12), [0x0f, 0xff]);
        assert_eq!(cell_bytes(0x1_2345, 16), [0x23, 0x45]);
        assert_eq!(
            cell_bytes(-2, 72),
            [0xff; 8].into_iter().chain([0xfe]).collect::<Vec<_>>()
        );
        assert_eq!(low_bits(&cell_bytes(i64::MIN, 64)), i64::MIN);
    }

    #[test]
    fn rates_are_units_per_microsecond_with_the_lower_one_first() {
        // 0.0005 units per microsecond are 500 per second.
        assert_eq!(
            meter_config(&[(0.0005, 1), (0.001, 2)]),
            Ok(MeterConfig::TwoRateThreeColour {
                cir: 500,
                cbs: 1,
                pir: 1000,
                pbs: 2
            })
        );
        assert_eq!(
            meter_config(&[(0.000_000_5, 1), (0.000_01, 1)]),
            Ok(MeterConfig::TwoMicroRatesThreeColour {
                cir: 500_000,
                cbs: 1,
                pir: 10_000_000,
                pbs: 1
            })
        );
        // A committed rate keeps its fraction beside a large peak rate.
        assert_eq!(
            meter_config(&[(0.000_000_5, 1), (8192.0, 1)]),
            Ok(MeterConfig::TwoMicroRatesThreeColour {
                cir: 500_000,
                cbs: 1,
                pir: 8_192_000_000_000_000,
                pbs: 1
            })
        );
        assert_eq!(meter_config(&[(1.0, 1)]), Err(Meter::BadRatesList.into()));
        assert_eq!(
            meter_config(&[(2.0, 1), (1.0, 1)]),
            Err(Meter::InvalidInfoRate.into())
        );
        assert_eq!(
            meter_config(&[(f64::NAN, 1), (1.0, 1)]),
            Err(Meter::InvalidInfoRate.into())
        );
    }
}
