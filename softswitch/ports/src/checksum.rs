// SPDX-License-Identifier: Apache-2.0
//! Completes a transport checksum that a host left to its network card (checksum offload).
//!
//! A veth delivers frames whose TCP or UDP checksum field holds only the pseudo header's sum. On a wire the checksum is
//! complete, so it must be complete in every frame that this switch forwards.

#[cfg(test)]
mod tests;

/// Completes the checksum field at `start + offset`, which covers the frame from `start` to its end
/// (virtio 1.2, section 5.1.6.2: `csum_start`, `csum_offset`). Returns false and leaves the
/// frame unchanged when the field does not lie inside it.
pub fn complete(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let field = match start.checked_add(offset) {
        Some(field) if field.checked_add(2).is_some_and(|end| end <= frame.len()) => field,
        _ => return false,
    };
    // The sum includes the field itself, which holds the pseudo header's sum.
    let sum = !ones_complement_sum(&frame[start..]);
    // RFC 768: a computed UDP checksum of zero is sent as all ones; for TCP both are equal.
    let sum = if sum == 0 { 0xFFFF } else { sum };
    frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// RFC 1071. Eight bytes at a time in the machine's byte order, which section 2 (B) of it allows.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<8>();
    let halves = words.iter().map(|word| {
        let word = u64::from_ne_bytes(*word);
        (word >> 32) + (word & 0xFFFF_FFFF)
    });
    // 2^31 words would be needed to overflow; a frame has some thousands.
    let mut sum: u64 = halves.sum();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = u64::from_ne_bytes(last);
    sum += (last >> 32) + (last & 0xFFFF_FFFF);
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    // Folded to 16 bits by the loop.
    u16::from_be(sum as u16)
}
