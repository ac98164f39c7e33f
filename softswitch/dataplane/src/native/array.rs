// SPDX-License-Identifier: Apache-2.0
//! A boxed slice with a layout that the code knows: the cells of counters, meters and registers.

use std::ops::{Deref, DerefMut};

/// A slice of its own, of a length that never changes.
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
    /// Where the pointer to the first element stands in an array, in bytes.
    pub(super) const FIRST: usize = std::mem::offset_of!(Self, first);
    /// Where the number of elements stands.
    pub(super) const LEN: usize = std::mem::offset_of!(Self, len);
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(cells: Vec<T>) -> Self {
        let cells = cells.into_boxed_slice();
        let len = cells.len();
        Self {
            first: Box::into_raw(cells).cast(),
            len,
        }
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `from` took both from a box, which nothing has freed.
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
        let cells = std::ptr::slice_from_raw_parts_mut(self.first, self.len);
        // SAFETY: it is the box that `from` took apart, put together once.
        drop(unsafe { Box::from_raw(cells) });
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.deref().fmt(f)
    }
}
