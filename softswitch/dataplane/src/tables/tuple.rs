// SPDX-License-Identifier: Apache-2.0
//! Tuple space search (Srinivasan, Suri, Varghese: "Packet Classification using Tuple Space Search", SIGCOMM 1999).
//!
//! Entries with equal masks form a tuple, a hash table over masked keys. An exact table is one tuple, an LPM table has
//! one per prefix length in use, and a ternary table one per combination of masks. Tuples are tried in the order of
//! their best rank, so the search ends as soon as no later tuple can win.

use super::buckets::{Buckets, Head};
use super::cache::{Cache, Probe};
use super::few::Few;
use super::key::{PackedKey, RangeCheck};
use std::collections::{BTreeMap, HashMap};

const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Tuple {
    mask: Box<[u64]>,
    /// Every bit of every field counts.
    exact: bool,
    /// Masked keys to the heads of their chains.
    heads: Buckets,
    /// Entries with ranges; without any, the head of a chain is always the result.
    ranged: u32,
    ranks: BTreeMap<i32, u32>,
    best: i32,
}

/// An entry's position in the index.
#[derive(Debug, Clone, Default)]
struct Node {
    tuple: u32,
    /// Next slot with the same masked key, not of higher rank.
    next: u32,
    rank: i32,
    ranges: Box<[RangeCheck]>,
}

/// A tuple's position in the order of the search.
#[derive(Debug, Clone, Copy)]
struct Ranked {
    best: i32,
    tuple: u32,
}

/// With more tuples than this, lookup results are cached.
const UNCACHED_TUPLES: usize = 2;

/// How a lookup searches, by what the table has; it changes with the entries only. The number is the distance in bytes
/// of the lookup's function from the first in a list of functions, which machine code reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Way {
    /// All of a few entries, which have no ranges.
    Few = 0,
    /// All of a few entries.
    FewRanged = 8,
    /// One hash table.
    Exact = 16,
    /// The tuples in order.
    Search = 24,
    /// The tuples, with a cache of results.
    Cached = 32,
}

#[derive(Debug)]
pub(super) struct TupleSpace {
    pub(super) way: Way,
    words: usize,
    seed: u64,
    tuples: Vec<Tuple>,
    free: Vec<u32>,
    by_mask: HashMap<Box<[u64]>, u32>,
    /// Tuples in use, best rank first.
    order: Vec<Ranked>,
    /// Entries.
    live: usize,
    /// Entries with ranges.
    ranged: usize,
    few: Few,
    cache: Cache,
    /// Bits that present or removed ranges match on.
    ranged_bits: Box<[u64]>,
    /// Masked keys, `words` per slot.
    keys: Vec<u64>,
    nodes: Vec<Node>,
}

fn key_at(keys: &[u64], words: usize, slot: u32) -> &[u64] {
    let start = slot as usize * words;
    keys.get(start..start + words).unwrap_or_default()
}

impl TupleSpace {
    pub(super) fn new(words: usize, seed: u64) -> Self {
        Self {
            way: Way::Few,
            words,
            seed,
            tuples: Vec::new(),
            free: Vec::new(),
            by_mask: HashMap::new(),
            order: Vec::new(),
            live: 0,
            ranged: 0,
            few: Few::new(words),
            cache: Cache::new(words, seed),
            ranged_bits: vec![0; words].into_boxed_slice(),
            keys: Vec::new(),
            nodes: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.words, self.seed);
    }

    /// How a lookup has to search now.
    fn way(&self) -> Way {
        match self.order.as_slice() {
            _ if self.few.is_whole() && self.ranged == 0 => Way::Few,
            _ if self.few.is_whole() => Way::FewRanged,
            [only] if self.exact_tuple(*only).is_some() => Way::Exact,
            order if order.len() <= UNCACHED_TUPLES => Way::Search,
            _ => Way::Cached,
        }
    }

    /// The slot of the best entry; `key` has the table's number of words.
    #[inline(always)]
    pub(super) fn lookup(&mut self, key: &[u64]) -> Option<u32> {
        // Known lengths, so that loops over words are unrolled.
        match key {
            [a] => self.best(&[*a]),
            [a, b] => self.best(&[*a, *b]),
            [a, b, c] => self.best(&[*a, *b, *c]),
            longer => self.best(longer),
        }
    }

    #[inline(always)]
    fn best<K: AsRef<[u64]> + ?Sized>(&mut self, key: &K) -> Option<u32> {
        match self.way {
            Way::Few => self.lookup_few(key),
            Way::FewRanged => self.lookup_few_ranged(key),
            Way::Exact => self.lookup_exact(key),
            Way::Search => self.search(key),
            Way::Cached => self.lookup_cached(key),
        }
    }

    /// As [`Self::lookup`], for [`Way::Few`].
    #[inline(always)]
    pub(super) fn lookup_few<K: AsRef<[u64]> + ?Sized>(&self, key: &K) -> Option<u32> {
        self.few.lookup(key.as_ref(), |_| true)
    }

