// SPDX-License-Identifier: Apache-2.0
//! A table's entries and their lookup.
//!
//! `key` turns match fields into packed words and back; `tuple` finds the slot of a packed key, with the help of `few`
//! or `cache`; this module has the entries by slot.

mod bound;
mod buckets;
mod cache;
mod few;
pub(crate) mod idle;
pub(crate) mod key;
pub(crate) mod profile;
mod tuple;

use crate::control::CounterValue;
use crate::ir::{Action, AnyField, KeyPart, Slot, Table};
use crate::memory;
use crate::meter::CountedMeter;
use crate::packet::phv::{get, load_bits, load_wide_at, low_mask};
pub(crate) use bound::{BoundAction, INLINE};
use idle::IdleTimers;
use key::PackedKey;
use tuple::TupleSpace;
pub(crate) use tuple::Way;

/// An entry without its key: one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Entry {
    pub action: BoundAction,
    pub priority: i32,
    pub direct: Direct,
}

const _: () = assert!(size_of::<Option<Entry>>() == 64);

/// The direct counter and meter of an entry.
#[derive(Debug, Default)]
pub(crate) struct Direct {
    pub counter: CounterValue,
    /// Some if the table has a direct meter.
    pub meter: Option<Box<CountedMeter>>,
}

/// The mutable part of a table.
#[derive(Debug)]
pub(crate) struct TableState {
    entries: Vec<Option<Entry>>,
    /// Per entry its age, for listing oldest first.
    ages: Vec<u64>,
    free: Vec<u32>,
    live: usize,
    sequence: u64,
    index: TupleSpace,
    default: Option<BoundAction>,
    /// The default entry's.
    pub default_direct: Direct,
    /// Only for a table with idle timeouts.
    idle: Option<Box<IdleTimers>>,
    with_meter: bool,
    scratch: Vec<u64>,
    /// The words of each action's arguments; none for a table with an action profile.
    arg_words: Box<[u16]>,
    /// The key's parts, if each is narrow and unmasked.
    parts: Box<[PackStep]>,
}

/// A narrow part of a key: field, word of the key, shift in it, validity of the field's header.
#[derive(Debug, Clone, Copy)]
struct PackStep {
    slot: Slot,
    word: u8,
    shift: u8,
    valid: Option<Slot>,
}

/// None: some part is wide or masked, or the key is long.
fn pack_steps(spec: &Table) -> Option<Box<[PackStep]>> {
    let step = |part: &KeyPart| match part.field {
        AnyField::Narrow(field) if part.mask.is_none() => Some(PackStep {
            slot: Slot::new(field, 0)?,
            word: u8::try_from(part.word).ok().filter(|w| *w < 3)?,
            shift: part.shift,
            valid: match part.valid {
                Some(valid) => Some(Slot::new(valid, 0)?),
                None => None,
            },
        }),
        _ => None,
    };
    spec.key.iter().map(step).collect()
}

/// Packs a key of `N` words.
#[inline(always)]
fn pack_narrow<const N: usize>(steps: &[PackStep], phv: &[u8]) -> [u64; N] {
    let mut out = [0; N];
    for step in steps {
        if step.valid.is_some_and(|valid| get(phv, valid) == 0) {
            continue;
        }
        let value = get(phv, step.slot) << (step.shift & 63);
        if let Some(word) = out.get_mut(usize::from(step.word)) {
            *word |= value;
        }
    }
    out
}

/// Packs the key fields of a packet; `out` has the table's number of words.
#[inline]
fn pack(spec: &Table, phv: &[u8], out: &mut [u64]) {
    out.fill(0);
    for part in &spec.key {
        if !is_valid(part, phv) {
            continue;
        }
        match part.field {
            AnyField::Narrow(field) => {
                let mut value = load_bits(phv, field);
                if let Some(mask) = &part.mask {
                    value &= mask.first().copied().unwrap_or(u64::MAX);
                }
                if let Some(word) = out.get_mut(usize::from(part.word)) {
                    *word |= value << part.shift;
                }
            }
            AnyField::Wide(field) => pack_wide(phv, field, part, out),
        }
    }
}

/// Whether the header of a key's field is valid; true for metadata.
pub(crate) fn is_valid(part: &KeyPart, phv: &[u8]) -> bool {
    part.valid.is_none_or(|valid| load_bits(phv, valid) != 0)
}

