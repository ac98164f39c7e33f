// SPDX-License-Identifier: Apache-2.0
//! Parser value sets: members that the control plane sets while the program runs.

use crate::control::KeyMatch;
use crate::info::{KeyFieldInfo, MatchKind};
use crate::ir::SELECT_WORDS;
use crate::packet::phv::low_mask;
use crate::tables::key::{field_key, in_range};
use crate::wide::Wide;

/// An inclusive range on one field of a transition key.
#[derive(Debug, Clone)]
struct FieldRange {
    bit: u32,
    width: u32,
    /// Low and high of each word of the field, least significant first.
    bounds: Vec<(u64, u64)>,
}

impl FieldRange {
    fn contains(&self, key: &Wide<SELECT_WORDS>) -> bool {
        let words = (0..self.width.div_ceil(64)).rev().map(|i| {
            let bits = (self.width - i * 64).min(64);
            key.word_at(self.bit + i * 64) & low_mask(bits)
        });
        in_range(words, self.bounds.iter().rev().copied())
    }
}

/// A member in the form of a transition key: fields padded to whole bytes.
#[derive(Debug, Clone)]
struct Packed {
    value: [u64; SELECT_WORDS],
    mask: [u64; SELECT_WORDS],
    ranges: Vec<FieldRange>,
}

/// The members of one set.
#[derive(Debug, Default)]
pub(crate) struct ValueSet {
    members: Vec<Vec<KeyMatch>>,
    packed: Vec<Packed>,
}

impl ValueSet {
    /// The members as the control plane wrote them.
    pub(crate) fn members(&self) -> &[Vec<KeyMatch>] {
        &self.members
    }

    /// Replaces all members; on an error, which names the member, none.
    pub(crate) fn replace(
        &mut self,
        widths: &[u32],
        members: &[Vec<KeyMatch>],
    ) -> Result<(), String> {
        let packed: Result<Vec<Packed>, String> = members
            .iter()
            .enumerate()
            .map(|(number, member)| {
                pack(widths, member).map_err(|e| format!("member {number}: {e}"))
            })
            .collect();
        self.packed = packed?;
        self.members = members.to_vec();
        Ok(())
    }

    /// Whether a transition key is a member.
    pub(crate) fn contains(&self, key: &Wide<SELECT_WORDS>) -> bool {
        self.packed.iter().any(|member| {
            masked_equal(key, &member.value, &member.mask)
                && member.ranges.iter().all(|range| range.contains(key))
        })
    }
}

/// Whether key and value agree where the mask has ones.
pub(crate) fn masked_equal(
    key: &Wide<SELECT_WORDS>,
    value: &[u64; SELECT_WORDS],
    mask: &[u64; SELECT_WORDS],
) -> bool {
    let words = key.0.iter().zip(value).zip(mask);
    words.fold(0, |differ, ((k, v), m)| differ | ((k ^ v) & m)) == 0
}

fn pack(widths: &[u32], member: &[KeyMatch]) -> Result<Packed, String> {
    if member.len() != widths.len() {
        return Err(format!(
            "{} match fields given, the set has {}",
            member.len(),
            widths.len()
        ));
    }
    let (mut value, mut mask) = (Wide::<SELECT_WORDS>::ZERO, Wide::<SELECT_WORDS>::ZERO);
    let mut ranges = Vec::new();
    let mut bit = 0;
    for (number, (field, width)) in member.iter().zip(widths).enumerate().rev() {
        let info = KeyFieldInfo {
            name: String::new(),
            kind: match field {
                KeyMatch::Exact(_) => MatchKind::Exact,
                KeyMatch::Lpm { .. } => MatchKind::Lpm,
                KeyMatch::Any | KeyMatch::Ternary { .. } => MatchKind::Ternary,
                KeyMatch::Range { .. } => MatchKind::Range,
            },
            width_bits: *width,
        };
        let key = field_key(&info, field).map_err(|e| format!("match field {number}: {e}"))?;
        for ((i, v), m) in (0_u32..).zip(&key.value).zip(&key.mask) {
            value.or_shifted(*v, bit + i * 64);
            mask.or_shifted(*m, bit + i * 64);
        }
        if let Some((low, high)) = key.range {
            ranges.push(FieldRange {
                bit,
                width: *width,
                bounds: low.into_iter().zip(high).collect(),
            });
        }
        bit += width.div_ceil(8) * 8;
    }
    Ok(Packed {
        value: value.0,
        mask: mask.0,
        ranges,
    })
}
