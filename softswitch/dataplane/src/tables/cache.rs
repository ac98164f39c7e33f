// SPDX-License-Identifier: Apache-2.0
//! A cache of lookup results for tables whose search tries several masks: a repeated key takes one probe.
//!
//! A line is valid for the state of the table in which it was filled: every write starts a new generation, and lines of
//! other generations are empty. A line's key has only the bits that some entry matches on, so that packets that differ
//! in other bits (in a port number, say) share a line.

use crate::hash::key_hash;
use crate::memory::CACHE_LINE_BYTES;
use std::ops::Range;

/// Lines per set: a key can be in two of them.
const WAYS: usize = 2;
/// Lines per entry of the table, and the bounds of their number.
const LINES_PER_ENTRY: usize = 8;
const FEWEST_LINES: usize = 1_024;
const MOST_LINES: usize = 16_384;

/// Keys of up to so many words are handled without allocation.
const SHORT_WORDS: usize = 8;

/// Words of a line of the processor's cache. Such a line holds a set of keys of up to three words.
const BLOCK_WORDS: usize = CACHE_LINE_BYTES / size_of::<u64>();

/// Lookups per window; the hits are evaluated at its end.
const WINDOW: u32 = 1_024;
/// Below this number of hits in a window, probing and filling cost more than they save.
const WORTHWHILE_HITS: u32 = WINDOW / 4;
/// Lookups without the cache before it is tried again.
const REST: u32 = 16 * WINDOW;

const NONE: u32 = u32::MAX;

/// The result of a probe.
pub(super) enum Probe {
    /// The known lookup result: a slot, or None for a miss of the table.
    Known(Option<u32>),
    /// Not cached; the set that the result belongs to.
    Unknown(usize),
    /// The cache is not in use.
    Off,
}

#[derive(Debug, Clone)]
#[repr(align(64))]
struct Block([u64; BLOCK_WORDS]);

const _: () = assert!(size_of::<Block>() == CACHE_LINE_BYTES);

/// Blocks of a set of keys of so many words.
#[inline(always)]
const fn blocks_per_set(words: usize) -> usize {
    (WAYS * (words + 1)).div_ceil(BLOCK_WORDS)
}

#[inline(always)]
fn blocks_of(set: usize, words: usize) -> Range<usize> {
    let blocks = blocks_per_set(words);
    set * blocks..(set + 1) * blocks
}

#[derive(Debug)]
pub(super) struct Cache {
    words: usize,
    seed: u64,
    /// Bits that masks or ranges match on.
    relevant: Box<[u64]>,
    /// The sets, each in blocks of its own. A line has the words of a key, then generation and slot. Empty: this table has
    /// no cache.
    blocks: Vec<Block>,
    /// Sets minus one; sets are a power of two.
    last_set: usize,
    /// Not 0, which is the generation of empty lines.
    generation: u32,
    /// Lookups until the end of the window, or of the pause without the cache.
    left: u32,
    hits: u32,
    resting: bool,
}

#[inline(always)]
fn tag(generation: u32, slot: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}