    /// As [`Self::lookup`], for [`Way::FewRanged`].
    #[inline(never)]
    pub(super) fn lookup_few_ranged<K: AsRef<[u64]> + ?Sized>(&self, key: &K) -> Option<u32> {
        let key = key.as_ref();
        self.few.lookup(key, |slot| self.ranges_hold(slot, key))
    }

    /// As [`Self::lookup`], for [`Way::Exact`].
    #[inline(always)]
    pub(super) fn lookup_exact<K: AsRef<[u64]> + ?Sized>(&self, key: &K) -> Option<u32> {
        let tuple = self.exact_tuple(*self.order.first()?)?;
        tuple.heads.get_exact(key.as_ref()).map(|head| head.slot)
    }

    #[inline(always)]
    fn exact_tuple(&self, ranked: Ranked) -> Option<&Tuple> {
        let tuple = self.tuples.get(ranked.tuple as usize)?;
        tuple.exact.then_some(tuple)
    }

    /// As [`Self::lookup`], for [`Way::Cached`].
    #[inline(always)]
    pub(super) fn lookup_cached<K: AsRef<[u64]> + ?Sized>(&mut self, key: &K) -> Option<u32> {
        match self.cache.probe(key.as_ref()) {
            Probe::Known(slot) => slot,
            Probe::Unknown(set) => self.search_and_fill(key, set),
            Probe::Off => self.search(key),
        }
    }

    #[inline(never)]
    fn search_and_fill<K: AsRef<[u64]> + ?Sized>(&mut self, key: &K, set: usize) -> Option<u32> {
        let slot = self.search(key);
        self.cache.fill(set, key.as_ref(), slot);
        slot
    }

    /// As [`Self::lookup`], for [`Way::Search`]. A function of its own, so that lookups without a search save no registers
    /// for it.
    #[inline(never)]
    pub(super) fn search<K: AsRef<[u64]> + ?Sized>(&self, key: &K) -> Option<u32> {
        let key = key.as_ref();
        let mut best: Option<Head> = None;
        for ranked in &self.order {
            if best.is_some_and(|best| best.rank >= ranked.best) {
                break;
            }
            let Some(tuple) = self.tuples.get(ranked.tuple as usize) else {
                continue;
            };
            let found = if tuple.exact {
                tuple.heads.get_exact(key)
            } else {
                tuple.heads.get_masked(key, &tuple.mask)
            };
            if let Some(head) = found
                && best.is_none_or(|best| head.rank > best.rank)
            {
                if tuple.ranged == 0 {
                    best = Some(head);
                } else if let Some(head) = self.in_ranges(head, key)
                    && best.is_none_or(|best| head.rank > best.rank)
                {
                    best = Some(head);
                }
            }
        }
        best.map(|head| head.slot)
    }

    #[inline(always)]
    fn ranges_hold(&self, slot: u32, key: &[u64]) -> bool {
        let node = self.nodes.get(slot as usize);
        node.is_some_and(|node| node.ranges.iter().all(|range| range.contains(key)))
    }

    /// The first of a chain whose ranges hold the key.
    fn in_ranges(&self, head: Head, key: &[u64]) -> Option<Head> {
        let mut slot = head.slot;
        while slot != NONE {
            let node = self.nodes.get(slot as usize)?;
            if node.ranges.iter().all(|range| range.contains(key)) {
                return Some(Head {
                    slot,
                    rank: node.rank,
                });
            }
            slot = node.next;
        }
        None
    }

    pub(super) fn find(&self, key: &PackedKey, rank: i32) -> Option<u32> {
        let tuple = self.tuples.get(*self.by_mask.get(&key.mask)? as usize)?;
        let mut slot = tuple.heads.get(&key.value)?.slot;
        while slot != NONE {
            let node = self.nodes.get(slot as usize)?;
            if node.rank == rank && node.ranges == key.ranges {
                return Some(slot);
            }
            slot = node.next;
        }
        None
    }

    pub(super) fn key(&self, slot: u32) -> PackedKey {
        let node = self.nodes.get(slot as usize);
        PackedKey {
            value: key_at(&self.keys, self.words, slot).into(),
            mask: node
                .and_then(|n| self.tuples.get(n.tuple as usize))
                .map_or_else(Box::default, |t| t.mask.clone()),
            ranges: node.map_or_else(Box::default, |n| n.ranges.clone()),
            full: node
                .and_then(|n| self.tuples.get(n.tuple as usize))
                .is_some_and(|t| t.exact),
        }
    }

    pub(super) fn insert(&mut self, slot: u32, key: PackedKey, rank: i32) {
        let at = slot as usize;
        if self.nodes.len() <= at {
            self.nodes.resize(at + 1, Node::default());
            self.keys.resize((at + 1) * self.words, 0);
        }
        if let Some(stored) = self.keys.get_mut(at * self.words..(at + 1) * self.words) {
            stored.copy_from_slice(&key.value);
        }
        self.live += 1;
        self.few.insert(&key, Head { slot, rank });
        for range in &key.ranges {
            range.cover(&mut self.ranged_bits);
            self.cache.add_relevant(&self.ranged_bits);
        }
        let tuple = self.tuple_for(key.mask, key.full);
        self.nodes[at] = Node {
            tuple,
            next: NONE,
            rank,
            ranges: key.ranges,
        };
        self.link(slot, tuple, rank);
        let Some(group) = self.tuples.get_mut(tuple as usize) else {
            return;
        };
        *group.ranks.entry(rank).or_insert(0) += 1;
        self.reorder(tuple);
        self.cache.forget();
        self.way = self.way();
        if self.way == Way::Cached {
            self.cache.reserve(self.live);
        }
    }

