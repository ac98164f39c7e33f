// SPDX-License-Identifier: Apache-2.0
//! Control of action profiles: members, groups, and the entries that point to them.
//!
//! Ids are the caller's, any u64; members and groups of a profile have separate ids.

use super::Switch;
use crate::control::{
    ActionCall, EntryHandle, GroupMember, KeyMatch, MemberGroup, ProfileTarget, TableEntry,
};
use crate::error::ControlError;
use crate::info::{ActionId, ProfileId, ProfileInfo, TableId};
use crate::tables::profile::{Call, Pointer, ProfileState};

fn describe(info: &ProfileInfo, target: ProfileTarget) -> String {
    let (kind, id) = match target {
        ProfileTarget::Member(id) => ("member", id),
        ProfileTarget::Group(id) => ("group", id),
    };
    format!("action profile {}: {kind} {id}", info.name)
}

fn find(state: &ProfileState, target: ProfileTarget) -> Option<Pointer> {
    match target {
        ProfileTarget::Member(id) => state.member(id).map(Pointer::Member),
        ProfileTarget::Group(id) => state.group(id).map(Pointer::Group),
    }
}

fn existing(
    info: &ProfileInfo,
    state: &ProfileState,
    target: ProfileTarget,
) -> Result<Pointer, ControlError> {
    find(state, target).ok_or_else(|| ControlError::NotFound {
        what: describe(info, target),
    })
}

impl Switch {
    fn profile(&self, profile: ProfileId) -> Result<(&ProfileInfo, &ProfileState), ControlError> {
        let info = self.program.info.profiles.get(profile.index());
        info.zip(self.profiles.get(profile.index()))
            .ok_or(ControlError::UnknownId {
                kind: "action profile",
                id: profile.0,
                count: self.profiles.len(),
            })
    }

    /// The profile, if it has no such member or group yet.
    fn absent(
        &self,
        profile: ProfileId,
        target: ProfileTarget,
    ) -> Result<(&ProfileInfo, &ProfileState), ControlError> {
        let (info, state) = self.profile(profile)?;
        match find(state, target) {
            None => Ok((info, state)),
            Some(_) => Err(ControlError::Exists {
                what: describe(info, target),
            }),
        }
    }

    /// The profile, if nothing in it points to this member or group.
    fn unused(
        &mut self,
        profile: ProfileId,
        target: ProfileTarget,
    ) -> Result<&mut ProfileState, ControlError> {
        let (info, state) = self.profile(profile)?;
        match state.references(existing(info, state, target)?) {
            0 => self.profile_mut(profile),
            references => Err(ControlError::InUse {
                what: describe(info, target),
                references,
            }),
        }
    }

    /// The call with the action's index in each table of the profile. `action` may be any table's copy of the action.
    fn profile_call(&self, info: &ProfileInfo, call: &ActionCall) -> Result<Call, ControlError> {
        let program = &self.program.info;
        let name = program
            .actions
            .get(call.action.index())
            .map(|a| a.name.as_str())
            .ok_or(ControlError::UnknownId {
                kind: "action",
                id: call.action.0,
                count: program.actions.len(),
            })?;
        let mut encoded = Call {
            actions: Box::default(),
            args: Box::default(),
        };
        let mut actions = Vec::with_capacity(info.tables.len());
        for table in &info.tables {
            let own = program.table_action(*table, name);
            let call = ActionCall {
                action: own.unwrap_or(call.action),
                args: call.args.clone(),
            };
            let (table_info, spec) = program
                .tables
                .get(table.index())
                .zip(self.program.ir.tables.get(table.index()))
                .ok_or(ControlError::UnknownId {
                    kind: "table",
                    id: table.0,
                    count: program.tables.len(),
                })?;
            let (local, args) = self.program.encode_action(table_info, spec, &call)?;
            actions.push(local);
            encoded.args = args;
        }
        encoded.actions = actions.into();
        Ok(encoded)
    }

