// SPDX-License-Identifier: Apache-2.0
//! Calls on action profiles. Members and groups have the lowest free numbers, in the dataplane above those of P4Runtime.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_dataplane::{
    ActionCall, ControlError, GroupMember, MemberGroup, ProfileId, ProfileInfo, ProfileTarget,
    Switch, TableId,
};

use crate::args::{Args, fields, structs, text};
use crate::dispatch::Answer;
use crate::refusal::{Refusal, Table, of_table};
use crate::state::Context;
use crate::tables::{Found, Kind, action_data, find};
use crate::wire::{Type, Value};

/// The members and groups of one action profile.
#[derive(Debug, Default)]
pub struct Profile {
    members: BTreeMap<u32, ActionCall>,
    groups: BTreeMap<u32, BTreeSet<u32>>,
    /// Tables whose default entry is a member.
    defaults: HashMap<TableId, u32>,
}

/// What an entry points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    /// A member.
    Member,
    /// A group.
    Group,
}

/// First id in the dataplane; those of P4Runtime's members, groups and one-shot sets are smaller.
const FIRST_ID: u64 = 1 << 48;

fn id_of(handle: u32) -> u64 {
    FIRST_ID + u64::from(handle)
}

/// The handle of a member or group.
pub fn handle_of(id: u64) -> i32 {
    i32::try_from(id.checked_sub(FIRST_ID).unwrap_or(id)).unwrap_or(i32::MAX)
}

fn lowest_free<T>(taken: &BTreeMap<u32, T>) -> u32 {
    let gap = (0..).zip(taken.keys()).find(|(at, handle)| at != *handle);
    gap.map_or_else(
        || u32::try_from(taken.len()).unwrap_or(u32::MAX),
        |(at, _)| at,
    )
}

/// The code for an error in an operation on a member.
fn of_member(error: &ControlError) -> Refusal {
    match error {
        ControlError::InUse { .. } => Table::MemberStillUsed.into(),
        ControlError::NotFound { .. } => Table::InvalidMember.into(),
        ControlError::ProfileFull { .. } => Table::Full.into(),
        error => of_table(error),
    }
}

struct Named {
    id: ProfileId,
    info: ProfileInfo,
}

/// The action profile that argument 2 names.
fn profile(context: &Context<'_>, args: Args<'_>) -> Result<Named, Refusal> {
    let info = context.switch(Table::InvalidProfileName)?.info();
    let id = info
        .profile(args.text(2)?)
        .ok_or(Table::InvalidProfileName)?;
    let info = info
        .profiles
        .get(id.index())
        .ok_or(Table::InvalidProfileName)?;
    Ok(Named {
        id,
        info: info.clone(),
    })
}

fn selecting(context: &Context<'_>, args: Args<'_>) -> Result<Named, Refusal> {
    let profile = profile(context, args)?;
    let selects = profile.info.selector;
    selects
        .then_some(profile)
        .ok_or_else(|| Table::NoSelection.into())
}

/// The table of argument 2, if its entries point to members.
pub fn indirect(context: &Context<'_>, args: Args<'_>) -> Result<Found, Refusal> {
    let table = find(context, args)?;
    match table.kind {
        Kind::Direct => Err(Table::WrongTableType.into()),
        _ => Ok(table),
    }
}

/// The table of argument 2, if its entries may point to groups.
pub fn with_selector(context: &Context<'_>, args: Args<'_>) -> Result<Found, Refusal> {
    let table = find(context, args)?;
    match table.kind {
        Kind::WithSelector => Ok(table),
        _ => Err(Table::WrongTableType.into()),
    }
}

fn member(given: i32, state: &Profile) -> Result<u32, Table> {
    let handle = u32::try_from(given).ok();
    let handle = handle.filter(|handle| state.members.contains_key(handle));
    handle.ok_or(Table::InvalidMember)
}

fn group(given: i32, state: &Profile) -> Result<u32, Table> {
    let handle = u32::try_from(given).ok();
    let handle = handle.filter(|handle| state.groups.contains_key(handle));
    handle.ok_or(Table::InvalidGroup)
}

/// The member or group with this handle that an entry of `table` is to point to.
pub fn target(
    context: &mut Context<'_>,
    table: &Found,
    points: Points,
    handle: i32,
) -> Result<ProfileTarget, Refusal> {
    let id = table.info.profile.ok_or(Table::WrongTableType)?;
    let state = context.state.profiles.entry(id).or_default();
    Ok(match points {
        Points::Member => ProfileTarget::Member(id_of(member(handle, state)?)),
        Points::Group => {
            let group = group(handle, state)?;
            if state.groups.get(&group).is_some_and(BTreeSet::is_empty) {
                return Err(Table::EmptyGroup.into());
            }
            ProfileTarget::Group(id_of(group))
        }
    })
}

