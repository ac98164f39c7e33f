// SPDX-License-Identifier: Apache-2.0
//! `ActionProfileMember`, `ActionProfileGroup` and one-shot action sets (specification section "ActionProfileMember &
//! ActionProfileGroup").

mod one_shot;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tonic::Code;
use weir_dataplane::{EntryHandle, GroupMember, MemberGroup, Port, Switch, TableId};
use weir_p4runtime::p4::v1;
use weir_p4runtime::p4::v1::action_profile_group::member::WatchKind;

use super::action::direct_action;
use super::bytestring::{canonical, to_u32};
use super::failure::Failure;
use super::pipeline::{Pipeline, ProfileView};
use super::write::Operation;
use super::{Node, parts};
pub use one_shot::OneShot;

/// A member of a group or set, with the port that it watches.
#[derive(Debug, Clone, Copy)]
struct Watched {
    member: GroupMember,
    port: Option<Port>,
}

/// The members of a group or set, with all ports up.
#[derive(Debug, Clone, Default)]
struct Spread {
    members: Vec<Watched>,
    first: Option<weir_dataplane::ActionCall>,
    random: bool,
}

impl Spread {
    /// The group for the dataplane: without the members whose port is down.
    fn live(&self, down: &BTreeSet<Port>) -> MemberGroup {
        let up = |m: &&Watched| m.port.is_none_or(|port| !down.contains(&port));
        MemberGroup {
            members: self.members.iter().filter(up).map(|m| m.member).collect(),
            first: self.first.clone(),
            random: self.random,
        }
    }

    fn watches(&self, port: Port) -> bool {
        self.members.iter().any(|m| m.port == Some(port))
    }

    fn weight(&self) -> u64 {
        self.members
            .iter()
            .map(|m| u64::from(m.member.weight))
            .sum()
    }
}

#[derive(Debug)]
struct Group {
    entry: v1::ActionProfileGroup,
    spread: Spread,
}

/// The action profile objects that controllers wrote; keys are (P4Info id of the profile, id).
#[derive(Debug, Default)]
pub struct Profiles {
    members: BTreeMap<(u32, u32), v1::ActionProfileMember>,
    groups: BTreeMap<(u32, u32), Group>,
    one_shots: HashMap<(TableId, EntryHandle), OneShot>,
    last_id: u64,
    pub(super) ports_down: BTreeSet<Port>,
}

fn range(profile: u32) -> std::ops::RangeInclusive<(u32, u32)> {
    (profile, 0)..=(profile, u32::MAX)
}

/// The weight to use, checked against the profile's rules.
fn weight(view: &ProfileView, given: i32, place: &str) -> Result<u32, Failure> {
    if view.weights_disallowed {
        if given == 0 {
            return Ok(1);
        }
        return Err(Failure::invalid(format!(
            "{place}: weight {given} must be 0, the selector sets the weights itself"
        )));
    }
    let weight = u32::try_from(given).ok().filter(|weight| *weight > 0);
    let weight = weight
        .ok_or_else(|| Failure::invalid(format!("{place}: weight {given} must be at least 1")))?;
    match view.sum_of_members {
        Some(most) if most > 0 && u64::from(weight) > most => Err(Failure::invalid(format!(
            "{place}: weight {weight} is above the largest one, {most}"
        ))),
        _ => Ok(weight),
    }
}

impl Profiles {
    /// Removes everything except the state of ports.
    pub fn forget(&mut self) {
        let ports_down = std::mem::take(&mut self.ports_down);
        *self = Self {
            ports_down,
            ..Self::default()
        };
    }

    /// The set that an entry was written with.
    pub fn one_shot(&self, table: TableId, handle: EntryHandle) -> Option<&OneShot> {
        self.one_shots.get(&(table, handle))
    }

    /// The members of a profile (0: of all), or the one with this id (0: all).
    pub fn members(&self, profile: u32, id: u32) -> impl Iterator<Item = &v1::ActionProfileMember> {
        self.members
            .iter()
            .filter(move |((p, m), _)| (profile == 0 || profile == *p) && (id == 0 || id == *m))
            .map(|(_, member)| member)
    }

    /// The groups of a profile (0: of all), or the one with this id (0: all).
    pub fn groups(&self, profile: u32, id: u32) -> impl Iterator<Item = &v1::ActionProfileGroup> {
        self.groups
            .iter()
            .filter(move |((p, g), _)| (profile == 0 || profile == *p) && (id == 0 || id == *g))
            .map(|(_, group)| &group.entry)
    }

