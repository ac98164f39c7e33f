// SPDX-License-Identifier: Apache-2.0
//! Converts the match fields of the control interface to the packed words that lookups compare, and back.

use crate::control::KeyMatch;
use crate::error::ControlError;
use crate::info::{KeyFieldInfo, MatchKind, TableInfo};
use crate::ir::{AnyField, KeyPart, Table};
use crate::packet::phv::low_mask;
use crate::wide::Wide;
use weir_program::value::{parse_value, to_words, value_bytes};

/// An inclusive range on one packed field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeCheck {
    part: u16,
    /// The field's most significant word, and the position of its bits there.
    word: u16,
    shift: u8,
    width: u8,
    low: u64,
    high: u64,
    /// Bounds of the less significant words, downwards; none for a field of at most 64 bits.
    below: Box<[(u64, u64)]>,
}

impl RangeCheck {
    /// `low` and `high` with the least significant word first.
    fn new(number: u16, part: &KeyPart, width: u32, low: &[u64], high: &[u64]) -> Self {
        let top = width.div_ceil(64).saturating_sub(1);
        let word = |words: &[u64], i: u32| words.get(i as usize).copied().unwrap_or(0);
        Self {
            part: number,
            word: part.word + u16::try_from(top).unwrap_or(0),
            shift: part.shift,
            width: u8::try_from(width - top * 64).unwrap_or(64),
            low: word(low, top),
            high: word(high, top),
            below: (0..top)
                .rev()
                .map(|i| (word(low, i), word(high, i)))
                .collect(),
        }
    }

    #[inline]
    pub(super) fn contains(&self, key: &[u64]) -> bool {
        let value = key.get(usize::from(self.word)).copied().unwrap_or(0) >> self.shift;
        let value = value & low_mask(u32::from(self.width));
        if self.below.is_empty() {
            return self.low <= value && value <= self.high;
        }
        let words = key.get(..usize::from(self.word)).unwrap_or_default();
        let below = words.iter().rev().take(self.below.len()).copied();
        in_range(std::iter::once(value).chain(below), self.bounds())
    }

    /// Adds the bits that the range depends on to `bits`, which has a key's number of words.
    pub(super) fn cover(&self, bits: &mut [u64]) {
        let top = usize::from(self.word);
        if let Some(word) = bits.get_mut(top) {
            *word |= low_mask(u32::from(self.width)) << self.shift;
        }
        if let Some(below) = bits.get_mut(top.saturating_sub(self.below.len())..top) {
            below.fill(u64::MAX);
        }
    }

    /// Bounds of each word, downwards.
    fn bounds(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        std::iter::once((self.low, self.high)).chain(self.below.iter().copied())
    }

    /// Both bounds with the least significant word first.
    fn words(&self) -> (Vec<u64>, Vec<u64>) {
        let (mut low, mut high): (Vec<u64>, Vec<u64>) = self.bounds().unzip();
        low.reverse();
        high.reverse();
        (low, high)
    }
}

/// Whether a value lies between two bounds, all with the most significant word first.
pub(crate) fn in_range(
    value: impl Iterator<Item = u64>,
    bounds: impl Iterator<Item = (u64, u64)>,
) -> bool {
    // While the words equal those of a bound, the less significant words decide on that side.
    let (mut at_low, mut at_high) = (true, true);
    for (value, (low, high)) in value.zip(bounds) {
        if (at_low && value < low) || (at_high && value > high) {
            return false;
        }
        at_low &= value == low;
        at_high &= value == high;
    }
    true
}

/// An entry's key. `value` has no bit outside `mask`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackedKey {
    pub value: Box<[u64]>,
    pub mask: Box<[u64]>,
    pub ranges: Box<[RangeCheck]>,
    /// No bit is masked out.
    pub full: bool,
}

/// All ones of `width` bits.
fn ones(width: u32) -> Vec<u64> {
    (0..width.div_ceil(64))
        .map(|i| low_mask((width - i * 64).min(64)))
        .collect()
}