    /// Creates a member.
    ///
    /// # Errors
    /// `UnknownId`, `Exists`, `ActionNotInTable`, `InvalidArguments`, `ProfileFull`.
    pub fn insert_member(
        &mut self,
        profile: ProfileId,
        id: u64,
        call: &ActionCall,
    ) -> Result<(), ControlError> {
        let (info, state) = self.absent(profile, ProfileTarget::Member(id))?;
        let call = self.profile_call(info, call)?;
        if info.size > 0 && state.member_count() >= info.size {
            return Err(ControlError::ProfileFull {
                profile: info.name.clone(),
                size: info.size,
            });
        }
        self.profile_mut(profile)?.put_member(id, call);
        Ok(())
    }

    /// Replaces the action of a member, for all entries and groups that refer to it.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`, `ActionNotInTable`, `InvalidArguments`.
    pub fn modify_member(
        &mut self,
        profile: ProfileId,
        id: u64,
        call: &ActionCall,
    ) -> Result<(), ControlError> {
        let (info, state) = self.profile(profile)?;
        existing(info, state, ProfileTarget::Member(id))?;
        let call = self.profile_call(info, call)?;
        self.profile_mut(profile)?.put_member(id, call);
        Ok(())
    }

    /// Removes a member.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`, `InUse` while entries or groups point to it.
    pub fn delete_member(&mut self, profile: ProfileId, id: u64) -> Result<(), ControlError> {
        self.unused(profile, ProfileTarget::Member(id))?
            .delete_member(id);
        Ok(())
    }

    /// Creates a group. A group may be empty; its packets then run no action.
    ///
    /// # Errors
    /// `UnknownId`, `Exists`; `NotFound` for a member; `InvalidValue` for a weight of 0 and for a profile without
    /// selector; as `insert_member` for the group's own action.
    pub fn insert_group(
        &mut self,
        profile: ProfileId,
        id: u64,
        group: &MemberGroup,
    ) -> Result<(), ControlError> {
        self.absent(profile, ProfileTarget::Group(id))?;
        self.put_group(profile, id, group)
    }

    /// Replaces a group.
    ///
    /// # Errors
    /// As `insert_group`, with `NotFound` in place of `Exists`.
    pub fn modify_group(
        &mut self,
        profile: ProfileId,
        id: u64,
        group: &MemberGroup,
    ) -> Result<(), ControlError> {
        let (info, state) = self.profile(profile)?;
        existing(info, state, ProfileTarget::Group(id))?;
        self.put_group(profile, id, group)
    }

    fn put_group(
        &mut self,
        profile: ProfileId,
        id: u64,
        group: &MemberGroup,
    ) -> Result<(), ControlError> {
        let (info, state) = self.profile(profile)?;
        let invalid = |reason: String| ControlError::InvalidValue {
            what: describe(info, ProfileTarget::Group(id)),
            reason,
        };
        if !info.selector {
            return Err(invalid("the profile has no selector".into()));
        }
        let slot = |member: &GroupMember| {
            if member.weight == 0 {
                return Err(invalid(format!(
                    "member {} has a weight of 0; at least 1 is valid",
                    member.member
                )));
            }
            let slot = state
                .member(member.member)
                .ok_or_else(|| ControlError::NotFound {
                    what: describe(info, ProfileTarget::Member(member.member)),
                })?;
            Ok((slot, u64::from(member.weight)))
        };
        let members = group.members.iter().map(slot).collect::<Result<_, _>>()?;
        let first = match &group.first {
            Some(call) => Some(self.profile_call(info, call)?),
            None => None,
        };
        self.profile_mut(profile)?
            .put_group(id, first, group.random, members);
        Ok(())
    }

    /// Removes a group.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`, `InUse` while entries point to it.
    pub fn delete_group(&mut self, profile: ProfileId, id: u64) -> Result<(), ControlError> {
        self.unused(profile, ProfileTarget::Group(id))?
            .delete_group(id);
        Ok(())
    }

