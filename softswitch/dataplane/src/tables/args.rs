// SPDX-License-Identifier: Apache-2.0
//! Arguments of an entry's action.

use std::ops::Deref;

/// Words that stand in the entry itself, so that a packet that found it need not look elsewhere.
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
            (Some(place), Ok(len)) => {
                place.copy_from_slice(&args);
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
    fn arguments_are_the_same_wherever_they_stand() {
        for len in 0..6 {
            let words: Box<[u64]> = (1..=len).collect();
            assert_eq!(*Args::from(words.clone()), *words);
        }
    }
}
