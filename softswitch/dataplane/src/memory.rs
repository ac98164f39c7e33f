// SPDX-License-Identifier: Apache-2.0
//! Large arrays in huge pages, where the kernel gives them to those who ask (transparent_hugepage = madvise): packets of
//! many flows touch cells far apart, and one entry of the processor's TLB then reaches 2 MiB instead of 4 KiB.

/// Smaller arrays hold no whole huge page for sure.
const LEAST_BYTES: usize = 4 << 20;

/// Asks for huge pages for all that a vector has room for; a hint, so that nothing depends on it.
pub(crate) fn ask_for_huge_pages<T>(items: &Vec<T>) {
    let bytes = items.capacity() * size_of::<T>();
    if bytes < LEAST_BYTES {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        const PAGE_BYTES: usize = 4 << 10;
        let first = items.as_ptr().cast_mut().cast::<u8>();
        let skipped = first.align_offset(PAGE_BYTES);
        let length = bytes.saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
        // SAFETY: the pages lie whole in the vector's own memory, and this advice changes no contents.
        unsafe {
            libc::madvise(
                first.wrapping_add(skipped).cast(),
                length,
                libc::MADV_HUGEPAGE,
            );
        }
    }
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