    /// Refuses members and groups for a profile that has one-shot sets: a profile is programmed either way, not both.
    fn refuse_one_shot_mix(&self, view: &ProfileView) -> Result<(), Failure> {
        if self.one_shots.values().any(|o| o.profile == view.p4info_id) {
            return Err(Failure::invalid(format!(
                "action profile {}: it is programmed with one-shot action sets, so not with members and groups",
                view.name
            )));
        }
        Ok(())
    }

    /// Sum of the sizes of all groups and sets except the group `but`.
    fn used(&self, view: &ProfileView, but: Option<u32>) -> u64 {
        let groups = self.groups.range(range(view.p4info_id));
        let groups = groups.filter(|((_, id), _)| Some(*id) != but);
        let sets = self.one_shots.values();
        let sets = sets.filter(|o| o.profile == view.p4info_id);
        let spreads = groups
            .map(|(_, g)| &g.spread)
            .chain(sets.map(|o| &o.spread));
        spreads.map(|spread| size_of(view, spread)).sum()
    }
}

/// The size of a group, by the selector's size semantics.
fn size_of(view: &ProfileView, spread: &Spread) -> u64 {
    match view.sum_of_members {
        Some(_) => spread.members.len() as u64,
        None => spread.weight(),
    }
}

fn exhausted(message: String) -> Failure {
    Failure::new(Code::ResourceExhausted, message)
}