/// 0 if the line of `words` words of a key, then generation and slot, is the key's and of this generation; and the slot.
#[inline(always)]
fn compare(
    line: impl Fn(usize) -> u64,
    generation: u32,
    words: usize,
    key: impl Fn(usize) -> u64,
) -> (u64, u32) {
    let known = line(words);
    let mut differs = known >> 32 ^ u64::from(generation);
    for at in 0..words {
        differs |= line(at) ^ key(at);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    let slot = known as u32;
    (differs, slot)
}

impl Cache {
    pub(super) fn new(words: usize, seed: u64) -> Self {
        Self {
            words,
            seed,
            relevant: vec![0; words].into_boxed_slice(),
            blocks: Vec::new(),
            last_set: 0,
            generation: 1,
            left: WINDOW,
            hits: 0,
            resting: false,
        }
    }

    /// Invalidates all lines, because the table was or will be written.
    pub(super) fn forget(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.blocks.fill(Block([0; BLOCK_WORDS]));
            self.generation = 1;
        }
    }

    /// Allocates the lines for a table of this many entries, here rather than in the path of a packet.
    pub(super) fn reserve(&mut self, entries: usize) {
        let lines = (entries * LINES_PER_ENTRY)
            .next_power_of_two()
            .clamp(FEWEST_LINES, MOST_LINES);
        let blocks = lines / WAYS * blocks_per_set(self.words);
        if self.blocks.len() < blocks {
            self.blocks = vec![Block([0; BLOCK_WORDS]); blocks];
            self.last_set = lines / WAYS - 1;
        }
    }

    /// Adds bits that masks or ranges match on.
    pub(super) fn add_relevant(&mut self, mask: &[u64]) {
        for (bits, more) in self.relevant.iter_mut().zip(mask) {
            *bits |= more;
        }
    }

    /// Clears the bits that masks or ranges match on.
    pub(super) fn clear_relevant(&mut self) {
        self.relevant.fill(0);
    }

    #[inline(always)]
    pub(super) fn probe(&mut self, key: &[u64]) -> Probe {
        // The relevant bits of a short key are computed once, without a loop because the length is known.
        match key {
            [a] => return self.probe_short([*a]),
            [a, b] => return self.probe_short([*a, *b]),
            [a, b, c] => return self.probe_short([*a, *b, *c]),
            _ => {}
        }
        let mut words = [0; SHORT_WORDS];
        match words.get_mut(..key.len()) {
            Some(short) => {
                for (word, (key, mask)) in short.iter_mut().zip(key.iter().zip(&*self.relevant)) {
                    *word = key & mask;
                }
                self.probe_for(key.len(), |at| words.get(at).copied().unwrap_or(0))
            }
            None => self.probe_long(key),
        }
    }

    #[inline(always)]
    fn probe_short<const N: usize>(&mut self, mut key: [u64; N]) -> Probe {
        let relevant = self.relevant.get(..N).unwrap_or_default();
        for (word, mask) in key.iter_mut().zip(relevant) {
            *word &= mask;
        }
        self.probe_for(N, |at| key.get(at).copied().unwrap_or(0))
    }

    #[inline(never)]
    fn probe_long(&mut self, key: &[u64]) -> Probe {
        let relevant = std::mem::take(&mut self.relevant);
        let masked = |at: usize| match (key.get(at), relevant.get(at)) {
            (Some(word), Some(mask)) => word & mask,
            _ => 0,
        };
        let probe = self.probe_for(key.len(), masked);
        self.relevant = relevant;
        probe
    }

    /// As [`Self::probe`], for the relevant bits of `words` words.
    #[inline(always)]
    fn probe_for(&mut self, words: usize, key: impl Fn(usize) -> u64) -> Probe {
        self.left -= 1;
        if self.left == 0 {
            self.end_window();
        }
        if self.resting {
            return Probe::Off;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
        let set = key_hash(self.seed, words, &key) as usize & self.last_set;
        let Some(blocks) = self.blocks.get(blocks_of(set, words)) else {
            return Probe::Off;
        };
        let word = |at: usize| blocks[at / BLOCK_WORDS].0[at % BLOCK_WORDS];
        let line = |way: usize| move |at: usize| word(way * (words + 1) + at);
        let (a, b) = (
            compare(line(0), self.generation, words, &key),
            compare(line(1), self.generation, words, &key),
        );
        // Selected without a branch, because the branch would be unpredictable.
        let (differs, slot) = if a.0 == 0 { a } else { b };
        if differs != 0 {
            return Probe::Unknown(set);
        }
        self.hits += 1;
        Probe::Known((slot != NONE).then_some(slot))
    }

    /// Stores the result for a key in its set and evicts the older line.
    #[inline(always)]
    pub(super) fn fill(&mut self, set: usize, key: &[u64], slot: Option<u32>) {
        let (words, stride) = (key.len(), key.len() + 1);
        let Some(blocks) = self.blocks.get_mut(blocks_of(set, words)) else {
            return;
        };
        for at in 0..stride {
            let newer = blocks[at / BLOCK_WORDS].0[at % BLOCK_WORDS];
            let older = stride + at;
            blocks[older / BLOCK_WORDS].0[older % BLOCK_WORDS] = newer;
        }
        for (at, (k, m)) in key.iter().zip(&*self.relevant).enumerate() {
            blocks[at / BLOCK_WORDS].0[at % BLOCK_WORDS] = k & m;
        }
        let tag = tag(self.generation, slot.unwrap_or(NONE));
        blocks[words / BLOCK_WORDS].0[words % BLOCK_WORDS] = tag;
    }

    /// Turns the cache off for a while if it had too few hits, so that traffic without repeated keys does not pay for
    /// it.
    #[cold]
    fn end_window(&mut self) {
        self.resting = !self.resting && self.hits < WORTHWHILE_HITS;
        self.left = if self.resting { REST } else { WINDOW };
        self.hits = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Cache {
        let mut cache = Cache::new(2, 7);
        cache.add_relevant(&[0xff, u64::MAX]);
        cache.reserve(10);
        remember(&mut cache, &[1, 2], Some(3));
        cache
    }

    fn remember(cache: &mut Cache, key: &[u64], slot: Option<u32>) {
        match cache.probe(key) {
            Probe::Unknown(set) => cache.fill(set, key, slot),
            Probe::Known(_) | Probe::Off => panic!("the key is new and the cache in use"),
        }
    }

    fn known(cache: &mut Cache, key: &[u64]) -> Option<Option<u32>> {
        match cache.probe(key) {
            Probe::Known(slot) => Some(slot),
            Probe::Unknown(_) | Probe::Off => None,
        }
    }

    #[test]
    fn keys_that_differ_in_unmatched_bits_share_a_line() {
        let mut cache = filled();
        assert_eq!(known(&mut cache, &[1, 2]), Some(Some(3)));
        assert_eq!(known(&mut cache, &[0x4501, 2]), Some(Some(3)));
        assert_eq!(known(&mut cache, &[2, 2]), None);
        assert_eq!(known(&mut cache, &[1, 3]), None);
    }

    #[test]
    fn misses_are_cached() {
        let mut cache = filled();
        remember(&mut cache, &[9, 9], None);
        assert_eq!(known(&mut cache, &[9, 9]), Some(None));
    }

    #[test]
    fn repeated_generation_numbers_find_no_old_line() {
        let mut cache = filled();
        assert_eq!(cache.generation, 1);
        cache.generation = u32::MAX;
        cache.forget();
        assert_eq!(cache.generation, 1);
        assert_eq!(known(&mut cache, &[1, 2]), None);
    }

    #[test]
    fn keys_that_never_repeat_turn_the_cache_off_until_it_is_tried_again() {
        let mut cache = filled();
        let mut probes = (0..u64::from(WINDOW + REST + 1)).map(|key| {
            let off = matches!(cache.probe(&[0, key << 8]), Probe::Off);
            (key, off)
        });
        // `filled` was the first lookup of the window.
        let first_off = probes.find(|(_, off)| *off).map(|(key, _)| key);
        assert_eq!(first_off, Some(u64::from(WINDOW - 2)));
        let first_on = probes.find(|(_, off)| !*off).map(|(key, _)| key);
        assert_eq!(first_on, Some(u64::from(WINDOW + REST - 2)));
    }

    #[test]
    fn keys_that_repeat_keep_the_cache_in_use() {
        let mut cache = filled();
        for _ in 0..3 * WINDOW {
            assert_eq!(known(&mut cache, &[1, 2]), Some(Some(3)));
        }
    }
}
