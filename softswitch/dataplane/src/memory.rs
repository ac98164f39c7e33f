// SPDX-License-Identifier: Apache-2.0
//! Large arrays in huge pages, where the kernel gives them to those who ask (transparent_hugepage = madvise): packets of
//! many flows touch cells far apart, and one entry of the processor's TLB then reaches 2 MiB instead of 4 KiB.

use std::alloc::Layout;

/// Smaller vectors hold no whole huge page for sure.
const LEAST_BYTES: usize = 4 << 20;

/// What a huge page of most processors holds.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Arrays of so many bytes start on a huge page and have their last one to themselves; smaller ones are not worth one,
/// and larger ones have so many that the ends do not count.
const ALIGNED_ARRAY_BYTES: std::ops::Range<usize> = HUGE_PAGE_BYTES / 4..32 << 20;

/// Asks for huge pages for all that a vector has room for; a hint, so that nothing depends on it.
fn ask_for_huge_pages<T>(items: &Vec<T>) {
    let bytes = items.capacity() * size_of::<T>();
    if bytes >= LEAST_BYTES {
        advise(items.as_ptr().cast(), bytes);
    }
}

/// The same for as many bytes of somebody's own memory.
pub(crate) fn advise(first: *const u8, bytes: usize) {
    if bytes < HUGE_PAGE_BYTES {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        const PAGE_BYTES: usize = 4 << 10;
        let skipped = first.align_offset(PAGE_BYTES);
        let length = bytes.saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: this advice changes no contents, of whatever memory.
        unsafe {
            libc::madvise(
                first.cast_mut().wrapping_add(skipped).cast(),
                length,
                libc::MADV_HUGEPAGE,
            );
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (first, bytes);
}

/// How an array of `len` items is to lie in memory. None: there is no such memory.
pub(crate) fn array_layout<T>(len: usize) -> Option<Layout> {
    let layout = Layout::array::<T>(len).ok()?;
    if !ALIGNED_ARRAY_BYTES.contains(&layout.size()) {
        return Some(layout);
    }
    let whole = layout.size().checked_next_multiple_of(HUGE_PAGE_BYTES)?;
    Layout::from_size_align(whole, HUGE_PAGE_BYTES.max(layout.align())).ok()
}

/// A vector of `len` equal items.
pub(crate) fn filled<T: Clone>(item: T, len: usize) -> Vec<T> {
    let mut items = Vec::with_capacity(len);
    // Before the first touch, which is when a page gets its size.
    ask_for_huge_pages(&items);
    items.resize(len, item);
    items
}

/// Appends an item; a full vector of some size moves to huge pages.
pub(crate) fn push<T>(items: &mut Vec<T>, item: T) {
    if items.len() == items.capacity() && items.len() * size_of::<T>() * 2 >= LEAST_BYTES {
        let mut roomy = Vec::with_capacity(items.len() * 2);
        ask_for_huge_pages(&roomy);
        roomy.append(items);
        *items = roomy;
    }
    items.push(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_hold_what_was_put_in_whatever_their_size() {
        let len = LEAST_BYTES / size_of::<u64>() + 3;
        let filled = filled(7_u64, len);
        assert!(filled.len() == len && filled.iter().all(|item| *item == 7));
        let mut pushed = Vec::new();
        for item in 0..2 * len {
            push(&mut pushed, item);
        }
        assert!(pushed.iter().copied().eq(0..2 * len));
    }
}