    fn tuple_for(&mut self, mask: Box<[u64]>, exact: bool) -> u32 {
        if let Some(tuple) = self.by_mask.get(&mask) {
            return *tuple;
        }
        let tuple = Tuple {
            mask: mask.clone(),
            exact,
            heads: Buckets::new(self.words, self.seed, !exact),
            ranged: 0,
            ranks: BTreeMap::new(),
            best: i32::MIN,
        };
        let index = if let Some(index) = self.free.pop() {
            self.tuples[index as usize] = tuple;
            index
        } else {
            self.tuples.push(tuple);
            u32::try_from(self.tuples.len() - 1).unwrap_or(NONE)
        };
        self.cache.add_relevant(&mask);
        self.by_mask.insert(mask, index);
        index
    }

    /// Adds a slot to the chain of its key, after those of equal rank.
    fn link(&mut self, slot: u32, tuple: u32, rank: i32) {
        let Self {
            words,
            tuples,
            keys,
            nodes,
            ranged,
            ..
        } = self;
        let Some(tuple) = tuples.get_mut(tuple as usize) else {
            return;
        };
        let has_ranges = !nodes[slot as usize].ranges.is_empty();
        tuple.ranged += u32::from(has_ranges);
        *ranged += usize::from(has_ranges);
        let key = key_at(keys, *words, slot);
        let old = tuple.heads.get(key);
        let first = old.filter(|head| head.rank >= rank);
        let Some(first) = first else {
            nodes[slot as usize].next = old.map_or(NONE, |head| head.slot);
            tuple.heads.set(key, Head { slot, rank });
            return;
        };
        let mut before = first.slot;
        loop {
            let next = nodes[before as usize].next;
            if next == NONE || nodes[next as usize].rank < rank {
                nodes[slot as usize].next = next;
                nodes[before as usize].next = slot;
                return;
            }
            before = next;
        }
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let Some(node) = self.nodes.get(slot as usize).cloned() else {
            return;
        };
        let Self {
            words,
            tuples,
            keys,
            nodes,
            ranged,
            ..
        } = self;
        let Some(tuple) = tuples.get_mut(node.tuple as usize) else {
            return;
        };
        tuple.ranged -= u32::from(!node.ranges.is_empty());
        *ranged -= usize::from(!node.ranges.is_empty());
        let key = key_at(keys, *words, slot);
        if let Some(head) = tuple.heads.get(key) {
            if head.slot != slot {
                let mut before = head.slot;
                while before != NONE && nodes[before as usize].next != slot {
                    before = nodes[before as usize].next;
                }
                if before != NONE {
                    nodes[before as usize].next = node.next;
                }
            } else if let Some(next) = nodes.get(node.next as usize) {
                let head = Head {
                    slot: node.next,
                    rank: next.rank,
                };
                tuple.heads.set(key, head);
            } else {
                tuple.heads.remove(key);
            }
        }
        if let Some(count) = tuple.ranks.get_mut(&node.rank) {
            *count -= 1;
            if *count == 0 {
                tuple.ranks.remove(&node.rank);
            }
        }
        self.nodes[slot as usize] = Node::default();
        self.live -= 1;
        self.few.remove(slot, self.live);
        self.reorder(node.tuple);
        self.cache.forget();
        self.way = self.way();
    }

    /// Restores the order after the ranks of a tuple changed; an empty tuple is removed.
    fn reorder(&mut self, index: u32) {
        let Some(tuple) = self.tuples.get_mut(index as usize) else {
            return;
        };
        let best = tuple.ranks.last_key_value().map(|(rank, _)| *rank);
        if best == Some(tuple.best) && tuple.ranks.len() > 1 {
            return;
        }
        let position = self.order.iter().position(|r| r.tuple == index);
        match best {
            Some(best) if position.is_some() && tuple.best == best => {}
            Some(best) => {
                tuple.best = best;
                if let Some(position) = position {
                    self.order.remove(position);
                }
                let at = self.order.partition_point(|ranked| ranked.best >= best);
                self.order.insert(at, Ranked { best, tuple: index });
            }
            None => {
                let mask = std::mem::take(&mut tuple.mask);
                tuple.best = i32::MIN;
                self.by_mask.remove(&mask);
                if let Some(position) = position {
                    self.order.remove(position);
                }
                self.free.push(index);
                self.look_again();
            }
        }
    }

    /// After the removal of a mask: recomputes the relevant bits from the masks that are left.
    fn look_again(&mut self) {
        self.cache.clear_relevant();
        self.cache.add_relevant(&self.ranged_bits);
        for ranked in &self.order {
            if let Some(tuple) = self.tuples.get(ranked.tuple as usize) {
                self.cache.add_relevant(&tuple.mask);
            }
        }
    }
}
