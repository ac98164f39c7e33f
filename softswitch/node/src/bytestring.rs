// SPDX-License-Identifier: Apache-2.0
//! P4Runtime's byte strings (specification section "Bytestrings"): unsigned, big endian. Sent in shortest form; received
//! in any length, as long as the value fits.

#[cfg(test)]
mod tests;

use tonic::Code;

use super::failure::Failure;

/// The shortest string of the same value; at least one byte.
#[inline]
pub fn canonical(value: &[u8]) -> Vec<u8> {
    let zeros = value.iter().take_while(|byte| **byte == 0).count();
    if zeros == value.len() {
        vec![0]
    } else {
        value[zeros..].to_vec()
    }
}

/// The value with exactly `ceil(width_bits / 8)` bytes. It must have passed [`check`] for that width.
pub fn padded(value: &[u8], width_bits: u32) -> Vec<u8> {
    let bytes = width_bits.div_ceil(8) as usize;
    let value = &value[value.len().saturating_sub(bytes)..];
    let mut result = vec![0; bytes - value.len()];
    result.extend_from_slice(value);
    result
}

/// All bits of a field set.
pub fn all_ones(width_bits: u32) -> Vec<u8> {
    prefix_mask(width_bits, width_bits)
}

/// The first `prefix_bits` bits of a field set.
pub fn prefix_mask(width_bits: u32, prefix_bits: u32) -> Vec<u8> {
    let bytes = width_bits.div_ceil(8);
    let unused = bytes * 8 - width_bits;
    let mut mask = vec![0_u8; bytes as usize];
    for bit in unused..unused + prefix_bits.min(width_bits) {
        mask[(bit / 8) as usize] |= 0x80 >> (bit % 8);
    }
    mask
}

/// Bits that the value needs; 0 for the value 0.
fn needed_bits(value: &[u8]) -> usize {
    value.iter().position(|byte| *byte != 0).map_or(0, |first| {
        (value.len() - first) * 8 - value[first].leading_zeros() as usize
    })
}

/// Checks that a value is not empty and fits. `place` names its owner for the message.
///
/// # Errors
/// `OUT_OF_RANGE` for an empty string and for a value that is too large.
pub fn check(value: &[u8], width_bits: u32, place: impl Fn() -> String) -> Result<(), Failure> {
    if value.is_empty() {
        let message = format!(
            "{}: the value is empty; the shortest valid one is the byte 00",
            place()
        );
        return Err(Failure::new(Code::OutOfRange, message));
    }
    let bits = needed_bits(value);
    if bits > width_bits as usize {
        let message = format!(
            "{}: 0x{} needs {bits} bits, it has {width_bits}",
            place(),
            hex(value)
        );
        return Err(Failure::new(Code::OutOfRange, message));
    }
    Ok(())
}

/// A number of at most 32 bits.
///
/// # Errors
/// As [`check`].
pub fn to_u32(value: &[u8], place: impl Fn() -> String) -> Result<u32, Failure> {
    check(value, 32, place)?;
    Ok(number(value))
}

/// The number of a byte string that has passed [`check`] for at most 32 bits.
pub fn number(value: &[u8]) -> u32 {
    value
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The shortest string of a number.
pub fn from_u32(value: u32) -> Vec<u8> {
    canonical(&value.to_be_bytes())
}

fn hex(value: &[u8]) -> String {
    const SHOWN: usize = 20;
    let digits: String = value
        .iter()
        .take(SHOWN)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if value.len() > SHOWN {
        format!("{digits}… ({} bytes)", value.len())
    } else {
        digits
    }
}