fn with_state<'a>(
    context: &'a mut Context<'_>,
    profile: ProfileId,
) -> Result<(&'a mut Switch, &'a mut Profile), Refusal> {
    let switch = context.core.node.switch_mut();
    let switch = switch.ok_or(Refusal::from(Table::InvalidProfileName))?;
    let state = context.state.profiles.entry(profile).or_default();
    Ok((switch, state))
}

/// The action that arguments `name` and `data` give, as one of the profile's first table.
fn action(
    switch: &Switch,
    profile: &Named,
    args: Args<'_>,
    (name, data): (i16, i16),
) -> Result<ActionCall, Refusal> {
    let table = profile.info.tables.first();
    let name = args.text(name)?;
    let action = table.and_then(|table| switch.info().table_action(*table, name));
    Ok(ActionCall {
        action: action.ok_or(Table::InvalidActionName)?,
        args: args.byte_strings(data)?,
    })
}

pub(crate) fn add_member(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let profile = profile(context, args)?;
    let (switch, state) = with_state(context, profile.id)?;
    let call = action(switch, &profile, args, (3, 4))?;
    let handle = lowest_free(&state.members);
    let added = switch.insert_member(profile.id, id_of(handle), &call);
    added.map_err(|e| of_member(&e))?;
    state.members.insert(handle, call);
    Ok(Some(Value::I32(handle.cast_signed())))
}

pub(crate) fn delete_member(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let profile = profile(context, args)?;
    let (switch, state) = with_state(context, profile.id)?;
    let handle = member(args.i32(3)?, state)?;
    if state.defaults.values().any(|default| *default == handle) {
        return Err(Table::MemberStillUsed.into());
    }
    let deleted = switch.delete_member(profile.id, id_of(handle));
    deleted.map_err(|e| of_member(&e))?;
    state.members.remove(&handle);
    Ok(None)
}

pub(crate) fn modify_member(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let profile = profile(context, args)?;
    let (switch, state) = with_state(context, profile.id)?;
    let call = action(switch, &profile, args, (4, 5))?;
    let handle = member(args.i32(3)?, state)?;
    let modified = switch.modify_member(profile.id, id_of(handle), &call);
    modified.map_err(|e| of_member(&e))?;
    for (table, default) in &state.defaults {
        if *default == handle {
            put_default(switch, *table, &call)?;
        }
    }
    state.members.insert(handle, call);
    Ok(None)
}

/// Puts a group with these members into the dataplane.
fn put_group(
    switch: &mut Switch,
    profile: ProfileId,
    handle: u32,
    members: &BTreeSet<u32>,
) -> Result<(), Refusal> {
    let members = members.iter().map(|member| GroupMember {
        member: id_of(*member),
        weight: 1,
    });
    let group = MemberGroup {
        members: members.collect(),
        ..MemberGroup::default()
    };
    let put = switch.modify_group(profile, id_of(handle), &group);
    put.map_err(|e| of_table(&e))
}

pub(crate) fn create_group(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let profile = selecting(context, args)?;
    let (switch, state) = with_state(context, profile.id)?;
    let handle = lowest_free(&state.groups);
    let created = switch.insert_group(profile.id, id_of(handle), &MemberGroup::default());
    created.map_err(|e| of_table(&e))?;
    state.groups.insert(handle, BTreeSet::new());
    Ok(Some(Value::I32(handle.cast_signed())))
}

pub(crate) fn delete_group(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let profile = selecting(context, args)?;
    let (switch, state) = with_state(context, profile.id)?;
    let handle = group(args.i32(3)?, state)?;
    let deleted = switch.delete_group(profile.id, id_of(handle));
    deleted.map_err(|error| match error {
        ControlError::InUse { .. } => Table::GroupStillUsed.into(),
        error => of_table(&error),
    })?;
    state.groups.remove(&handle);
    Ok(None)
}

pub(crate) fn add_member_to_group(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    change_group(context, args, |members, member| {
        members
            .insert(member)
            .then_some(())
            .ok_or(Table::MemberAlreadyInGroup)
    })
}

pub(crate) fn remove_member_from_group(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    change_group(context, args, |members, member| {
        members
            .remove(&member)
            .then_some(())
            .ok_or(Table::MemberNotInGroup)
    })
}

