// SPDX-License-Identifier: Apache-2.0
//! Action profiles: the members that entries of indirect tables point to, and groups of them.

use std::collections::HashMap;

/// A member as tables run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// The action's index in the list of each table that uses the profile, in the order of the profile's tables.
    pub actions: Box<[u16]>,
    pub args: Box<[u64]>,
}

#[derive(Debug)]
struct Member {
    id: u64,
    call: Call,
    /// Entries and groups that point here.
    references: u32,
}

#[derive(Debug)]
struct Group {
    id: u64,
    /// Runs before the selected member.
    first: Option<Call>,
    /// Selected at random, not by the profile's hash.
    random: bool,
    /// Slots of members with the sum of the weights up to and including each, ascending by member id.
    members: Vec<(u32, u64)>,
    references: u32,
}

/// Items by id, which the control plane uses, and by slot, which packets use.
#[derive(Debug)]
struct Slots<T> {
    by_id: HashMap<u64, u32>,
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            by_id: HashMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    fn slot(&self, id: u64) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.as_ref()
    }

    fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    fn insert(&mut self, id: u64, item: T) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(vacant) = self.slots.get_mut(slot as usize) {
            *vacant = Some(item);
            self.by_id.insert(id, slot);
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(slot) = self.by_id.remove(&id)
            && let Some(occupied) = self.slots.get_mut(slot as usize)
        {
            *occupied = None;
            self.free.push(slot);
        }
    }
}

/// The member or group, by slot, that an entry of an indirect table points to: the entry's only argument word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pointer {
    Member(u32),
    Group(u32),
}

impl Pointer {
    pub(crate) fn to_word(self) -> u64 {
        match self {
            Self::Member(slot) => u64::from(slot),
            Self::Group(slot) => u64::from(slot) | 1 << 32,
        }
    }

    pub(crate) fn from_word(word: u64) -> Self {
        let slot = u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        if word >> 32 == 0 {
            Self::Member(slot)
        } else {
            Self::Group(slot)
        }
    }
}

/// The members and groups of one profile.
#[derive(Debug, Default)]
pub(crate) struct ProfileState {
    members: Slots<Member>,
    groups: Slots<Group>,
}

impl ProfileState {
    pub(crate) fn member_count(&self) -> usize {
        self.members.by_id.len()
    }

    pub(crate) fn member(&self, id: u64) -> Option<u32> {
        self.members.slot(id)
    }

    pub(crate) fn group(&self, id: u64) -> Option<u32> {
        self.groups.slot(id)
    }

    /// Id of the member or group.
    pub(crate) fn id_of(&self, pointer: Pointer) -> Option<u64> {
        match pointer {
            Pointer::Member(slot) => self.members.get(slot).map(|m| m.id),
            Pointer::Group(slot) => self.groups.get(slot).map(|g| g.id),
        }
    }

    /// Entries and groups that point to it; 0 when it does not exist.
    pub(crate) fn references(&self, pointer: Pointer) -> u32 {
        match pointer {
            Pointer::Member(slot) => self.members.get(slot).map_or(0, |m| m.references),
            Pointer::Group(slot) => self.groups.get(slot).map_or(0, |g| g.references),
        }
    }

    /// Counts an entry that now points here.
    pub(crate) fn acquire(&mut self, pointer: Pointer) {
        match pointer {
            Pointer::Member(slot) => self.members.get_mut(slot).map(|m| m.references += 1),
            Pointer::Group(slot) => self.groups.get_mut(slot).map(|g| g.references += 1),
        };
    }

    /// Counts an entry that no longer points here.
    pub(crate) fn release(&mut self, pointer: Pointer) {
        match pointer {
            Pointer::Member(slot) => self.members.get_mut(slot).map(|m| m.references -= 1),
            Pointer::Group(slot) => self.groups.get_mut(slot).map(|g| g.references -= 1),
        };
    }

    /// Creates a member, or replaces the call of an existing one.
    pub(crate) fn put_member(&mut self, id: u64, call: Call) {
        if let Some(member) = self
            .members
            .slot(id)
            .and_then(|slot| self.members.get_mut(slot))
        {
            member.call = call;
            return;
        }
        let member = Member {
            id,
            call,
            references: 0,
        };
        self.members.insert(id, member);
    }

    pub(crate) fn delete_member(&mut self, id: u64) {
        self.members.remove(id);
    }

