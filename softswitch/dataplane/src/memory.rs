// SPDX-License-Identifier: Apache-2.0
//! Huge pages for large arrays, and prefetches of cache lines.
//!
//! Packets of many flows touch cells far apart. In huge pages (where transparent_hugepage is `madvise` or `always`) one
//! entry of the processor's TLB covers 2 MiB instead of 4 KiB.

use std::alloc::Layout;

/// Bytes of a cache line, which a prefetch loads.
pub(crate) const CACHE_LINE_BYTES: usize = 64;

/// Starts to load the cache line of an address, without a wait. Any address is allowed.
#[inline(always)]
pub(crate) fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address, and needs no more than SSE, which
    // every x86-64 processor has.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A smaller vector may lie so that it holds no whole huge page.
const LEAST_BYTES: usize = 4 << 20;

/// Bytes of a huge page, on most processors.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Sizes of the arrays that start on a huge page and share none: smaller ones would waste most of it, and in larger
/// ones the two ends do not matter.
const ALIGNED_ARRAY_BYTES: std::ops::Range<usize> = HUGE_PAGE_BYTES / 4..32 << 20;

/// Requests huge pages for a vector's capacity; only a hint.
fn ask_for_huge_pages<T>(items: &Vec<T>) {
    let bytes = items.capacity() * size_of::<T>();
    if bytes >= LEAST_BYTES {
        advise(items.as_ptr().cast(), bytes);
    }
}

/// Requests huge pages for `bytes` bytes from `first` on.
pub(crate) fn advise(first: *const u8, bytes: usize) {
    if bytes < HUGE_PAGE_BYTES {
        return;
    }
    // Miri has no `madvise`.
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const PAGE_BYTES: usize = 4 << 10;
        let skipped = first.align_offset(PAGE_BYTES);
        let length = bytes.saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: this advice changes no contents, whatever the memory.
        unsafe {
            libc::madvise(
                first.cast_mut().wrapping_add(skipped).cast(),
                length,
                libc::MADV_HUGEPAGE,
            );
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (first, bytes);
}

/// The layout of an array of `len` items; None if no memory can hold it.
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
    // Before the first access, which decides the size of a page.
    ask_for_huge_pages(&items);
    items.resize(len, item);
    items
}

/// Appends an item; a large vector moves to huge pages when it grows.
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
    fn vectors_keep_their_items_whatever_their_size() {
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