fn change_group(
    context: &mut Context<'_>,
    args: Args<'_>,
    change: impl FnOnce(&mut BTreeSet<u32>, u32) -> Result<(), Table>,
) -> Answer {
    let profile = selecting(context, args)?;
    let (switch, state) = with_state(context, profile.id)?;
    let member = member(args.i32(3)?, state)?;
    let group = group(args.i32(4)?, state)?;
    let mut members = state.groups.get(&group).cloned().unwrap_or_default();
    change(&mut members, member)?;
    put_group(switch, profile.id, group, &members)?;
    state.groups.insert(group, members);
    Ok(None)
}

fn member_value(switch: &Switch, handle: u32, call: &ActionCall) -> Value {
    let info = switch.info().actions.get(call.action.index());
    fields([
        (1, Value::I32(handle.cast_signed())),
        (2, text(info.map_or("", |info| info.name.as_str()))),
        (3, action_data(call.args.clone())),
    ])
}

pub(crate) fn get_members(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let profile = profile(context, args)?;
    let (switch, state) = with_state(context, profile.id)?;
    let members = state.members.iter();
    let values = members.map(|(handle, call)| member_value(switch, *handle, call));
    Ok(Some(structs(values)))
}

pub(crate) fn get_member(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let profile = profile(context, args)?;
    let (switch, state) = with_state(context, profile.id)?;
    let handle = member(args.i32(3)?, state)?;
    let call = state.members.get(&handle).ok_or(Table::InvalidMember)?;
    Ok(Some(member_value(switch, handle, call)))
}

fn group_value((handle, members): (&u32, &BTreeSet<u32>)) -> Value {
    let members = members
        .iter()
        .map(|member| Value::I32(member.cast_signed()));
    fields([
        (1, Value::I32(handle.cast_signed())),
        (2, Value::List(Type::I32, members.collect())),
    ])
}

pub(crate) fn get_groups(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let profile = selecting(context, args)?;
    let (_, state) = with_state(context, profile.id)?;
    Ok(Some(structs(state.groups.iter().map(group_value))))
}

pub(crate) fn get_group(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let profile = selecting(context, args)?;
    let (_, state) = with_state(context, profile.id)?;
    let handle = group(args.i32(3)?, state)?;
    let found = state.groups.get_key_value(&handle);
    Ok(Some(group_value(found.ok_or(Table::InvalidGroup)?)))
}

fn put_default(switch: &mut Switch, table: TableId, call: &ActionCall) -> Result<(), Refusal> {
    // The member's action may be another table's copy.
    let action = switch.info().actions.get(call.action.index());
    let own = action.and_then(|action| switch.info().table_action(table, &action.name));
    let call = ActionCall {
        action: own.unwrap_or(call.action),
        args: call.args.clone(),
    };
    let set = switch.set_default_entry(table, Some(&call));
    set.map_err(|e| of_table(&e))
}

/// Sets the default of an indirect table: the dataplane's default is the member's action, and follows it.
pub(crate) fn set_default_member(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = indirect(context, args)?;
    let profile = table.info.profile.ok_or(Table::WrongTableType)?;
    if table.info.const_default {
        return Err(Table::DefaultEntryIsConst.into());
    }
    let (switch, state) = with_state(context, profile)?;
    let handle = member(args.i32(3)?, state)?;
    let call = state.members.get(&handle).ok_or(Table::InvalidMember)?;
    put_default(switch, table.id, call)?;
    state.defaults.insert(table.id, handle);
    Ok(None)
}

pub(crate) fn set_default_group(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = with_selector(context, args)?;
    let profile = table.info.profile.ok_or(Table::WrongTableType)?;
    let (_, state) = with_state(context, profile)?;
    group(args.i32(3)?, state)?;
    Err(Refusal::unsupported(format!(
        "table {}: weir-switch's default entry cannot be a group; a member can",
        table.info.name
    )))
}

/// The member that is the default of a table, if it was set.
pub fn default_member(context: &Context<'_>, table: &Found) -> Option<i32> {
    let state = context.state.profiles.get(&table.info.profile?)?;
    state
        .defaults
        .get(&table.id)
        .map(|handle| handle.cast_signed())
}

/// Forgets the member that is the default of a table.
pub fn forget_default(context: &mut Context<'_>, table: &Found) {
    let profile = table.info.profile;
    if let Some(state) = profile.and_then(|id| context.state.profiles.get_mut(&id)) {
        state.defaults.remove(&table.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_member_gets_the_lowest_free_number() {
        let taken = |handles: &[u32]| {
            handles
                .iter()
                .map(|at| (*at, ()))
                .collect::<BTreeMap<_, _>>()
        };
        assert_eq!(lowest_free(&taken(&[])), 0);
        assert_eq!(lowest_free(&taken(&[0, 1])), 2);
        assert_eq!(lowest_free(&taken(&[0, 2])), 1);
        assert_eq!(lowest_free(&taken(&[1])), 0);
    }
}
