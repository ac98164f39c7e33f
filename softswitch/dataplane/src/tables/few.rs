// SPDX-License-Identifier: Apache-2.0
//! The entries of a very small table: comparing with each costs less than one hash.

use super::buckets::Head;
use super::key::PackedKey;

/// Entries up to which a table is searched here.
const MOST: usize = 4;

/// Entries in order of rank; empty if the table has too many.
#[derive(Debug)]
pub(super) struct Few {
    words: usize,
    /// Per entry the words of its value, then those of its mask.
    rows: Vec<u64>,
    heads: Vec<Head>,
    whole: bool,
}

impl Few {
    pub(super) fn new(words: usize) -> Self {
        Self {
            words,
            rows: Vec::new(),
            heads: Vec::new(),
            whole: true,
        }
    }

    /// All entries of the table are here.
    #[inline(always)]
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Adds an entry after those of equal rank.
    pub(super) fn insert(&mut self, key: &PackedKey, head: Head) {
        if !self.whole {
            return;
        }
        if self.heads.len() == MOST {
            self.whole = false;
            self.rows = Vec::new();
            self.heads = Vec::new();
            return;
        }
        let at = self.heads.partition_point(|other| other.rank >= head.rank);
        self.heads.insert(at, head);
        let row = at * 2 * self.words;
        self.rows
            .splice(row..row, key.value.iter().chain(&key.mask).copied());
    }

    /// Removes an entry of a table that has `left` entries from then on.
    pub(super) fn remove(&mut self, slot: u32, left: usize) {
        if let Some(at) = self.heads.iter().position(|head| head.slot == slot) {
            self.heads.remove(at);
            let row = at * 2 * self.words;
            self.rows.drain(row..row + 2 * self.words);
        }
        // Collecting the last few entries of a large table would need a search through all of it.
        self.whole |= left == 0;
    }

    /// The first entry whose masked value is the key's and that `accepts` accepts.
    #[inline(always)]
    pub(super) fn lookup(&self, key: &[u64], accepts: impl Fn(u32) -> bool) -> Option<u32> {
        let rows = self.rows.chunks_exact(2 * key.len().max(1));
        for (row, head) in rows.zip(&self.heads) {
            let (value, mask) = row.split_at(key.len());
            let words = key.iter().zip(value).zip(mask);
            let differs = words.fold(0, |differs, ((k, v), m)| differs | ((k & m) ^ v));
            if differs == 0 && accepts(head.slot) {
                return Some(head.slot);
            }
        }
        None
    }
}
