// SPDX-License-Identifier: Apache-2.0
//! One-shot action sets: group and members in one table entry (specification section "One Shot Action Selector
//! Programming").

use weir_dataplane::{EntryHandle, GroupMember, ProfileTarget, TableId};
use weir_p4runtime::p4::v1;
use weir_p4runtime::p4::v1::action_profile_action::WatchKind;
use weir_p4runtime::p4::v1::action_profile_action_set::{ActionSelectionMode, SizeSemantics};

use super::{Spread, Watched, old_watch, profile_action, range, size_of, weight};
use crate::failure::Failure;
use crate::pipeline::ProfileView;
use crate::{Node, parts};

/// First dataplane id of the members and groups of one-shot sets; controllers' ids are smaller.
const FIRST_ID: u64 = 1 << 32;

/// A one-shot set: the message, and the dataplane's ids.
#[derive(Debug)]
pub struct OneShot {
    /// The message as written, with canonical byte strings.
    pub set: v1::ActionProfileActionSet,
    pub(super) profile: u32,
    pub(super) group: u64,
    pub(super) spread: Spread,
}

impl Node {
    /// Creates the members and the group of a one-shot set.
    pub(crate) fn create_one_shot(
        &mut self,
        profile: u32,
        given: &v1::ActionProfileActionSet,
        place: &str,
    ) -> Result<(OneShot, ProfileTarget), Failure> {
        let pipeline = self.pipeline_ref()?;
        let view = pipeline.profile(profile)?.clone();
        if !view.selector {
            return Err(Failure::invalid(format!(
                "{place}: action profile {} has no selector, so it takes members, not action sets",
                view.name
            )));
        }
        let mixed = self.profiles.members.range(range(profile)).next().is_some()
            || self.profiles.groups.range(range(profile)).next().is_some();
        if mixed {
            return Err(Failure::invalid(format!(
                "{place}: action profile {} is programmed with members and groups, so not with one-shot action sets",
                view.name
            )));
        }
        let mut set = given.clone();
        let random = selection_mode(&view, &set, place)?;
        if random && self.config.one_of_several {
            return Err(Failure::invalid(format!(
                "{place}: packets share the sequence of random numbers, and this switch has several forwarding threads; \
                 valid: action_selection_mode HASH, or a switch without --forward-threads"
            )));
        }
        let first = match &mut set.group_action {
            None => None,
            Some(action) => {
                let (call, written) = profile_action(pipeline, &view, action)?;
                *action = written;
                Some(call)
            }
        };
        let mut calls = Vec::with_capacity(set.action_profile_actions.len());
        let mut members = Vec::with_capacity(calls.capacity());
        let mut next = self.profiles.last_id.max(FIRST_ID);
        for (number, item) in set.action_profile_actions.iter_mut().enumerate() {
            let place = format!("{place}: action {number} of the set");
            let Some(action) = &mut item.action else {
                return Err(Failure::invalid(format!("{place}: the action is missing")));
            };
            let (call, written) = profile_action(pipeline, &view, action)?;
            *action = written;
            let port = match &mut item.watch_kind {
                None => None,
                Some(WatchKind::WatchPort(port)) => self.watch_port(port, &place)?,
                Some(WatchKind::Watch(_)) => return Err(old_watch(&place)),
            };
            let weight = weight(&view, item.weight, &place)?;
            next += 1;
            calls.push((next, call));
            let member = GroupMember {
                member: next,
                weight,
            };
            members.push(Watched { member, port });
        }
        let spread = Spread {
            members,
            first,
            random,
        };
        let size = size_of(&view, &spread);
        if view.max_group_size > 0 && size > view.max_group_size {
            return Err(Failure::invalid(format!(
                "{place}: a set of size {size} is above max_group_size {}",
                view.max_group_size
            )));
        }
        self.check_selector_size(&view, None, size, place)?;
        let group = next + 1;
        self.profiles.last_id = group;
        let live = spread.live(&self.profiles.ports_down);
        let (_, switch) = parts(&self.pipeline, &mut self.switch)?;
        for (at, (id, call)) in calls.iter().enumerate() {
            if let Err(error) = switch.insert_member(view.id, *id, call) {
                for (id, _) in &calls[..at] {
                    switch.delete_member(view.id, *id)?;
                }
                return Err(error.into());
            }
        }
        switch.insert_group(view.id, group, &live)?;
        let one_shot = OneShot {
            set,
            profile,
            group,
            spread,
        };
        Ok((one_shot, ProfileTarget::Group(group)))
    }

    /// Removes the members and the group of a set; no entry may point to it.
    pub(crate) fn remove_one_shot(&mut self, one_shot: &OneShot) -> Result<(), Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        let profile = pipeline.profile(one_shot.profile)?.id;
        switch.delete_group(profile, one_shot.group)?;
        for watched in &one_shot.spread.members {
            switch.delete_member(profile, watched.member.member)?;
        }
        Ok(())
    }

    /// Stores the set of an entry (None: the entry has none); returns the previous one.
    pub(crate) fn keep_one_shot(
        &mut self,
        table: TableId,
        handle: EntryHandle,
        one_shot: Option<OneShot>,
    ) -> Option<OneShot> {
        match one_shot {
            Some(one_shot) => self.profiles.one_shots.insert((table, handle), one_shot),
            None => self.profiles.one_shots.remove(&(table, handle)),
        }
    }
}

/// Whether members are selected at random.
fn selection_mode(
    view: &ProfileView,
    set: &v1::ActionProfileActionSet,
    place: &str,
) -> Result<bool, Failure> {
    let invalid = |what: &str, value: i32| {
        Failure::invalid(format!("{place}: {what} {value} does not exist"))
    };
    let random = match ActionSelectionMode::try_from(set.action_selection_mode) {
        Ok(ActionSelectionMode::Random) => true,
        Ok(_) => false,
        Err(_) => {
            return Err(invalid("action_selection_mode", set.action_selection_mode));
        }
    };
    let matches_selector = match SizeSemantics::try_from(set.size_semantics) {
        Ok(SizeSemantics::SumOfWeights) => view.sum_of_members.is_none(),
        Ok(SizeSemantics::SumOfMembers) => view.sum_of_members.is_some(),
        Ok(_) => true,
        Err(_) => return Err(invalid("size_semantics", set.size_semantics)),
    };
    if !matches_selector {
        return Err(Failure::unimplemented(format!(
            "{place}: size_semantics other than the selector's"
        )));
    }
    Ok(random)
}
