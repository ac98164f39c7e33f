// SPDX-License-Identifier: Apache-2.0
//! Match keys and priorities: bmv2's `BmMatchParam` ↔ the dataplane's `KeyMatch`.
//!
//! As in bmv2, a value has all bytes of its field, bits outside field, mask and prefix do not count, and the lowest
//! priority wins.

use weir_dataplane::{KeyFieldInfo, KeyMatch, MatchKind, TableInfo};

use crate::args::{Args, fields};
use crate::refusal::{Refusal, Table};
use crate::wire::Value;

const EXACT: i32 = 0;
const LPM: i32 = 1;
const TERNARY: i32 = 2;
const VALID: i32 = 3;
const RANGE: i32 = 4;

fn byte_count(width_bits: u32) -> usize {
    width_bits.div_ceil(8) as usize
}

fn bad() -> Refusal {
    Table::BadMatchKey.into()
}

/// The value without the bits above the field's width.
fn value(bytes: &[u8], width_bits: u32) -> Result<Vec<u8>, Refusal> {
    if bytes.len() != byte_count(width_bits) {
        return Err(bad());
    }
    let mut bytes = bytes.to_vec();
    if let (Some(first), part @ 1..) = (bytes.first_mut(), width_bits % 8) {
        *first &= u8::MAX >> (8 - part);
    }
    Ok(bytes)
}

fn masked(value: &[u8], mask: &[u8]) -> Vec<u8> {
    value.iter().zip(mask).map(|(v, m)| v & m).collect()
}

/// All ones in the first `length` of the field's bits.
fn prefix_mask(width_bits: u32, length: u32) -> Vec<u8> {
    let padding = (byte_count(width_bits) * 8) as u32 - width_bits;
    (0..byte_count(width_bits) as u32)
        .map(|at| {
            (0..8)
                .filter(|bit| (padding..padding + length).contains(&(at * 8 + bit)))
                .fold(0, |byte, bit| byte | 0x80 >> bit)
        })
        .collect()
}

/// The dataplane's form of a key.
///
/// # Errors
/// `BAD_MATCH_KEY`; `PROTOCOL_ERROR` for what is no key at all.
pub fn to_dataplane(table: &TableInfo, key: &[Args<'_>]) -> Result<Vec<KeyMatch>, Refusal> {
    if key.len() != table.key.len() {
        return Err(bad());
    }
    let pairs = table.key.iter().zip(key);
    pairs
        .map(|(field, given)| field_match(field, *given))
        .collect()
}

fn field_match(field: &KeyFieldInfo, given: Args<'_>) -> Result<KeyMatch, Refusal> {
    let width = field.width_bits;
    let (kind, exact, lpm) = (given.i32(1)?, given.fields(2)?, given.fields(3)?);
    let (ternary, valid, range) = (given.fields(4)?, given.fields(5)?, given.fields(6)?);
    Ok(match (field.kind, kind) {
        (MatchKind::Exact, EXACT) => KeyMatch::Exact(value(exact.bytes(1)?, width)?),
        (MatchKind::Exact, VALID) if width <= 8 => KeyMatch::Exact(vec![u8::from(valid.bool(1)?)]),
        (MatchKind::Lpm, LPM) => {
            let prefix_len = u32::try_from(lpm.i32(2)?).ok().filter(|len| *len <= width);
            let prefix_len = prefix_len.ok_or_else(bad)?;
            let value = value(lpm.bytes(1)?, width)?;
            KeyMatch::Lpm {
                value: masked(&value, &prefix_mask(width, prefix_len)),
                prefix_len,
            }
        }
        (MatchKind::Ternary | MatchKind::Optional, TERNARY) => {
            let mask = value(ternary.bytes(2)?, width)?;
            let value = masked(&value(ternary.bytes(1)?, width)?, &mask);
            if field.kind == MatchKind::Ternary {
                KeyMatch::Ternary { value, mask }
            } else if mask == prefix_mask(width, width) {
                KeyMatch::Exact(value)
            } else if mask.iter().all(|byte| *byte == 0) {
                KeyMatch::Any
            } else {
                return Err(bad());
            }
        }
        (MatchKind::Range, RANGE) => {
            let (low, high) = (
                value(range.bytes(1)?, width)?,
                value(range.bytes(2)?, width)?,
            );
            if low > high {
                return Err(bad());
            }
            KeyMatch::Range { low, high }
        }
        _ => return Err(bad()),
    })
}

/// bmv2's form of a key.
pub fn to_thrift(table: &TableInfo, key: &[KeyMatch]) -> Vec<Value> {
    let pairs = table.key.iter().zip(key);
    pairs.map(|(field, key)| param(field, key)).collect()
}

fn param(field: &KeyFieldInfo, key: &KeyMatch) -> Value {
    let width = field.width_bits;
    let (zeros, ones) = (|| vec![0; byte_count(width)], || prefix_mask(width, width));
    let of_kind = |kind: i32, id: i16, inner: Value| fields([(1, Value::I32(kind)), (id, inner)]);
    let two = |first: Vec<u8>, second: Value| fields([(1, Value::Binary(first)), (2, second)]);
    match field.kind {
        MatchKind::Exact => {
            let value = match key {
                KeyMatch::Exact(value) => value.clone(),
                _ => zeros(),
            };
            of_kind(EXACT, 2, fields([(1, Value::Binary(value))]))
        }
        MatchKind::Lpm => {
            let (value, prefix_len) = match key {
                KeyMatch::Lpm { value, prefix_len } => (value.clone(), *prefix_len),
                KeyMatch::Exact(value) => (value.clone(), width),
                _ => (zeros(), 0),
            };
            let prefix_len = i32::try_from(prefix_len).unwrap_or(i32::MAX);
            of_kind(LPM, 3, two(value, Value::I32(prefix_len)))
        }
        MatchKind::Ternary | MatchKind::Optional => {
            let (value, mask) = match key {
                KeyMatch::Ternary { value, mask } => (value.clone(), mask.clone()),
                KeyMatch::Exact(value) => (value.clone(), ones()),
                _ => (zeros(), zeros()),
            };
            of_kind(TERNARY, 4, two(value, Value::Binary(mask)))
        }
        MatchKind::Range => {
            let (low, high) = match key {
                KeyMatch::Range { low, high } => (low.clone(), high.clone()),
                KeyMatch::Exact(value) => (value.clone(), value.clone()),
                _ => (zeros(), ones()),
            };
            of_kind(RANGE, 6, two(low, Value::Binary(high)))
        }
    }
}

/// The dataplane's priority for one of bmv2's.
///
/// # Errors
/// `BAD_MATCH_KEY` for a negative one in a table with priorities.
pub fn priority(table: &TableInfo, given: i32) -> Result<i32, Refusal> {
    if !table.needs_priority {
        return Ok(0);
    }
    // The dataplane's are at least 1.
    let inverted = i32::MAX.checked_sub(given).filter(|_| given >= 0);
    inverted.map(|priority| priority.max(1)).ok_or_else(bad)
}

/// bmv2's priority for one of the dataplane's; `first` is the highest of a table whose entries the program declares.
pub fn priority_to_thrift(table: &TableInfo, priority: i32, first: i32) -> i32 {
    match (table.needs_priority, table.const_entries) {
        (false, _) => -1,
        (true, false) => i32::MAX - priority,
        (true, true) => first - priority + 1,
    }
}
