// SPDX-License-Identifier: Apache-2.0
//! bmv2's numbers for table entries: an index, the lowest free one, and the number of entries that had it before.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use weir_dataplane::{EntryHandle, Switch, TableEntry, TableId};

use crate::refusal::Table;

/// Bits of a handle that are the index; those above count the entries that had it before.
const INDEX_BITS: u32 = 24;

#[derive(Debug, Clone, Copy)]
struct Known {
    entry: EntryHandle,
    /// Of key and priority: P4Runtime may have replaced the entry by another one that has the same place.
    print: u64,
}

#[derive(Debug, Default)]
struct Slot {
    version: u8,
    known: Option<Known>,
}

/// The handles of one table's entries.
#[derive(Debug, Default)]
pub struct Handles {
    slots: Vec<Slot>,
    by_entry: HashMap<EntryHandle, u32>,
    free: BTreeSet<u32>,
}

fn print(entry: &TableEntry) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{:?}", entry.key).hash(&mut hasher);
    entry.priority.hash(&mut hasher);
    hasher.finish()
}

fn number(index: u32, version: u8) -> i32 {
    (index | u32::from(version) << INDEX_BITS).cast_signed()
}

impl Handles {
    /// The handle for a new entry.
    pub fn assign(&mut self, switch: &Switch, table: TableId, entry: EntryHandle) -> i32 {
        if let Some(index) = self.by_entry.get(&entry).copied() {
            // The entry that had this place is gone.
            self.release(index);
        }
        let index = self.free.pop_first().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let print = switch.entry(table, entry).map_or(0, |entry| print(&entry));
        self.by_entry.insert(entry, index);
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return number(index, 0);
        };
        slot.known = Some(Known { entry, print });
        number(index, slot.version)
    }

    fn release(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize)
            && let Some(known) = slot.known.take()
        {
            slot.version = slot.version.wrapping_add(1);
            self.by_entry.remove(&known.entry);
            self.free.insert(index);
        }
    }

    /// Forgets the handle of an entry that was deleted.
    pub fn forget(&mut self, entry: EntryHandle) {
        if let Some(index) = self.by_entry.get(&entry).copied() {
            self.release(index);
        }
    }

    /// Gives a handle to each entry that has none, oldest first, and takes back those of entries that are gone.
    pub fn update(&mut self, switch: &Switch, table: TableId) {
        let entries = switch.entries(table).unwrap_or_default();
        let gone: Vec<u32> = (0..)
            .zip(&self.slots)
            .filter_map(|(index, slot)| Some((index, slot.known?)))
            .filter(|(_, known)| !is_same(switch, table, *known))
            .map(|(index, _)| index)
            .collect();
        for index in gone {
            self.release(index);
        }
        for entry in entries {
            if !self.by_entry.contains_key(&entry) {
                self.assign(switch, table, entry);
            }
        }
    }

    /// Gives handles to the entries beside `new` that have none.
    pub fn catch_up(&mut self, switch: &Switch, table: TableId, new: EntryHandle) {
        let others = switch.entry_count(table).unwrap_or(0).saturating_sub(1);
        let known = self.by_entry.len() - usize::from(self.by_entry.contains_key(&new));
        if known == others {
            return;
        }
        self.forget(new);
        for entry in switch.entries(table).unwrap_or_default() {
            if entry != new && !self.by_entry.contains_key(&entry) {
                self.assign(switch, table, entry);
            }
        }
    }

    /// The entry with this handle.
    pub fn entry(
        &mut self,
        switch: &Switch,
        table: TableId,
        handle: i32,
    ) -> Result<EntryHandle, Table> {
        if switch.entry_count(table) != Ok(self.by_entry.len()) {
            self.update(switch, table);
        }
        let handle = handle.cast_unsigned();
        let (index, version) = (handle & ((1 << INDEX_BITS) - 1), handle >> INDEX_BITS);
        let slot = self.slots.get(index as usize).ok_or(Table::InvalidHandle)?;
        let known = slot.known.ok_or(Table::InvalidHandle)?;
        if u32::from(slot.version) != version {
            return Err(Table::ExpiredHandle);
        }
        if !is_same(switch, table, known) {
            self.update(switch, table);
            return Err(Table::ExpiredHandle);
        }
        Ok(known.entry)
    }

    /// The handle of an entry.
    pub fn handle(&mut self, switch: &Switch, table: TableId, entry: EntryHandle) -> i32 {
        let known = self.by_entry.get(&entry).copied();
        let slot = known.and_then(|index| Some((index, self.slots.get(index as usize)?)));
        match slot {
            Some((index, slot)) => number(index, slot.version),
            None => self.assign(switch, table, entry),
        }
    }

    /// All entries with their handles, ascending by index.
    pub fn all(&mut self, switch: &Switch, table: TableId) -> Vec<(i32, EntryHandle)> {
        self.update(switch, table);
        (0..)
            .zip(&self.slots)
            .filter_map(|(index, slot)| Some((number(index, slot.version), slot.known?.entry)))
            .collect()
    }
}

fn is_same(switch: &Switch, table: TableId, known: Known) -> bool {
    let entry = switch.entry(table, known.entry);
    entry.is_ok_and(|entry| print(&entry) == known.print)
}