fn pack_wide(phv: &[u8], field: crate::ir::WideField, part: &crate::ir::KeyPart, out: &mut [u64]) {
    let mut done = 0;
    while done < field.width {
        let take = (field.width - done).min(64);
        let bit = field.bit_offset + field.width - done - take;
        let mut value = load_wide_at::<3>(phv, bit, take).low() & low_mask(take);
        if let Some(mask) = &part.mask {
            value &= mask.get((done / 64) as usize).copied().unwrap_or(0);
        }
        if let Some(word) = out.get_mut(usize::from(part.word) + (done / 64) as usize) {
            *word = value;
        }
        done += take;
    }
}

impl Direct {
    fn new(with_meter: bool) -> Self {
        Self {
            counter: CounterValue::default(),
            meter: with_meter.then(Box::default),
        }
    }
}

impl TableState {
    /// Offset in bytes of the [`Way`] in which lookups search.
    pub(crate) const WAY: usize =
        std::mem::offset_of!(Self, index) + std::mem::offset_of!(TupleSpace, way);

    pub(crate) fn new(spec: &Table, actions: &[Action], seed: u64) -> Self {
        let words = |action: &u16| actions.get(usize::from(*action)).map_or(0, |a| a.arg_words);
        let mut state = Self {
            entries: Vec::new(),
            ages: Vec::new(),
            free: Vec::new(),
            live: 0,
            sequence: 0,
            index: TupleSpace::new(usize::from(spec.key_words), seed),
            default: None,
            default_direct: Direct::new(spec.direct_meter.is_some()),
            idle: spec.support_timeout.then(Box::default),
            with_meter: spec.direct_meter.is_some(),
            scratch: vec![0; usize::from(spec.key_words)],
            arg_words: match spec.profile {
                None => spec.actions.iter().map(words).collect(),
                Some(_) => Box::default(),
            },
            parts: pack_steps(spec).unwrap_or_default(),
        };
        let default = spec.default.as_ref();
        state.set_default(default.map(|(action, args)| (*action, args.clone().into())));
        state
    }

    /// The action, with exactly the words of its arguments: the machine code relies on that.
    fn bind(&self, (local, args): (u16, Box<[u64]>)) -> BoundAction {
        let Some(words) = self.arg_words.get(usize::from(local)) else {
            return BoundAction::new(local, args);
        };
        let mut args = args.into_vec();
        args.resize(usize::from(*words), 0);
        BoundAction::new(local, args.into())
    }

    /// Replaces the default action.
    pub(crate) fn set_default(&mut self, action: Option<(u16, Box<[u64]>)>) {
        self.default = action.map(|action| self.bind(action));
    }

