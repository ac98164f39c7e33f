// SPDX-License-Identifier: Apache-2.0
//! An action of a table with its arguments, as the machine code reads them.

use std::fmt;
use std::ptr::{self, NonNull};

/// Words that are stored in the action itself, without a further memory access for a packet that runs it.
pub(crate) const INLINE: usize = 3;

/// An action with its arguments. First come the words of up to [`INLINE`] arguments, or the address of more.
#[repr(C)]
pub(crate) struct BoundAction {
    words: Words,
    len: u32,
    local: u16,
    /// The values that it cannot have tell that an `Option` is None.
    _present: Present,
}

/// `inline` if the words are at most [`INLINE`], else `apart`, which is owned.
#[derive(Clone, Copy)]
union Words {
    inline: [u64; INLINE],
    apart: NonNull<u64>,
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum Present {
    Yes,
}

// SAFETY: it owns its words as a box does.
unsafe impl Send for BoundAction {}
// SAFETY: a shared reference only reads the words.
unsafe impl Sync for BoundAction {}

impl BoundAction {
    /// The action of this number in its table's list, with arguments as words.
    pub(crate) fn new(local: u16, args: Box<[u64]>) -> Self {
        let len = u32::try_from(args.len()).unwrap_or(u32::MAX);
        let mut inline = [0; INLINE];
        let words = if let Some(used) = inline.get_mut(..args.len()) {
            used.copy_from_slice(&args);
            Words { inline }
        } else {
            let apart = NonNull::from(Box::leak(args)).cast();
            Words { apart }
        };
        Self {
            words,
            len,
            local,
            _present: Present::Yes,
        }
    }

    /// Its number in the table's list.
    #[inline(always)]
    pub(crate) fn local(&self) -> u16 {
        self.local
    }

    #[inline(always)]
    pub(crate) fn args(&self) -> &[u64] {
        let len = self.len as usize;
        // SAFETY: `new` chose the variant by the same length.
        unsafe {
            if len <= INLINE {
                self.words.inline.get_unchecked(..len)
            } else {
                std::slice::from_raw_parts(self.words.apart.as_ptr(), len)
            }
        }
    }

    /// Address of the words of up to [`INLINE`] arguments, or of the address of more.
    #[inline(always)]
    pub(crate) fn words(&self) -> *const u64 {
        (&raw const self.words).cast()
    }
}

impl Drop for BoundAction {
    fn drop(&mut self) {
        let len = self.len as usize;
        if len > INLINE {
            // SAFETY: `new` leaked a box of this length, and nothing else drops it.
            unsafe {
                let apart = ptr::slice_from_raw_parts_mut(self.words.apart.as_ptr(), len);
                drop(Box::from_raw(apart));
            }
        }
    }
}

impl fmt::Debug for BoundAction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("BoundAction")
            .field(&self.local)
            .field(&self.args())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_the_same_inline_and_on_the_heap() {
        for len in 0..6 {
            let words: Box<[u64]> = (1..=len).collect();
            let bound = BoundAction::new(7, words.clone());
            assert_eq!((bound.local(), bound.args()), (7, &*words));
            // SAFETY: as the machine code does.
            let first = unsafe {
                match words.len() {
                    0..=INLINE => bound.words(),
                    _ => *bound.words().cast::<*const u64>(),
                }
            };
            assert_eq!(first, bound.args().as_ptr());
        }
    }
}