    /// Creates or replaces a group; `members` are slots of existing members with their weights.
    pub(crate) fn put_group(
        &mut self,
        id: u64,
        first: Option<Call>,
        random: bool,
        mut members: Vec<(u32, u64)>,
    ) {
        members.sort_by_key(|(slot, _)| self.members.get(*slot).map(|m| m.id));
        let mut sum = 0_u64;
        for (slot, weight) in &mut members {
            self.acquire(Pointer::Member(*slot));
            sum = sum.saturating_add(*weight);
            *weight = sum;
        }
        let existing = self.groups.slot(id);
        if let Some(group) = existing.and_then(|slot| self.groups.get_mut(slot)) {
            group.first = first;
            group.random = random;
            let before = std::mem::replace(&mut group.members, members);
            self.release_members(&before);
            return;
        }
        let group = Group {
            id,
            first,
            random,
            members,
            references: 0,
        };
        self.groups.insert(id, group);
    }

    pub(crate) fn delete_group(&mut self, id: u64) {
        let slot = self.groups.slot(id);
        if let Some(group) = slot.and_then(|slot| self.groups.get_mut(slot)) {
            let members = std::mem::take(&mut group.members);
            self.release_members(&members);
        }
        self.groups.remove(id);
    }

    fn release_members(&mut self, members: &[(u32, u64)]) {
        for (slot, _) in members {
            self.release(Pointer::Member(*slot));
        }
    }

    /// The calls of an entry: the group's own action, and the selected member. `select` returns the number that selects
    /// the member, given whether the selection is random.
    pub(crate) fn resolve(
        &self,
        pointer: Pointer,
        select: impl FnOnce(bool) -> u64,
    ) -> (Option<&Call>, Option<&Call>) {
        let group = match pointer {
            Pointer::Member(slot) => return (None, self.members.get(slot).map(|m| &m.call)),
            Pointer::Group(slot) => self.groups.get(slot),
        };
        let Some(group) = group else {
            return (None, None);
        };
        // simple_switch takes the member number `hash % count`, ascending by id; weights repeat a member.
        let total = group.members.last().map_or(0, |(_, sum)| *sum);
        let member = (total > 0).then(|| {
            let number = select(group.random) % total;
            let at = group.members.partition_point(|(_, sum)| *sum <= number);
            let slot = group.members.get(at).map(|(slot, _)| *slot);
            slot.and_then(|slot| self.members.get(slot))
        });
        (
            group.first.as_ref(),
            member.flatten().map(|member| &member.call),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arg: u64) -> Call {
        Call {
            actions: Box::new([0]),
            args: Box::new([arg]),
        }
    }

    #[test]
    fn a_group_repeats_its_members_by_weight_in_the_order_of_their_ids() {
        let mut state = ProfileState::default();
        for id in [7, 3, 5] {
            state.put_member(id, call(id));
        }
        let weighted = |state: &ProfileState, id, weight| (state.member(id).unwrap(), weight);
        let members = vec![
            weighted(&state, 7, 1),
            weighted(&state, 3, 2),
            weighted(&state, 5, 1),
        ];
        state.put_group(9, None, false, members);
        let group = Pointer::Group(state.group(9).unwrap());
        let picked: Vec<u64> = (0..8)
            .map(|hash| state.resolve(group, |_| hash).1.unwrap().args[0])
            .collect();
        assert_eq!(picked, [3, 3, 5, 7, 3, 3, 5, 7]);
    }

    #[test]
    fn an_empty_group_selects_nothing() {
        let mut state = ProfileState::default();
        state.put_group(1, Some(call(4)), false, Vec::new());
        let group = Pointer::Group(state.group(1).unwrap());
        assert_eq!(state.resolve(group, |_| 5), (Some(&call(4)), None));
    }

    #[test]
    fn replacing_a_group_releases_the_members_that_left_it() {
        let mut state = ProfileState::default();
        state.put_member(1, call(1));
        state.put_member(2, call(2));
        let (one, two) = (state.member(1).unwrap(), state.member(2).unwrap());
        state.put_group(1, None, false, vec![(one, 1)]);
        state.put_group(1, None, false, vec![(one, 1), (two, 1)]);
        state.put_group(1, None, false, vec![(two, 1)]);
        assert_eq!(state.references(Pointer::Member(one)), 0);
        assert_eq!(state.references(Pointer::Member(two)), 1);
        state.delete_group(1);
        assert_eq!(state.references(Pointer::Member(two)), 0);
    }
}