fn prefix_mask(width: u32, length: u32) -> Vec<u64> {
    let mask = Wide::<33>(std::array::from_fn(|_| u64::MAX)).shl(u64::from(width - length));
    to_words(&mask, width)
        .iter()
        .zip(ones(width))
        .map(|(m, o)| m & o)
        .collect()
}

/// Value and mask words of one field, and its range.
pub(crate) struct FieldKey {
    pub value: Vec<u64>,
    pub mask: Vec<u64>,
    /// Least significant word first.
    pub range: Option<(Vec<u64>, Vec<u64>)>,
    prefix_len: u32,
}

/// Checks and reads one match field.
pub(crate) fn field_key(info: &KeyFieldInfo, field: &KeyMatch) -> Result<FieldKey, String> {
    let width = info.width_bits;
    let exact = |bytes: &[u8]| -> Result<FieldKey, String> {
        Ok(FieldKey {
            value: parse_value(bytes, width)?,
            mask: ones(width),
            range: None,
            prefix_len: width,
        })
    };
    let any = || FieldKey {
        value: ones(width).iter().map(|_| 0).collect(),
        mask: ones(width).iter().map(|_| 0).collect(),
        range: None,
        prefix_len: 0,
    };
    match (info.kind, field) {
        (MatchKind::Exact, KeyMatch::Any) => Err("an exact field must be given".into()),
        (_, KeyMatch::Any) => Ok(any()),
        (
            MatchKind::Exact | MatchKind::Optional | MatchKind::Ternary | MatchKind::Lpm,
            KeyMatch::Exact(value),
        ) => exact(value),
        (MatchKind::Range, KeyMatch::Exact(value)) => {
            let value = parse_value(value, width)?;
            Ok(FieldKey {
                range: Some((value.clone(), value)),
                ..any()
            })
        }
        (MatchKind::Lpm, KeyMatch::Lpm { value, prefix_len }) => {
            if *prefix_len > width {
                return Err(format!(
                    "prefix length {prefix_len}, the field has {width} bits"
                ));
            }
            let (value, mask) = (parse_value(value, width)?, prefix_mask(width, *prefix_len));
            if value.iter().zip(&mask).any(|(v, m)| v & !m != 0) {
                return Err(format!(
                    "the value has bits beyond its prefix of {prefix_len}; they must be 0"
                ));
            }
            Ok(FieldKey {
                value,
                mask,
                range: None,
                prefix_len: *prefix_len,
            })
        }
        (MatchKind::Ternary | MatchKind::Lpm, KeyMatch::Ternary { value, mask })
            if info.kind == MatchKind::Ternary =>
        {
            let (value, mask) = (parse_value(value, width)?, parse_value(mask, width)?);
            if value.iter().zip(&mask).any(|(v, m)| v & !m != 0) {
                return Err("the value has bits outside its mask; they must be 0".into());
            }
            Ok(FieldKey {
                value,
                mask,
                range: None,
                prefix_len: 0,
            })
        }
        (MatchKind::Range, KeyMatch::Range { low, high }) => {
            let (low, high) = (parse_value(low, width)?, parse_value(high, width)?);
            if low.iter().rev().gt(high.iter().rev()) {
                let text = |words: &[u64]| -> String {
                    let bytes = value_bytes(words, width);
                    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
                };
                return Err(format!(
                    "the range is empty: 0x{} is above 0x{}",
                    text(&low),
                    text(&high)
                ));
            }
            let full = low.iter().all(|word| *word == 0) && high == ones(width);
            Ok(FieldKey {
                range: (!full).then_some((low, high)),
                ..any()
            })
        }
        (kind, given) => Err(format!(
            "a match of the wrong kind: {given:?}; the field is {kind:?}"
        )),
    }
}

/// ORs the words of a field into a packed key.
fn pack(part: &KeyPart, words: &[u64], out: &mut [u64]) {
    for (i, word) in words.iter().enumerate() {
        if let Some(to) = out.get_mut(usize::from(part.word) + i) {
            *to |= word << part.shift;
        }
    }
}

