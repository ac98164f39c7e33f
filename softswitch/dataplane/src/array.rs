// SPDX-License-Identifier: Apache-2.0
//! A boxed slice whose layout the machine code knows: the cells of counters, meters and registers, in huge pages if
//! they are many.

use crate::memory;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// An owned slice of a fixed length.
#[repr(C)]
pub(crate) struct Array<T> {
    first: *mut T,
    len: usize,
}

// SAFETY: it owns its elements as a `Box<[T]>` does; the pointer is shared with nobody.
unsafe impl<T: Send> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Array<T> {}

impl<T> Array<T> {
    /// Offset in bytes of the pointer to the first element.
    pub(crate) const FIRST: usize = std::mem::offset_of!(Self, first);
    /// Offset in bytes of the number of elements.
    pub(crate) const LEN: usize = std::mem::offset_of!(Self, len);
}

impl<T: Copy> Array<T> {
    /// `len` equal elements.
    pub(crate) fn filled(item: T, len: usize) -> Self {
        let array = Self::with(len, |layout| {
            // SAFETY: the size is not zero.
            unsafe { alloc(layout) }
        });
        for at in 0..array.len {
            // SAFETY: there is room for as many elements.
            unsafe { array.first.add(at).write(item) };
        }
        array
    }

    /// `len` elements in memory from `allocate`; no elements if no memory can hold them.
    fn with(len: usize, allocate: impl FnOnce(Layout) -> *mut u8) -> Self {
        let layout = memory::array_layout::<T>(len).filter(|layout| layout.size() > 0);
        let Some(layout) = layout else {
            let first = NonNull::dangling().as_ptr();
            return Self { first, len: 0 };
        };
        let first = allocate(layout);
        if first.is_null() {
            handle_alloc_error(layout);
        }
        // Before the first access if possible, because that decides the size of a page.
        memory::advise(first, layout.size());
        Self {
            first: first.cast(),
            len,
        }
    }
}

impl Array<u64> {
    /// `len` zeros; for a very large array the kernel allocates pages as they are used.
    pub(crate) fn zeros(len: usize) -> Self {
        let layout = memory::array_layout::<u64>(len);
        if layout.is_some_and(|layout| layout.align() > align_of::<u64>()) {
            return Self::filled(0, len);
        }
        Self::with(len, |layout| {
            // SAFETY: the size is not zero.
            unsafe { alloc_zeroed(layout) }
        })
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: there are as many elements, each of which was written or is a zero.
        unsafe { std::slice::from_raw_parts(self.first, self.len) }
    }
}

impl<T> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the reference to the array is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.len) }
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        if let (Some(layout), 1..) = (memory::array_layout::<T>(self.len), self.len) {
            // SAFETY: it was allocated with this layout, which depends on the length alone; elements need no drop.
            unsafe { dealloc(self.first.cast(), layout) };
        }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.deref().fmt(f)
    }
}