impl Node {
    pub(super) fn write_member(
        &mut self,
        operation: Operation,
        entry: &v1::ActionProfileMember,
    ) -> Result<(), Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        let view = pipeline.profile(entry.action_profile_id)?;
        let place = format!("action profile {}: member {}", view.name, entry.member_id);
        if entry.member_id == 0 {
            return Err(Failure::invalid(format!(
                "{place}: member_id must not be 0"
            )));
        }
        let id = u64::from(entry.member_id);
        let key = (entry.action_profile_id, entry.member_id);
        if operation == Operation::Delete {
            switch.delete_member(view.id, id)?;
            self.profiles.members.remove(&key);
            return Ok(());
        }
        self.profiles.refuse_one_shot_mix(view)?;
        let Some(action) = &entry.action else {
            return Err(Failure::invalid(format!("{place}: the action is missing")));
        };
        let (call, action) = profile_action(pipeline, view, action)?;
        if operation == Operation::Insert {
            switch.insert_member(view.id, id, &call)?;
        } else {
            switch.modify_member(view.id, id, &call)?;
        }
        let written = v1::ActionProfileMember {
            action: Some(action),
            ..entry.clone()
        };
        self.profiles.members.insert(key, written);
        Ok(())
    }

    pub(super) fn write_member_group(
        &mut self,
        operation: Operation,
        entry: &v1::ActionProfileGroup,
    ) -> Result<(), Failure> {
        parts(&self.pipeline, &mut self.switch)?;
        let view = self.pipeline_ref()?.profile(entry.action_profile_id)?;
        let place = format!("action profile {}: group {}", view.name, entry.group_id);
        if entry.group_id == 0 {
            return Err(Failure::invalid(format!("{place}: group_id must not be 0")));
        }
        let key = (entry.action_profile_id, entry.group_id);
        let id = u64::from(entry.group_id);
        if operation == Operation::Delete {
            let profile = view.id;
            let (_, switch) = parts(&self.pipeline, &mut self.switch)?;
            switch.delete_group(profile, id)?;
            self.profiles.groups.remove(&key);
            return Ok(());
        }
        self.profiles.refuse_one_shot_mix(view)?;
        if !view.selector {
            let name = &view.name;
            return Err(Failure::invalid(format!(
                "action profile {name}: it has no selector, so no groups"
            )));
        }
        let mut written = entry.clone();
        let spread = self.spread_of(view, &mut written, &place)?;
        self.check_group_size(view, entry, &spread, operation, &place)?;
        let live = spread.live(&self.profiles.ports_down);
        let profile = view.id;
        let (_, switch) = parts(&self.pipeline, &mut self.switch)?;
        if operation == Operation::Insert {
            switch.insert_group(profile, id, &live)?;
        } else {
            switch.modify_group(profile, id, &live)?;
        }
        let group = Group {
            entry: written,
            spread,
        };
        self.profiles.groups.insert(key, group);
        Ok(())
    }

    /// Checks the members of a group; makes the ports in the message canonical.
    fn spread_of(
        &self,
        view: &ProfileView,
        entry: &mut v1::ActionProfileGroup,
        place: &str,
    ) -> Result<Spread, Failure> {
        let mut seen = BTreeSet::new();
        let mut members = Vec::with_capacity(entry.members.len());
        for member in &mut entry.members {
            let place = format!("{place}: member {}", member.member_id);
            if !seen.insert(member.member_id) {
                return Err(Failure::invalid(format!("{place}: given twice")));
            }
            let key = (view.p4info_id, member.member_id);
            if !self.profiles.members.contains_key(&key) {
                return Err(Failure::not_found(format!("{place}: it does not exist")));
            }
            let port = match &mut member.watch_kind {
                None => None,
                Some(WatchKind::WatchPort(port)) => self.watch_port(port, &place)?,
                Some(WatchKind::Watch(_)) => return Err(old_watch(&place)),
            };
            let weight = weight(view, member.weight, &place)?;
            let member = GroupMember {
                member: u64::from(member.member_id),
                weight,
            };
            members.push(Watched { member, port });
        }
        Ok(Spread {
            members,
            ..Spread::default()
        })
    }

    fn watch_port(&self, port: &mut Vec<u8>, place: &str) -> Result<Option<Port>, Failure> {
        if port.is_empty() {
            return Ok(None);
        }
        let number = to_u32(port, || format!("{place}: watch_port"))?;
        self.require_port(number, place)?;
        *port = canonical(port);
        Ok(Some(number))
    }

    /// Checks a group's size (specification "Rules on Setting `max_size`") and the selector's.
    fn check_group_size(
        &self,
        view: &ProfileView,
        entry: &v1::ActionProfileGroup,
        spread: &Spread,
        operation: Operation,
        place: &str,
    ) -> Result<(), Failure> {
        let max_size = u64::try_from(entry.max_size).map_err(|_| {
            Failure::invalid(format!("{place}: max_size {} is negative", entry.max_size))
        })?;
        if view.max_group_size > 0 && !(1..=view.max_group_size).contains(&max_size) {
            return Err(Failure::invalid(format!(
                "{place}: max_size {max_size} is not between 1 and {}, the P4Info's max_group_size",
                view.max_group_size
            )));
        }
        let before = self
            .profiles
            .groups
            .get(&(view.p4info_id, entry.group_id))
            .map(|g| g.entry.max_size);
        if operation == Operation::Modify
            && let Some(before) = before
            && before != entry.max_size
        {
            return Err(Failure::invalid(format!(
                "{place}: max_size {max_size} cannot be changed, it was inserted with {before}"
            )));
        }
        let size = size_of(view, spread);
        if max_size > 0 && size > max_size {
            return Err(exhausted(format!(
                "{place}: a size of {size} is above its max_size of {max_size}"
            )));
        }
        self.check_selector_size(view, Some(entry.group_id), size, place)
    }

    fn check_selector_size(
        &self,
        view: &ProfileView,
        but: Option<u32>,
        size: u64,
        place: &str,
    ) -> Result<(), Failure> {
        let others = if view.size > 0 {
            self.profiles.used(view, but)
        } else {
            0
        };
        if view.size > 0 && others + size > view.size {
            return Err(exhausted(format!(
                "{place}: a size of {size}, with {others} in other groups, is above the selector's {}",
                view.size
            )));
        }
        Ok(())
    }

    /// Updates the groups and sets that watch a port after it came up or went down.
    pub(super) fn refresh_watching(&mut self, port: Port) -> Result<(), Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        let down = &self.profiles.ports_down;
        for ((profile, id), group) in &self.profiles.groups {
            if group.spread.watches(port) {
                let id = u64::from(*id);
                refresh(pipeline, switch, *profile, id, &group.spread.live(down))?;
            }
        }
        for one_shot in self.profiles.one_shots.values() {
            if one_shot.spread.watches(port) {
                let live = one_shot.spread.live(down);
                refresh(pipeline, switch, one_shot.profile, one_shot.group, &live)?;
            }
        }
        Ok(())
    }
}

fn refresh(
    pipeline: &Pipeline,
    switch: &mut Switch,
    profile: u32,
    id: u64,
    group: &MemberGroup,
) -> Result<(), Failure> {
    Ok(switch.modify_group(pipeline.profile(profile)?.id, id, group)?)
}

/// The dataplane's call of an action of a profile, and the action in canonical form.
fn profile_action(
    pipeline: &Pipeline,
    view: &ProfileView,
    action: &v1::Action,
) -> Result<(weir_dataplane::ActionCall, v1::Action), Failure> {
    // All tables of a profile have the same actions.
    let Some(table) = view.tables.first().and_then(|id| pipeline.tables.get(id)) else {
        return Err(Failure::invalid(format!(
            "action profile {}: no table uses it",
            view.name
        )));
    };
    let call = direct_action(pipeline, table, action, |reference| reference.in_entries)?;
    let mut action = action.clone();
    for param in &mut action.params {
        param.value = canonical(&param.value);
    }
    Ok((call, action))
}

fn old_watch(place: &str) -> Failure {
    Failure::unimplemented(format!("{place}: watch, which watch_port has replaced,"))
}
