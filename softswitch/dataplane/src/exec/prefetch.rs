// SPDX-License-Identifier: Apache-2.0
//! Prefetches the cells of arrays that later steps use.

use crate::ir::{ArrayRef, Prefetch};
use crate::memory::{CACHE_LINE_BYTES, prefetch_line};
use crate::packet::phv::get;
use crate::state::Externs;

/// Prefetches all cache lines of a value.
#[inline(always)]
fn prefetch<T>(value: &T) {
    let first = std::ptr::from_ref(value).cast::<u8>();
    for at in (0..size_of::<T>().max(1)).step_by(CACHE_LINE_BYTES) {
        prefetch_line(first.wrapping_add(at));
    }
}

/// Prefetches the cells at an index. An index out of range does nothing here: the step that uses the cell counts it.
#[inline(always)]
pub(super) fn run(externs: &Externs, phv: &[u8], cells: &Prefetch) {
    let value = get(phv, cells.index);
    for (array, by) in &cells.arrays {
        let index = value << (by & 63);
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match array {
            ArrayRef::Counter(counter) => {
                let array = externs.counters.get(usize::from(*counter));
                if let Some(cell) = array.and_then(|array| array.get(at)) {
                    prefetch(cell);
                }
            }
            ArrayRef::Meter(meter) => {
                let array = externs.meters.get(usize::from(*meter));
                if let Some(cell) = array.and_then(|array| array.cells.get(at)) {
                    prefetch(cell);
                }
            }
            ArrayRef::Register(register) => {
                let array = externs.registers.get(usize::from(*register));
                if let Some([word, ..]) = array.and_then(|array| array.cell(index)) {
                    prefetch(word);
                }
            }
        }
    }
}
