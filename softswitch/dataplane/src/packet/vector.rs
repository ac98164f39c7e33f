// SPDX-License-Identifier: Apache-2.0
//! The packet header vector.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes in front of the fields, which belong to the machine code: with one address it reaches its frame and the fields.
pub(crate) const FRAME_BYTES: usize = 256;

/// The fields of a packet, with [`FRAME_BYTES`] before them in the same allocation.
pub(crate) struct Phv {
    /// Dangling without fields.
    start: NonNull<Line>,
    bytes: usize,
}

/// The alignment of an allocation, so that no copy of 16 bytes in it crosses a cache line at the frame.
#[repr(align(64))]
struct Line;

// SAFETY: it owns its memory as a box does.
unsafe impl Send for Phv {}
// SAFETY: a shared reference only reads the fields.
unsafe impl Sync for Phv {}

impl Phv {
    /// Fields of so many bytes, all zero.
    pub(crate) fn new(bytes: usize) -> Self {
        if bytes == 0 {
            return Self::default();
        }
        let layout = Self::layout(bytes);
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start.cast()) else {
            handle_alloc_error(layout)
        };
        Self { start, bytes }
    }

    fn layout(bytes: usize) -> Layout {
        let layout = Layout::from_size_align(FRAME_BYTES + bytes, align_of::<Line>());
        layout.unwrap_or_else(|_| handle_alloc_error(Layout::new::<Line>()))
    }

    /// Address of the bytes in front of the fields.
    #[inline(always)]
    pub(crate) fn frame(&mut self) -> *mut u8 {
        self.start.as_ptr().cast()
    }

    #[inline(always)]
    fn fields(&self) -> *mut u8 {
        self.start.as_ptr().cast::<u8>().wrapping_add(FRAME_BYTES)
    }
}

impl Default for Phv {
    fn default() -> Self {
        Self {
            start: NonNull::dangling(),
            bytes: 0,
        }
    }
}

impl Drop for Phv {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: `new` allocated it with this layout.
            unsafe { dealloc(self.frame(), Self::layout(self.bytes)) };
        }
    }
}

impl Deref for Phv {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: `new` allocated and initialized so many bytes there. Without any, the address only has to be not null.
        unsafe { std::slice::from_raw_parts(self.fields(), self.bytes) }
    }
}

impl DerefMut for Phv {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.fields(), self.bytes) }
    }
}

impl Clone for Phv {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.bytes);
        copy.copy_from_slice(self);
        copy
    }

    fn clone_from(&mut self, source: &Self) {
        if self.bytes == source.bytes {
            self.copy_from_slice(source);
        } else {
            *self = source.clone();
        }
    }
}

impl fmt::Debug for Phv {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_the_same_fields() {
        for bytes in [0, 1, 800] {
            let mut phv = Phv::new(bytes);
            assert!(phv.iter().all(|byte| *byte == 0) && phv.len() == bytes);
            phv.fill(7);
            let mut copies = [phv.clone(), Phv::new(bytes), Phv::new(3), Phv::default()];
            for copy in &mut copies {
                copy.clone_from(&phv);
                assert_eq!(**copy, *phv);
            }
        }
    }
}
