// SPDX-License-Identifier: Apache-2.0
//! Drop reports from the rows of the collector's `telemetry.parquet`.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType};
use weir_packet::LinkType;

use crate::CaptureError;
use crate::segment::Segment;

const VALID: &str = "a telemetry.parquet as weir-collector writes it";

/// A drop report of the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drop {
    /// Index of the policer's cell.
    pub policer: Option<u16>,
    /// 0 green, 1 yellow, 2 red.
    pub colour: Option<u8>,
    /// The packet's number among those that were metered by this cell.
    pub packet_number: Option<u32>,
    /// Ingress time by the switch's clock.
    pub ingress_ns: Option<u64>,
    /// The switch's clock, or the collector's where the report has no time: orders the reports.
    pub(super) clock_ns: i64,
}

/// The reports of a run, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// Of drops, each with its inner packet (`None` where that is not IP).
    pub(super) drops: Vec<(Option<Segment>, Drop)>,
    /// Of IP packets that passed, with their ingress times.
    pub(super) passed: Vec<(Segment, u64)>,
}

/// Rows of a `telemetry.parquet`: at least the columns `received_ns, dropped, ingress_ns, policer, colour, wire_length,
/// packet_number, inner`, with the collector's types.
#[derive(Debug)]
pub struct Reports<'a, B> {
    /// The file, for messages.
    pub path: &'a Path,
    /// Its rows.
    pub batches: B,
}

impl<B: Iterator<Item = Result<RecordBatch, ArrowError>>> Reports<'_, B> {
    /// All reports in order of arrival.
    pub(super) fn read(self) -> Result<Reported, CaptureError> {
        let fail = |problem: String| CaptureError::of_file(self.path, problem, VALID);
        let mut found = Reported::default();
        let mut clock = SwitchClock::default();
        for batch in self.batches {
            let batch = batch.map_err(|error| fail(error.to_string()))?;
            read_batch(&batch, &mut clock, &mut found).map_err(fail)?;
        }
        Ok(found)
    }
}

/// The times of a switch whose clock has 48 bits and begins anew within the run: a Tofino's does so every 78 hours.
#[derive(Debug, Default)]
struct SwitchClock {
    latest_ns: u64,
}

impl SwitchClock {
    const PERIOD_NS: u64 = 1 << 48;

    /// The time that continues the times before it. Reports may be late by much less than half a period.
    fn continued(&mut self, time_ns: u64) -> u64 {
        if time_ns >= Self::PERIOD_NS {
            // A clock of more bits.
            return time_ns;
        }
        let periods = self.latest_ns / Self::PERIOD_NS;
        let same = time_ns + periods * Self::PERIOD_NS;
        let continued = if same + Self::PERIOD_NS / 2 < self.latest_ns {
            same + Self::PERIOD_NS
        } else if periods > 0 && same > self.latest_ns + Self::PERIOD_NS / 2 {
            same - Self::PERIOD_NS
        } else {
            same
        };
        self.latest_ns = self.latest_ns.max(continued);
        continued
    }
}

fn read_batch(
    batch: &RecordBatch,
    clock: &mut SwitchClock,
    found: &mut Reported,
) -> Result<(), String> {
    let received_ns = primitive::<Int64Type>(batch, "received_ns")?;
    let ingress_ns = primitive::<UInt64Type>(batch, "ingress_ns")?;
    let policer = primitive::<UInt16Type>(batch, "policer")?;
    let colour = primitive::<UInt8Type>(batch, "colour")?;
    let wire_length = primitive::<UInt32Type>(batch, "wire_length")?;
    let packet_number = primitive::<UInt32Type>(batch, "packet_number")?;
    let dropped = typed(batch, "dropped", &DataType::Boolean)?.as_boolean();
    let inner = typed(batch, "inner", &DataType::Binary)?.as_binary::<i32>();
    for row in 0..batch.num_rows() {
        let was_dropped = dropped.is_valid(row) && dropped.value(row);
        let frame = if inner.is_valid(row) {
            inner.value(row)
        } else {
            &[]
        };
        let length = wire_length(row).unwrap_or(u32::try_from(frame.len()).unwrap_or(u32::MAX));
        let ingress_ns = ingress_ns(row).map(|time_ns| clock.continued(time_ns));
        if !was_dropped {
            if let (Some(segment), Some(time_ns)) = (
                Segment::parse(LinkType::Ethernet, frame, length),
                ingress_ns,
            ) {
                found.passed.push((segment, time_ns));
            }
            continue;
        }
        let clock_ns = ingress_ns.and_then(|time| i64::try_from(time).ok());
        let drop = Drop {
            policer: policer(row),
            colour: colour(row),
            packet_number: packet_number(row),
            ingress_ns,
            clock_ns: clock_ns.or(received_ns(row)).unwrap_or(0),
        };
        found
            .drops
            .push((Segment::parse(LinkType::Ethernet, frame, length), drop));
    }
    Ok(())
}

fn typed<'a>(
    batch: &'a RecordBatch,
    name: &str,
    wanted: &DataType,
) -> Result<&'a ArrayRef, String> {
    let column = batch
        .column_by_name(name)
        .ok_or_else(|| format!("column {name} is missing"))?;
    if column.data_type() != wanted {
        return Err(format!(
            "column {name} is {}, not {wanted}",
            column.data_type()
        ));
    }
    Ok(column)
}

fn primitive<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<impl Fn(usize) -> Option<T::Native> + use<'a, T>, String> {
    let column = typed(batch, name, &T::DATA_TYPE)?.as_primitive::<T>();
    Ok(move |row| column.is_valid(row).then(|| column.value(row)))
}
