// SPDX-License-Identifier: Apache-2.0
//! Values as big-endian byte strings, as words, and as wide integers.

use crate::wide::Wide;

/// A big-endian byte string as words, if it fits `width` bits.
///
/// # Errors
/// The reason why it is no such value.
#[inline]
pub fn parse_value(bytes: &[u8], width: u32) -> Result<Vec<u64>, String> {
    if bytes.is_empty() {
        return Err("an empty byte string; a value has at least one byte".into());
    }
    let significant = bytes
        .iter()
        .position(|b| *b != 0)
        .map_or(&[][..], |at| &bytes[at..]);
    let bits = significant.first().map_or(0, |b| {
        (significant.len() as u64) * 8 - u64::from(b.leading_zeros())
    });
    if bits > u64::from(width) {
        return Err(format!(
            "the value needs {bits} bits, the field has {width}"
        ));
    }
    let mut value = Wide::<33>::ZERO;
    for (i, byte) in (0_u32..).zip(significant.iter().rev()) {
        value.or_shifted(u64::from(*byte), i * 8);
    }
    Ok(to_words(&value, width))
}

/// Words as `ceil(width / 8)` bytes, big-endian.
#[inline]
pub fn value_bytes(words: &[u64], width: u32) -> Vec<u8> {
    let bytes = (width as usize).div_ceil(8);
    (0..bytes)
        .rev()
        .map(|i| words.get(i / 8).copied().unwrap_or(0).to_le_bytes()[i % 8])
        .collect()
}

/// Words of a value of `width` bits, least significant first.
#[inline]
pub fn to_words(value: &Wide<33>, width: u32) -> Vec<u64> {
    value
        .0
        .iter()
        .copied()
        .take((width as usize).div_ceil(64).max(1))
        .collect()
}
