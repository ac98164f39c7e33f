// SPDX-License-Identifier: Apache-2.0
//! Access to the fields of the PHV.
//!
//! Offsets come from the loader, which sized the region. A wrong one reads zero and writes nothing instead of a panic.

use super::Phv;
use crate::ir::{AnyField, Field, Ir, Slot, WideField};
use crate::wide::Wide;
pub(crate) use weir_program::phv::{low_mask, put};

#[inline]
fn window(phv: &[u8], offset: u32) -> u64 {
    let at = offset as usize;
    match phv.get(at..at + 8) {
        Some(bytes) => {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_be_bytes(word)
        }
        None => 0,
    }
}

/// The value, in debug builds, of bytes that must be written before they are read.
#[cfg(debug_assertions)]
pub(crate) const POISON: u8 = 0xa5;

/// Resets the fields for the parser.
pub(crate) fn reset(ir: &Ir, phv: &mut Phv) {
    if phv.len() != ir.phv_bytes {
        *phv = Phv::new(ir.phv_bytes);
    }
    #[cfg(debug_assertions)]
    phv.fill(POISON);
    for (start, bytes) in &ir.cleared {
        let start = *start as usize;
        if let Some(region) = phv.get_mut(start..start + *bytes as usize) {
            region.fill(0);
        }
    }
    for at in &ir.valid_at_start {
        set_byte(phv, *at, 1);
    }
}

/// All ones in the width of a field. The loader ensures 1 to 64, so that no packet pays for a clamp.
#[inline]
fn field_mask(field: Field) -> u64 {
    u64::MAX >> (64_u8.wrapping_sub(field.width) & 63)
}

/// Extends the sign of a `width`-bit value to 64 bits.
#[inline]
pub(crate) fn sign_extend(value: u64, width: u32) -> u64 {
    let unused = 64 - width.clamp(1, 64);
    ((value << unused).cast_signed() >> unused).cast_unsigned()
}

/// The field's bits, without sign extension.
#[inline]
pub(crate) fn load_bits(phv: &[u8], field: Field) -> u64 {
    (window(phv, field.offset) >> (field.shift & 63)) & field_mask(field)
}

/// The slot's value.
#[inline(always)]
pub(crate) fn get(phv: &[u8], slot: Slot) -> u64 {
    (window(phv, slot.offset) >> (slot.shift & 63)) & slot.mask
}

/// Writes bits to a window; mask and bits are in memory order.
#[inline(always)]
pub(crate) fn put_const(phv: &mut [u8], offset: u32, keep: u64, bits: u64) {
    let at = offset as usize;
    if let Some(window) = phv.get_mut(at..at + 8) {
        let mut old = [0; 8];
        old.copy_from_slice(window);
        let new = u64::from_ne_bytes(old) & keep | bits;
        window.copy_from_slice(&new.to_ne_bytes());
    }
}

/// The field's value modulo 2^64: a signed field is sign-extended.
#[inline]
pub(crate) fn load(phv: &[u8], field: Field) -> u64 {
    let value = load_bits(phv, field);
    if field.signed {
        sign_extend(value, u32::from(field.width))
    } else {
        value
    }
}

/// Writes the low bits of `value`.
#[inline]
pub(crate) fn store(phv: &mut [u8], field: Field, value: u64) {
    let at = field.offset as usize;
    let shift = field.shift & 63;
    let mask = field_mask(field) << shift;
    if let Some(bytes) = phv.get_mut(at..at + 8) {
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        let old = u64::from_be_bytes(word);
        let new = (old & !mask) | ((value << shift) & mask);
        bytes.copy_from_slice(&new.to_be_bytes());
    }
}

#[inline(always)]
pub(crate) fn store_opt(phv: &mut [u8], slot: Option<Slot>, value: u64) {
    if let Some(slot) = slot {
        put(phv, slot, value);
    }
}

#[inline(always)]
pub(crate) fn load_opt(phv: &[u8], slot: Option<Slot>) -> u64 {
    slot.map_or(0, |slot| get(phv, slot))
}

/// The narrow field that covers `width` bits (at most 56) at a bit position.
fn piece(bit: u32, width: u32) -> Field {
    let within = bit % 8;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "width is at most 56 and within at most 7"
    )]
    Field {
        offset: bit / 8,
        shift: (64 - within - width) as u8,
        width: width as u8,
        signed: false,
    }
}

