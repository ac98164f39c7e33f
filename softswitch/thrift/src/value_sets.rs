// SPDX-License-Identifier: Apache-2.0
//! Calls on parser value sets. A value is the bits of all fields of a member, one after the other, in whole bytes.

use weir_dataplane::{KeyMatch, ValueSetId};

use crate::args::{Args, byte_strings};
use crate::dispatch::Answer;
use crate::refusal::{INVALID_NAME, Refusal};
use crate::state::Context;

/// Code `ERROR` of `InvalidParseVSetOperation`.
const ERROR: Refusal = Refusal::Declared(2);

fn bit(bytes: &[u8], at: u32) -> bool {
    let byte = bytes.get((at / 8) as usize).copied().unwrap_or(0);
    byte & (0x80 >> (at % 8)) != 0
}

fn bytes_of(bits: &[bool]) -> Vec<u8> {
    let padding = bits.len().next_multiple_of(8) - bits.len();
    let padded: Vec<bool> = std::iter::repeat_n(false, padding)
        .chain(bits.iter().copied())
        .collect();
    let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
    padded.chunks(8).map(byte).collect()
}

/// The fields in a value.
fn split(value: &[u8], widths_bits: &[u32]) -> Result<Vec<KeyMatch>, Refusal> {
    let width: u32 = widths_bits.iter().sum();
    let given = u32::try_from(value.len())
        .unwrap_or(u32::MAX)
        .saturating_mul(8);
    if given != width.next_multiple_of(8) {
        return Err(ERROR);
    }
    let mut at = given - width;
    let field = |width: &u32| {
        let bits: Vec<bool> = (at..at + width).map(|at| bit(value, at)).collect();
        at += width;
        KeyMatch::Exact(bytes_of(&bits))
    };
    Ok(widths_bits.iter().map(field).collect())
}

/// The value with these fields; None for a member of P4Runtime that matches in another way than exactly.
fn join(fields: &[KeyMatch], widths_bits: &[u32]) -> Option<Vec<u8>> {
    let mut bits = Vec::new();
    for (field, width) in fields.iter().zip(widths_bits) {
        let KeyMatch::Exact(value) = field else {
            return None;
        };
        let given = u32::try_from(value.len()).ok()? * 8;
        let skipped = given.checked_sub(*width)?;
        bits.extend((skipped..given).map(|at| bit(value, at)));
    }
    Some(bytes_of(&bits))
}

struct Found {
    id: ValueSetId,
    widths_bits: Vec<u32>,
    members: Vec<Vec<KeyMatch>>,
}

fn find(context: &Context<'_>, args: Args<'_>) -> Result<Found, Refusal> {
    let switch = context.switch(INVALID_NAME)?;
    let id = switch.info().value_set(args.text(2)?).ok_or(INVALID_NAME)?;
    let info = switch.info().value_sets.get(id.index());
    Ok(Found {
        id,
        widths_bits: info.ok_or(INVALID_NAME)?.widths_bits.clone(),
        members: switch.value_set(id).map_err(|_| ERROR)?.to_vec(),
    })
}

fn put(context: &mut Context<'_>, set: &Found) -> Answer {
    let put = context
        .switch_mut(INVALID_NAME)?
        .set_value_set(set.id, &set.members);
    put.map_err(|_| ERROR)?;
    Ok(None)
}

pub(crate) fn add(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let mut set = find(context, args)?;
    let member = split(args.bytes(3)?, &set.widths_bits)?;
    if set.members.contains(&member) {
        return Ok(None);
    }
    set.members.push(member);
    put(context, &set)
}

pub(crate) fn remove(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let mut set = find(context, args)?;
    let member = split(args.bytes(3)?, &set.widths_bits)?;
    set.members.retain(|existing| *existing != member);
    put(context, &set)
}

pub(crate) fn get(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let set = find(context, args)?;
    let values = set
        .members
        .iter()
        .filter_map(|member| join(member, &set.widths_bits));
    Ok(Some(byte_strings(values.collect())))
}

pub(crate) fn clear(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let mut set = find(context, args)?;
    set.members.clear();
    put(context, &set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_bits_of_its_fields_in_order() {
        // 4 bits 0xa and 16 bits 0x0800 are 20 bits: 0x0a0800 with 4 bits before them.
        let fields = vec![
            KeyMatch::Exact(vec![0x0a]),
            KeyMatch::Exact(vec![0x08, 0x00]),
        ];
        assert_eq!(split(&[0x0a, 0x08, 0x00], &[4, 16]), Ok(fields.clone()));
        assert_eq!(join(&fields, &[4, 16]), Some(vec![0x0a, 0x08, 0x00]));
        assert_eq!(split(&[0x08, 0x00], &[4, 16]), Err(ERROR));
    }
}