    fn profile_mut(&mut self, profile: ProfileId) -> Result<&mut ProfileState, ControlError> {
        let count = self.profiles.len();
        self.profiles
            .get_mut(profile.index())
            .ok_or(ControlError::UnknownId {
                kind: "action profile",
                id: profile.0,
                count,
            })
    }

    fn pointer(
        &self,
        table: TableId,
        target: ProfileTarget,
    ) -> Result<(ProfileId, Pointer), ControlError> {
        let profile = self.profile_of(table)?.ok_or_else(|| {
            let tables = &self.program.info.tables;
            let name = tables.get(table.index()).map_or("", |t| t.name.as_str());
            ControlError::InvalidValue {
                what: format!("table {name}"),
                reason: "it has no action profile; its entries hold actions".into(),
            }
        })?;
        let (info, state) = self.profile(profile)?;
        Ok((profile, existing(info, state, target)?))
    }

    pub(super) fn profile_of(&self, table: TableId) -> Result<Option<ProfileId>, ControlError> {
        let tables = &self.program.info.tables;
        let info = tables.get(table.index()).ok_or(ControlError::UnknownId {
            kind: "table",
            id: table.0,
            count: tables.len(),
        })?;
        Ok(info.profile)
    }

    /// Adds an entry to a table that an action profile implements.
    ///
    /// # Errors
    /// As [`Switch::insert_entry`], `NotFound` for the member or group, `InvalidValue` for a table without profile.
    pub fn insert_indirect_entry(
        &mut self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
        target: ProfileTarget,
    ) -> Result<EntryHandle, ControlError> {
        let (profile, pointer) = self.pointer(table, target)?;
        let handle =
            self.insert_encoded(table, key, priority, |_, _, _| Ok(indirect_args(pointer)))?;
        self.profile_mut(profile)?.acquire(pointer);
        Ok(handle)
    }

    /// Changes the member or group that an entry points to.
    ///
    /// # Errors
    /// As `insert_indirect_entry`, and `NotFound` for the entry.
    pub fn modify_indirect_entry(
        &mut self,
        table: TableId,
        handle: EntryHandle,
        target: ProfileTarget,
    ) -> Result<(), ControlError> {
        let (profile, pointer) = self.pointer(table, target)?;
        let before = self.entry_pointer(table, handle)?;
        self.replace_encoded(table, handle, |_, _, _| Ok(indirect_args(pointer)))?;
        let state = self.profile_mut(profile)?;
        state.acquire(pointer);
        if let Some(before) = before {
            state.release(before);
        }
        Ok(())
    }

    /// The member or group that an entry of an indirect table points to; None for a table without profile.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn entry_target(
        &self,
        table: TableId,
        handle: EntryHandle,
    ) -> Result<Option<ProfileTarget>, ControlError> {
        let pointer = self.entry_pointer(table, handle)?;
        let Some((profile, pointer)) = self.profile_of(table)?.zip(pointer) else {
            return Ok(None);
        };
        let (_, state) = self.profile(profile)?;
        Ok(state.id_of(pointer).map(|id| match pointer {
            Pointer::Member(_) => ProfileTarget::Member(id),
            Pointer::Group(_) => ProfileTarget::Group(id),
        }))
    }

    pub(super) fn release_pointer(
        &mut self,
        table: TableId,
        pointer: Option<Pointer>,
    ) -> Result<(), ControlError> {
        if let Some((profile, pointer)) = self.profile_of(table)?.zip(pointer) {
            self.profile_mut(profile)?.release(pointer);
        }
        Ok(())
    }
}

/// An indirect entry's action and arguments.
fn indirect_args(pointer: Pointer) -> (u16, Box<[u64]>) {
    (u16::MAX, Box::new([pointer.to_word()]))
}

/// The action that a read of an indirect entry returns.
pub(super) fn without_action(key: Vec<KeyMatch>, priority: i32) -> TableEntry {
    TableEntry {
        key,
        priority,
        action: ActionCall {
            action: ActionId(u32::MAX),
            args: Vec::new(),
        },
    }
}
