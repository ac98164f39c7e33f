// SPDX-License-Identifier: Apache-2.0
//! Asks the processor for memory that will be needed soon.

use super::phv::get;
use crate::ir::{ArrayRef, Prefetch};
use crate::state::Externs;

/// What the processor brings at once.
pub(crate) const LINE_BYTES: usize = 64;

/// Brings the line of an address into the cache, without waiting for it. Any address will do.
#[inline(always)]
pub(crate) fn bring_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads and changes nothing that a program can see, whatever the address, and needs no more than
    // SSE, which every x86-64 processor has.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Brings what a reference leads to.
#[inline(always)]
fn bring<T>(place: &T) {
    let first = std::ptr::from_ref(place).cast::<u8>();
    for at in (0..size_of::<T>().max(1)).step_by(LINE_BYTES) {
        bring_line(first.wrapping_add(at));
    }
}

/// Brings the cells that an index leads to; an index beyond an array is for the step that uses it to count.
#[inline(always)]
pub(super) fn run(externs: &Externs, phv: &[u8], prefetch: &Prefetch) {
    let value = get(phv, prefetch.index);
    for (array, by) in &prefetch.arrays {
        let index = value << (by & 63);
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match array {
            ArrayRef::Counter(counter) => {
                let array = externs.counters.get(usize::from(*counter));
                if let Some(cell) = array.and_then(|array| array.get(at)) {
                    bring(cell);
                }
            }
            ArrayRef::Meter(meter) => {
                let array = externs.meters.get(usize::from(*meter));
                if let Some(cell) = array.and_then(|array| array.cells.get(at)) {
                    bring(cell);
                }
            }
            ArrayRef::Register(register) => {
                let array = externs.registers.get(usize::from(*register));
                if let Some([word, ..]) = array.and_then(|array| array.cell(index)) {
                    bring(word);
                }
            }
        }
    }
}
