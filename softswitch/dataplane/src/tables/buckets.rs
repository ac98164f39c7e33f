// SPDX-License-Identifier: Apache-2.0
//! A hash table of packed keys with linear probing. Key, slot and rank are stored together, so that a hit touches one
//! or two cache lines, whatever the number of entries.

use crate::hash;
use crate::memory;

/// The first entry of a key's chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub slot: u32,
    pub rank: i32,
}

/// No slot has this number, so no head packs to it.
const EMPTY: u64 = u64::MAX;
const SMALLEST: usize = 8;

#[inline(always)]
fn key_hash(seed: u64, key: &[u64]) -> u64 {
    hash::key_hash(seed, key.len(), |at| key.get(at).copied().unwrap_or(0))
}

impl Head {
    fn pack(self) -> u64 {
        u64::from(self.rank.cast_unsigned()) << 32 | u64::from(self.slot)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    fn unpack(word: u64) -> Self {
        Self {
            slot: word as u32,
            rank: ((word >> 32) as u32).cast_signed(),
        }
    }
}

/// Below this number of cells at most a quarter is in use, so that nearly every lookup ends at its first probe.
const ROOMY_CELLS: usize = 16_384;

/// Keys of `words` words, at most half of the cells in use.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    words: usize,
    seed: u64,
    /// Per cell the words of the key, then the head.
    cells: Vec<u64>,
    /// Cells minus one; cells are a power of two.
    last: usize,
    len: usize,
    /// A filter with eight bits per cell and one bit set per key: it rejects most absent keys without an access to the
    /// cells. Empty if nearly every lookup hits.
    filter: Vec<u64>,
    filtered: bool,
    /// Keys removed since the filter was made.
    stale: usize,
}

impl Buckets {
    pub(super) fn new(words: usize, seed: u64, filtered: bool) -> Self {
        Self {
            words,
            seed,
            filtered,
            ..Self::default()
        }
    }

    /// Word and bit of the filter, from the half of the hash that `home` does not use.
    #[inline(always)]
    fn filter_bit(&self, hash: u64) -> (usize, u64) {
        let word = (hash >> 38) as usize & self.filter.len().wrapping_sub(1);
        (word, 1 << (hash >> 32 & 63))
    }

    fn mark(&mut self, hash: u64) {
        if self.filtered {
            let (word, bit) = self.filter_bit(hash);
            if let Some(word) = self.filter.get_mut(word) {
                *word |= bit;
            }
        }
    }

    fn remake_filter(&mut self) {
        self.stale = 0;
        if !self.filtered {
            return;
        }
        self.filter.clear();
        self.filter.resize((self.last + 1) / 8, 0);
        for at in 0..=self.last {
            if self.head(at) != EMPTY {
                let key = self.cell(at).get(..self.words).unwrap_or_default();
                let hash = key_hash(self.seed, key);
                self.mark(hash);
            }
        }
    }

    /// The head of the key that `key` is under `mask`. All three have the same number of words.
    #[inline(always)]
    pub(super) fn get_masked(&self, key: &[u64], mask: &[u64]) -> Option<Head> {
        let mask = mask.get(..key.len())?;
        let masked = |at: usize| match (key.get(at), mask.get(at)) {
            (Some(word), Some(mask)) => word & mask,
            _ => 0,
        };
        let hash = hash::key_hash(self.seed, key.len(), masked);
        if self.filtered {
            let (word, bit) = self.filter_bit(hash);
            if self.filter.get(word)? & bit == 0 {
                return None;
            }
        }
        self.walk(hash, key.len(), masked)
    }

    /// The head of a key that is compared without a mask. It has the number of words of the keys here.
    #[inline(always)]
    pub(super) fn get_exact(&self, key: &[u64]) -> Option<Head> {
        let word = |at: usize| key.get(at).copied().unwrap_or(0);
        self.walk(key_hash(self.seed, key), key.len(), word)
    }

    /// Probes from a key's home to its cell or to an empty one.
    #[inline(always)]
    fn walk(&self, hash: u64, words: usize, key: impl Fn(usize) -> u64) -> Option<Head> {
        let mut at = self.home(hash);
        let stride = words + 1;
        loop {
            let cell = self.cells.get(at * stride..at * stride + stride)?;
            let (head, stored) = cell.split_last()?;
            if *head == EMPTY {
                return None;
            }
            let mut differs = 0;
            for (at, stored) in stored.iter().enumerate() {
                differs |= stored ^ key(at);
            }
            if differs == 0 {
                return Some(Head::unpack(*head));
            }
            at = (at + 1) & self.last;
        }
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
        let at = hash as usize & self.last;
        at
    }