/// Checks and packs an entry's key. Also returns the rank: the priority, or the prefix length of an LPM key.
pub(crate) fn encode(
    info: &TableInfo,
    spec: &Table,
    key: &[KeyMatch],
    priority: i32,
) -> Result<(PackedKey, i32), ControlError> {
    let invalid = |reason: String| ControlError::InvalidKey {
        table: info.name.clone(),
        reason,
    };
    if key.len() != info.key.len() {
        return Err(invalid(format!(
            "{} match fields given, the key has {}",
            key.len(),
            info.key.len()
        )));
    }
    if info.key.is_empty() {
        return Err(invalid(
            "it has no key, so it takes no entries, only a default".into(),
        ));
    }
    if info.needs_priority && priority < 1 {
        return Err(invalid(format!(
            "priority {priority}; this table needs a priority of at least 1"
        )));
    }
    if !info.needs_priority && priority != 0 {
        return Err(invalid(format!(
            "priority {priority}; this table takes no priority, give 0"
        )));
    }
    let mut value = vec![0; usize::from(spec.key_words)];
    let mut mask = value.clone();
    let mut ranges = Vec::new();
    let mut full = true;
    let mut rank = priority;
    for (i, ((field, given), part)) in (0_u16..).zip(info.key.iter().zip(key).zip(&spec.key)) {
        let packed = field_key(field, given)
            .map_err(|e| invalid(format!("match field {}: {e}", field.name)))?;
        full &= packed.mask == ones(field.width_bits);
        pack(part, &packed.value, &mut value);
        pack(part, &packed.mask, &mut mask);
        if field.kind == MatchKind::Lpm && !info.needs_priority {
            rank = i32::try_from(packed.prefix_len).unwrap_or(i32::MAX);
        }
        if let Some((low, high)) = packed.range {
            ranges.push(RangeCheck::new(i, part, field.width_bits, &low, &high));
        }
    }
    let key = PackedKey {
        value: value.into(),
        mask: mask.into(),
        ranges: ranges.into(),
        full,
    };
    Ok((key, rank))
}

fn pick(part: &KeyPart, words: &[u64]) -> Vec<u64> {
    match part.field {
        AnyField::Narrow(field) => {
            let word = words.get(usize::from(part.word)).copied().unwrap_or(0);
            vec![(word >> part.shift) & low_mask(u32::from(field.width))]
        }
        AnyField::Wide(field) => (0..(field.width as usize).div_ceil(64))
            .map(|i| words.get(usize::from(part.word) + i).copied().unwrap_or(0))
            .collect(),
    }
}

/// The match fields of a packed key.
pub(crate) fn decode(info: &TableInfo, spec: &Table, key: &PackedKey) -> Vec<KeyMatch> {
    let fields = (0_u16..).zip(info.key.iter().zip(&spec.key));
    fields
        .map(|(i, (field, part))| {
            let width = field.width_bits;
            let (value, mask) = (pick(part, &key.value), pick(part, &key.mask));
            let bytes = |words: &[u64]| value_bytes(words, width);
            match field.kind {
                MatchKind::Exact => KeyMatch::Exact(bytes(&value)),
                MatchKind::Range => {
                    key.ranges
                        .iter()
                        .find(|r| r.part == i)
                        .map_or(KeyMatch::Any, |r| {
                            let (low, high) = r.words();
                            KeyMatch::Range {
                                low: bytes(&low),
                                high: bytes(&high),
                            }
                        })
                }
                _ if mask.iter().all(|m| *m == 0) => KeyMatch::Any,
                MatchKind::Lpm => KeyMatch::Lpm {
                    value: bytes(&value),
                    prefix_len: mask.iter().map(|m| m.count_ones()).sum(),
                },
                MatchKind::Ternary => KeyMatch::Ternary {
                    value: bytes(&value),
                    mask: bytes(&mask),
                },
                MatchKind::Optional => KeyMatch::Exact(bytes(&value)),
            }
        })
        .collect()
}
