// SPDX-License-Identifier: Apache-2.0
//! The fast form of a parser state: it extracts whole headers and selects on unsigned fields.

use super::{Expr, Field, Header, ParseState, ParserOp, SelectCase, Slot};
use crate::phv::low_mask;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastExtract {
    pub offset: u32,
    pub bytes: u32,
    pub valid: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastState {
    pub extracts: Vec<FastExtract>,
    /// Field and width in bits; less than 64 bits together.
    pub key: Vec<(Slot, u8)>,
    /// Value, mask, next state. Cases that no key matches are left out.
    pub cases: Vec<(u64, u64, Option<u16>)>,
}

impl FastState {
    /// None if the state does more.
    pub fn new(state: &ParseState, headers: &[Header], metadata_bytes: usize) -> Option<Self> {
        if !state.set_cases.is_empty() || state.lookahead_bits > 0 || state.key_bits >= 64 {
            return None;
        }
        let extract = |op: &ParserOp| match op {
            ParserOp::Extract(header) => {
                let info = headers.get(usize::from(*header))?;
                (info.varbit.is_none() && info.union.is_none()).then_some(FastExtract {
                    offset: info.offset,
                    bytes: info.fixed_bytes,
                    valid: info.valid,
                })
            }
            _ => None,
        };
        let mut fields: Vec<Field> = Vec::new();
        for part in &state.key {
            let field = match part.value {
                Expr::Field(field) if u32::from(field.width) == part.width => field,
                _ => return None,
            };
            match fields.last_mut() {
                Some(last) if last.join(field, metadata_bytes).is_some() => {
                    *last = last.join(field, metadata_bytes)?;
                }
                _ => fields.push(field),
            }
        }
        let slot = |field: &Field| Some((Slot::new(*field, metadata_bytes)?, field.width));
        let widths: Vec<u32> = state.key.iter().map(|part| part.width).collect();
        let case = |case: &SelectCase| {
            let (value, mask) = (case.value[0] & case.mask[0], case.mask[0]);
            let (packed, used) = (|key| packed(key, &widths), used(&widths));
            (value & !used == 0).then(|| (packed(value), packed(mask), case.next))
        };
        Some(Self {
            extracts: state.ops.iter().map(extract).collect::<Option<_>>()?,
            key: fields.iter().map(slot).collect::<Option<_>>()?,
            cases: state.cases.iter().filter_map(case).collect(),
        })
    }
}

/// Bits of each part of a key from its last bit on, where each part is padded to whole bytes; the last part first.
fn parts(widths: &[u32]) -> impl Iterator<Item = (u32, u64)> + '_ {
    let mut at = 0;
    widths.iter().rev().map(move |width| {
        let part = (at, low_mask(*width));
        at += width.div_ceil(8) * 8;
        part
    })
}

/// The bits of a padded key that are not padding.
fn used(widths: &[u32]) -> u64 {
    parts(widths).fold(0, |used, (at, mask)| used | mask << at)
}

/// A padded key without its padding.
fn packed(key: u64, widths: &[u32]) -> u64 {
    let mut to = 0;
    parts(widths).fold(0, |packed, (at, mask)| {
        let part = (key >> at & mask) << to;
        to += mask.count_ones();
        packed | part
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{SELECT_WORDS, SelectPart};

    fn field(offset: u32, shift: u8, width: u8) -> Field {
        Field {
            offset,
            shift,
            width,
            signed: false,
        }
    }

    fn case(value: u64, mask: u64, next: u16) -> SelectCase {
        let words = |word| {
            let mut words = [0; SELECT_WORDS];
            words[0] = word;
            words
        };
        SelectCase {
            value: words(value),
            mask: words(mask),
            next: Some(next),
        }
    }

    #[test]
    fn neighbours_of_a_header_become_one_part_of_the_key() {
        // Version and length of an IPv4 header, its protocol, and a metadata field.
        let key = [
            field(20, 60, 4),
            field(20, 56, 4),
            field(29, 56, 8),
            field(2, 52, 12),
        ];
        let part = |field: &Field| SelectPart {
            value: Expr::Field(*field),
            width: u32::from(field.width),
        };
        let state = ParseState {
            key: key.iter().map(part).collect(),
            key_bits: 40,
            cases: vec![
                case(0x0405_110a_bc00 >> 8, 0x0f0f_ff0f_ff00 >> 8, 1),
                case(0x0405_0600_0000 >> 8, 0xffff_ff00_0000 >> 8, 2),
                // Bits of the padding, which are 0 in a key.
                case(0x1405_0600_0000 >> 8, 0xffff_ff00_0000 >> 8, 3),
                case(1 << 40, u64::MAX, 4),
            ],
            ..ParseState::default()
        };
        let fast = FastState::new(&state, &[], 8).expect("a fast form");
        let slots = [field(20, 56, 8), field(29, 56, 8), field(2, 52, 12)];
        let slot = |field: &Field| (Slot::new(*field, 8).expect("unsigned"), field.width);
        assert_eq!(fast.key, slots.iter().map(slot).collect::<Vec<_>>());
        let cases = [
            (0x0451_1abc, 0x0fff_ffff, Some(1)),
            (0x0450_6000, 0x0fff_f000, Some(2)),
        ];
        assert_eq!(fast.cases, cases);
    }
}