    fn cell(&self, at: usize) -> &[u64] {
        let stride = self.words + 1;
        self.cells
            .get(at * stride..(at + 1) * stride)
            .unwrap_or_default()
    }

    fn head(&self, at: usize) -> u64 {
        self.cell(at).last().copied().unwrap_or(EMPTY)
    }

    fn write(&mut self, at: usize, key: &[u64], head: u64) {
        let stride = self.words + 1;
        if let Some(cell) = self.cells.get_mut(at * stride..(at + 1) * stride) {
            cell[..self.words].copy_from_slice(key);
            cell[self.words] = head;
        }
    }

    /// The key's cell, or the empty cell that it would get.
    fn cell_of(&self, key: &[u64]) -> usize {
        let mut at = self.home(key_hash(self.seed, key));
        while self.head(at) != EMPTY && self.cell(at).get(..self.words) != Some(key) {
            at = (at + 1) & self.last;
        }
        at
    }

    pub(super) fn get(&self, key: &[u64]) -> Option<Head> {
        if self.len == 0 {
            return None;
        }
        let head = self.head(self.cell_of(key));
        (head != EMPTY).then(|| Head::unpack(head))
    }

    /// Adds a key or replaces its head.
    pub(super) fn set(&mut self, key: &[u64], head: Head) {
        let (keys, cells) = (self.len + 1, self.last + 1);
        let crowded = keys * 2 > cells || cells < ROOMY_CELLS && keys * 4 > cells;
        if self.cells.is_empty() || crowded {
            self.grow();
        }
        let at = self.cell_of(key);
        if self.head(at) == EMPTY {
            self.len += 1;
            self.mark(key_hash(self.seed, key));
        }
        self.write(at, key, head.pack());
    }

    fn grow(&mut self) {
        let cells = if self.cells.is_empty() {
            SMALLEST
        } else {
            (self.last + 1) * 2
        };
        let stride = self.words + 1;
        let old = std::mem::replace(&mut self.cells, memory::filled(EMPTY, cells * stride));
        self.last = cells - 1;
        for cell in old.chunks_exact(stride) {
            if let Some((head, key)) = cell.split_last()
                && *head != EMPTY
            {
                let at = self.cell_of(key);
                self.write(at, key, *head);
            }
        }
        self.remake_filter();
    }

    /// Removes a key; later keys move up, so that no probe ends too early (Knuth, volume 3, algorithm 6.4 R).
    pub(super) fn remove(&mut self, key: &[u64]) {
        if self.len == 0 {
            return;
        }
        let mut hole = self.cell_of(key);
        if self.head(hole) == EMPTY {
            return;
        }
        self.len -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & self.last;
            if self.head(at) == EMPTY {
                break;
            }
            let stored = self.cell(at);
            let home = self.home(key_hash(self.seed, &stored[..self.words]));
            // It may move to the hole unless its home is after the hole.
            if (at.wrapping_sub(home) & self.last) >= (at.wrapping_sub(hole) & self.last) {
                let stride = self.words + 1;
                self.cells
                    .copy_within(at * stride..(at + 1) * stride, hole * stride);
                hole = at;
            }
        }
        let stride = self.words + 1;
        if let Some(head) = self.cells.get_mut(hole * stride + self.words) {
            *head = EMPTY;
        }
        self.stale += 1;
        if self.stale > self.last / 2 {
            self.remake_filter();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn behaves_like_a_map(
            steps in prop::collection::vec((any::<bool>(), 0_u64..40, 0_u64..3), 1..400),
            words in 1_usize..5,
            filtered in any::<bool>(),
        ) {
            let mut buckets = Buckets::new(words, 3, filtered);
            let mut model = HashMap::new();
            let key = |a: u64, b: u64| {
                let mut key = vec![b; words];
                key[0] = a;
                key
            };
            for (slot, (add, a, b)) in (0_u32..).zip(steps) {
                let key = key(a, b);
                if add {
                    let head = Head { slot, rank: -1 };
                    buckets.set(&key, head);
                    model.insert(key, head);
                } else {
                    buckets.remove(&key);
                    model.remove(&key);
                }
            }
            prop_assert_eq!(buckets.len(), model.len());
            for a in 0..40 {
                for b in 0..3 {
                    let key = key(a, b);
                    prop_assert_eq!(buckets.get(&key), model.get(&key).copied());
                    let ones = vec![u64::MAX; words];
                    prop_assert_eq!(buckets.get_masked(&key, &ones), model.get(&key).copied());
                    prop_assert_eq!(buckets.get_exact(&key), model.get(&key).copied());
                }
            }
        }
    }
}