    /// Replaces the action of an entry.
    pub(crate) fn replace(&mut self, slot: u32, action: (u16, Box<[u64]>)) {
        let action = self.bind(action);
        if let Some(entry) = self.entry_mut(slot) {
            entry.action = action;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The best entry for a packet.
    #[inline(always)]
    pub(crate) fn lookup(&mut self, spec: &Table, phv: &[u8]) -> Option<u32> {
        if self.live == 0 {
            return None;
        }
        self.lookup_fields(spec, phv)
    }

    #[inline(never)]
    fn lookup_fields(&mut self, spec: &Table, phv: &[u8]) -> Option<u32> {
        match (&*self.parts, self.scratch.len()) {
            ([], _) => {}
            (parts, 1) => return self.lookup_key(&pack_narrow::<1>(parts, phv)),
            (parts, 2) => return self.lookup_key(&pack_narrow::<2>(parts, phv)),
            (parts, 3) => return self.lookup_key(&pack_narrow::<3>(parts, phv)),
            _ => {}
        }
        pack(spec, phv, &mut self.scratch);
        self.index.lookup(&self.scratch)
    }

    /// The best entry for a packed key of the table's number of words.
    #[inline]
    pub(crate) fn lookup_key<const N: usize>(&mut self, key: &[u64; N]) -> Option<u32> {
        self.index.lookup(key)
    }

    /// As [`Self::lookup_key`], of any number of words.
    #[inline]
    pub(crate) fn lookup_packed(&mut self, key: &[u64]) -> Option<u32> {
        if self.live == 0 {
            return None;
        }
        self.index.lookup(key)
    }

    /// As [`Self::lookup_packed`], for a key of `N` words and [`Way::Few`].
    #[inline(always)]
    pub(crate) fn lookup_few<const N: usize>(&self, key: &[u64; N]) -> Option<u32> {
        self.index.lookup_few(key)
    }

    /// As [`Self::lookup_packed`], for a key of `N` words and [`Way::FewRanged`].
    #[inline(always)]
    pub(crate) fn lookup_few_ranged<const N: usize>(&self, key: &[u64; N]) -> Option<u32> {
        self.index.lookup_few_ranged(key)
    }

    /// As [`Self::lookup_packed`], for a key of `N` words and [`Way::Exact`].
    #[inline(always)]
    pub(crate) fn lookup_exact<const N: usize>(&self, key: &[u64; N]) -> Option<u32> {
        self.index.lookup_exact(key)
    }

    /// As [`Self::lookup_packed`], for a key of `N` words and [`Way::Search`].
    #[inline(always)]
    pub(crate) fn search<const N: usize>(&self, key: &[u64; N]) -> Option<u32> {
        self.index.search(key)
    }

    /// As [`Self::lookup_packed`], for a key of `N` words and [`Way::Cached`].
    #[inline(always)]
    pub(crate) fn lookup_cached<const N: usize>(&mut self, key: &[u64; N]) -> Option<u32> {
        self.index.lookup_cached(key)
    }

    /// Words of a packed key.
    pub(crate) fn key_words(&self) -> usize {
        self.scratch.len()
    }

    /// The action of an entry, or the default.
    #[inline(always)]
    pub(crate) fn action_of(&self, slot: Option<u32>) -> Option<&BoundAction> {
        match slot {
            Some(slot) => self.entry(slot).map(|entry| &entry.action),
            None => self.default.as_ref(),
        }
    }

    /// The direct counter and meter of an entry, or of the default entry.
    #[inline]
    pub(crate) fn direct_mut(&mut self, slot: Option<u32>) -> Option<&mut Direct> {
        match slot {
            Some(slot) => self.entry_mut(slot).map(|e| &mut e.direct),
            None => Some(&mut self.default_direct),
        }
    }

    /// Records a hit of an entry in a table with idle timeouts.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32, now_ns: u64) {
        if let Some(idle) = &mut self.idle {
            idle.hit(slot, now_ns);
        }
    }

    pub(crate) fn idle(&self) -> Option<&IdleTimers> {
        self.idle.as_deref()
    }

    pub(crate) fn idle_mut(&mut self) -> Option<&mut IdleTimers> {
        self.idle.as_deref_mut()
    }

    #[inline]
    pub(crate) fn entry(&self, slot: u32) -> Option<&Entry> {
        self.entries.get(slot as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    /// The slot of this key and priority.
    pub(crate) fn find(&self, key: &PackedKey, priority: i32) -> Option<u32> {
        self.index.find(key, priority)
    }

    /// Adds an entry that `find` does not find.
    pub(crate) fn insert(
        &mut self,
        key: PackedKey,
        rank: i32,
        priority: i32,
        action: (u16, Box<[u64]>),
    ) -> u32 {
        self.sequence += 1;
        let entry = Entry {
            action: self.bind(action),
            priority,
            direct: Direct::new(self.with_meter),
        };
        let slot = if let Some(slot) = self.free.pop() {
            slot
        } else {
            memory::push(&mut self.entries, None);
            self.ages.push(0);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        };
        if let Some(vacant) = self.entries.get_mut(slot as usize) {
            *vacant = Some(entry);
        }
        if let Some(age) = self.ages.get_mut(slot as usize) {
            *age = self.sequence;
        }
        self.live += 1;
        self.index.insert(slot, key, rank);
        slot
    }

    pub(crate) fn remove(&mut self, slot: u32) {
        if self
            .entries
            .get_mut(slot as usize)
            .and_then(Option::take)
            .is_some()
        {
            self.index.remove(slot);
            self.free.push(slot);
            if let Some(idle) = &mut self.idle {
                idle.stop(slot);
            }
            self.live -= 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.ages.clear();
        self.free.clear();
        self.live = 0;
        self.index.clear();
        if let Some(idle) = &mut self.idle {
            **idle = IdleTimers::default();
        }
    }

    /// Slots, oldest first.
    pub(crate) fn slots(&self) -> Vec<u32> {
        let mut slots: Vec<(u64, u32)> = (0..)
            .zip(self.entries.iter().zip(&self.ages))
            .filter_map(|(slot, (entry, age))| entry.as_ref().map(|_| (*age, slot)))
            .collect();
        slots.sort_unstable();
        slots.into_iter().map(|(_, slot)| slot).collect()
    }

    /// The packed key of a slot.
    pub(crate) fn key(&self, slot: u32) -> PackedKey {
        self.index.key(slot)
    }
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