/// Reads bits `[bit, bit + width)` of a byte region as an unsigned number.
pub(crate) fn load_wide_at<const N: usize>(bytes: &[u8], bit: u32, width: u32) -> Wide<N> {
    let mut out = Wide::ZERO;
    let mut done = 0;
    while done < width {
        let take = (width - done).min(56);
        let part = load_bits(bytes, piece(bit + width - done - take, take));
        out.or_shifted(part, done);
        done += take;
    }
    out
}

pub(crate) fn load_wide<const N: usize>(phv: &[u8], field: WideField) -> Wide<N> {
    let value = load_wide_at(phv, field.bit_offset, field.width);
    if field.signed {
        value.two_comp_mod(field.width)
    } else {
        value
    }
}

pub(crate) fn store_wide<const N: usize>(phv: &mut [u8], field: WideField, value: &Wide<N>) {
    let mut done = 0;
    while done < field.width {
        let take = (field.width - done).min(56);
        let bit = field.bit_offset + field.width - done - take;
        store(phv, piece(bit, take), value.word_at(done));
        done += take;
    }
}

/// Copies a field to one of equal width, without arithmetic.
pub(crate) fn copy_bits(phv: &mut [u8], from: WideField, to: WideField) {
    let width = from.width.min(to.width);
    if from.bit_offset.is_multiple_of(8)
        && to.bit_offset.is_multiple_of(8)
        && width.is_multiple_of(8)
    {
        let (start, end) = (
            (from.bit_offset / 8) as usize,
            ((from.bit_offset + width) / 8) as usize,
        );
        let to = (to.bit_offset / 8) as usize;
        if end <= phv.len() && to + (end - start) <= phv.len() {
            phv.copy_within(start..end, to);
        }
        return;
    }
    let mut done = 0;
    while done < width {
        let take = (width - done).min(56);
        let value = load_bits(phv, piece(from.bit_offset + from.width - done - take, take));
        store(
            phv,
            piece(to.bit_offset + to.width - done - take, take),
            value,
        );
        done += take;
    }
}

/// Copies a field between two PHVs of the same program.
pub(crate) fn copy_between(from: &[u8], to: &mut [u8], field: AnyField) {
    match field {
        AnyField::Narrow(f) => store(to, f, load_bits(from, f)),
        AnyField::Wide(f) => {
            let mut done = 0;
            while done < f.width {
                let take = (f.width - done).min(56);
                let part = piece(f.bit_offset + done, take);
                store(to, part, load_bits(from, part));
                done += take;
            }
        }
    }
}

/// Appends the field's bits as `ceil(width / 8)` bytes, right-aligned.
pub(crate) fn append_bytes(phv: &[u8], field: AnyField, out: &mut Vec<u8>) {
    match field {
        AnyField::Narrow(f) => {
            let bytes = usize::from(f.width).div_ceil(8);
            out.extend_from_slice(&load_bits(phv, f).to_be_bytes()[8 - bytes..]);
        }
        AnyField::Wide(f) => {
            let mut width = f.width;
            let mut bit = f.bit_offset;
            while width > 0 {
                let take = if width.is_multiple_of(8) {
                    8
                } else {
                    width % 8
                };
                #[expect(clippy::cast_possible_truncation, reason = "at most 8 bits were read")]
                out.push(load_bits(phv, piece(bit, take)) as u8);
                bit += take;
                width -= take;
            }
        }
    }
}

/// A 4-byte big-endian number in the PHV.
pub(crate) fn load_u32(phv: &[u8], at: u32) -> u32 {
    u32::try_from(window(phv, at) >> 32).unwrap_or(0)
}

pub(crate) fn store_u32(phv: &mut [u8], at: u32, value: u32) {
    let at = at as usize;
    if let Some(bytes) = phv.get_mut(at..at + 4) {
        bytes.copy_from_slice(&value.to_be_bytes());
    }
}

#[inline]
pub(crate) fn byte(phv: &[u8], at: u32) -> u8 {
    phv.get(at as usize).copied().unwrap_or(0)
}

#[inline]
pub(crate) fn set_byte(phv: &mut [u8], at: u32, value: u8) {
    if let Some(byte) = phv.get_mut(at as usize) {
        *byte = value;
    }
}
