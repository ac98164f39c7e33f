// SPDX-License-Identifier: Apache-2.0
//! The access to the PHV that the loader and the packet path share.

use crate::ir::Slot;

/// All ones in the low `width` bits, `width` from 1 to 64.
#[inline]
pub fn low_mask(width: u32) -> u64 {
    u64::MAX >> (64 - width.clamp(1, 64))
}

/// Writes the low bits of `value`.
#[inline(always)]
pub fn put(phv: &mut [u8], slot: Slot, value: u64) {
    let at = slot.offset as usize;
    let Some(window) = phv.get_mut(at..at + 8) else {
        return;
    };
    let mut bits = value & slot.mask;
    if slot.own_bytes != 8 {
        let mut old = [0; 8];
        old.copy_from_slice(window);
        let shift = slot.shift & 63;
        bits = u64::from_be_bytes(old) & !(slot.written() << shift) | bits << shift;
    }
    window.copy_from_slice(&bits.to_be_bytes());
}
