// SPDX-License-Identifier: Apache-2.0
//! Arguments of an entry's action.

use std::ops::Deref;

/// Words that are stored in the entry itself, without a further memory access for a packet that hits it.
const INLINE: usize = 3;

#[derive(Debug, Clone)]
pub(crate) enum Args {
    Inline { len: u8, words: [u64; INLINE] },
    Apart(Box<[u64]>),
}

impl From<Box<[u64]>> for Args {
    fn from(args: Box<[u64]>) -> Self {
        let mut words = [0; INLINE];
        match (words.get_mut(..args.len()), u8::try_from(args.len())) {
            (Some(used), Ok(len)) => {
                used.copy_from_slice(&args);
                Self::Inline { len, words }
            }
            _ => Self::Apart(args),
        }
    }
}

impl Deref for Args {
    type Target = [u64];

    #[inline(always)]
    fn deref(&self) -> &[u64] {
        match self {
            Self::Inline { len, words } => words.get(..usize::from(*len)).unwrap_or_default(),
            Self::Apart(args) => args,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_the_same_inline_and_on_the_heap() {
        for len in 0..6 {
            let words: Box<[u64]> = (1..=len).collect();
            assert_eq!(*Args::from(words.clone()), *words);
        }
    }
}
