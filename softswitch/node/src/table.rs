// SPDX-License-Identifier: Apache-2.0
//! `TableEntry` (specification section of that name): entries, default entries and their direct resources.

use tonic::Code;
use weir_dataplane::{ActionCall, EntryHandle, ProfileTarget, Switch, TableEntry};
use weir_p4runtime::p4::v1::table_action::Type as ActionType;
use weir_p4runtime::p4::v1::{self, TableAction};

use super::action::direct_action;
use super::direct::DirectResources;
use super::entry_key::{find, key_of};
use super::failure::Failure;
use super::pipeline::{Pipeline, TableView};
use super::profile::OneShot;
use super::write::Operation;
use super::{Node, parts};

/// Data that a controller stores with an entry; the dataplane does not use it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryMetadata {
    /// `controller_metadata`.
    pub number: u64,
    /// `metadata`.
    pub bytes: Vec<u8>,
}

impl EntryMetadata {
    fn of(entry: &v1::TableEntry) -> Option<Self> {
        let metadata = Self {
            number: entry.controller_metadata,
            bytes: entry.metadata.clone(),
        };
        (metadata != Self::default()).then_some(metadata)
    }
}

/// The action of an entry in the dataplane's form.
enum Target {
    Call(ActionCall),
    Profile(ProfileTarget, Option<OneShot>),
}

impl Node {
    pub(super) fn write_table_entry(
        &mut self,
        operation: Operation,
        entry: &v1::TableEntry,
    ) -> Result<(), Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        let table = pipeline.table(entry.table_id)?;
        if entry.is_default_action {
            let metadata = write_default(pipeline, switch, table, operation, entry)?;
            replace(&mut self.defaults, table.id, metadata);
            return Ok(());
        }
        let id = table.id;
        if operation == Operation::Delete {
            let handle = find(table, switch, entry)?;
            let indirect = table.profile.is_some();
            switch.delete_entry(id, handle)?;
            self.entries.remove(&(id, handle));
            if indirect && let Some(one_shot) = self.keep_one_shot(id, handle, None) {
                self.remove_one_shot(&one_shot)?;
            }
            return Ok(());
        }
        check_common(table, entry)?;
        let direct = DirectResources::of(table, entry, operation)?;
        let handle = if operation == Operation::Insert {
            self.insert_entry(entry, &direct)?
        } else {
            self.modify_entry(entry, &direct)?
        };
        replace(&mut self.entries, (id, handle), EntryMetadata::of(entry));
        Ok(())
    }

    fn insert_entry(
        &mut self,
        entry: &v1::TableEntry,
        direct: &DirectResources,
    ) -> Result<EntryHandle, Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        let table = pipeline.table(entry.table_id)?;
        let key = key_of(table, entry)?;
        let Some(action) = &entry.action else {
            return Err(Failure::invalid(format!(
                "table {}: the entry has no action",
                table.name
            )));
        };
        let id = table.id;
        if table.profile.is_none() {
            let action = required_action(pipeline, table, action)?;
            let entry = TableEntry {
                key,
                priority: entry.priority,
                action,
            };
            let handle = switch.insert_entry(id, &entry)?;
            return self.with_direct((id, handle), direct);
        }
        let (target, one_shot) = self.profile_target(entry.table_id, action)?;
        let (_, switch) = parts(&self.pipeline, &mut self.switch)?;
        match switch.insert_indirect_entry(id, &key, entry.priority, target) {
            Ok(handle) => {
                self.keep_one_shot(id, handle, one_shot);
                self.with_direct((id, handle), direct)
            }
            Err(error) => {
                if let Some(one_shot) = one_shot {
                    self.remove_one_shot(&one_shot)?;
                }
                Err(error.into())
            }
        }
    }

    /// Sets the direct resources of a new entry; removes the entry when that fails, because a failed update changes nothing.
    fn with_direct(
        &mut self,
        (table, handle): (weir_dataplane::TableId, EntryHandle),
        direct: &DirectResources,
    ) -> Result<EntryHandle, Failure> {
        let (_, switch) = parts(&self.pipeline, &mut self.switch)?;
        if let Err(failure) = direct.set(switch, table, Some(handle)) {
            switch.delete_entry(table, handle)?;
            if let Some(one_shot) = self.keep_one_shot(table, handle, None) {
                self.remove_one_shot(&one_shot)?;
            }
            return Err(failure);
        }
        Ok(handle)
    }

    fn modify_entry(
        &mut self,
        entry: &v1::TableEntry,
        direct: &DirectResources,
    ) -> Result<EntryHandle, Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        let table = pipeline.table(entry.table_id)?;
        let id = table.id;
        let handle = find(table, switch, entry)?;
        let target = match &entry.action {
            // Without an action in the update the entry keeps its action.
            None => None,
            Some(_) if table.is_const => {
                let message = format!(
                    "table {}: its entries are const; only direct resources can change",
                    table.name
                );
                return Err(Failure::new(Code::PermissionDenied, message));
            }
            Some(action) if table.profile.is_none() => {
                Some(Target::Call(required_action(pipeline, table, action)?))
            }
            Some(action) => {
                let (target, one_shot) = self.profile_target(entry.table_id, action)?;
                Some(Target::Profile(target, one_shot))
            }
        };
        let (_, switch) = parts(&self.pipeline, &mut self.switch)?;
        // Direct resources first: the dataplane may refuse a meter, and nothing else has changed then.
        if let Err(failure) = direct.set(switch, id, Some(handle)) {
            if let Some(Target::Profile(_, Some(one_shot))) = target {
                self.remove_one_shot(&one_shot)?;
            }
            return Err(failure);
        }
        match target {
            None => {}
            Some(Target::Call(action)) => switch.modify_entry(id, handle, &action)?,
            Some(Target::Profile(target, one_shot)) => {
                switch.modify_indirect_entry(id, handle, target)?;
                if let Some(before) = self.keep_one_shot(id, handle, one_shot) {
                    self.remove_one_shot(&before)?;
                }
            }
        }
        Ok(handle)
    }

    /// The member or group that an entry of an indirect table points to; creates the set of a one-shot action.
    fn profile_target(
        &mut self,
        table_id: u32,
        action: &TableAction,
    ) -> Result<(ProfileTarget, Option<OneShot>), Failure> {
        let table = self.pipeline_ref()?.table(table_id)?;
        let place = format!("table {}", table.name);
        let profile = table.profile.unwrap_or_default();
        match &action.r#type {
            Some(ActionType::ActionProfileMemberId(id)) => {
                Ok((ProfileTarget::Member(u64::from(*id)), None))
            }
            Some(ActionType::ActionProfileGroupId(id)) => {
                Ok((ProfileTarget::Group(u64::from(*id)), None))
            }
            Some(ActionType::ActionProfileActionSet(set)) => {
                let (one_shot, target) = self.create_one_shot(profile, set, &place)?;
                Ok((target, Some(one_shot)))
            }
            Some(ActionType::Action(_)) => Err(Failure::invalid(format!(
                "{place}: an action profile implements it; give it a member, a group or an action set"
            ))),
            None => Err(Failure::invalid(format!("{place}: the action is empty"))),
        }
    }
}

fn replace<K: std::hash::Hash + Eq>(
    map: &mut std::collections::HashMap<K, EntryMetadata>,
    key: K,
    metadata: Option<EntryMetadata>,
) {
    match metadata {
        Some(metadata) => map.insert(key, metadata),
        None => map.remove(&key),
    };
}

/// Refuses fields that an entry must not have, whether inserted or modified.
fn check_common(table: &TableView, entry: &v1::TableEntry) -> Result<(), Failure> {
    let name = &table.name;
    if entry.is_const {
        return Err(Failure::invalid(format!(
            "table {name}: is_const is for the switch to say"
        )));
    }
    let idle = entry.idle_timeout_ns != 0 || entry.time_since_last_hit.is_some();
    if entry.idle_timeout_ns != 0 && !table.idle_timeout {
        // PI's words, here and in `not_for_writes`: tests that were written for bmv2 compare them.
        return Err(Failure::invalid(
            "idle_timeout_ns must be set to 0 for tables which do not support idle timeout",
        ));
    }
    if entry.time_since_last_hit.is_some() {
        return Err(not_for_writes());
    }
    if idle && table.is_const {
        return Err(Failure::invalid(format!(
            "table {name}: const entries have no idle timeout"
        )));
    }
    if table.fields.is_empty() {
        let message =
            format!("table {name}: has no match fields, so only its default entry can be set");
        return Err(Failure::invalid(message));
    }
    Ok(())
}

fn not_for_writes() -> Failure {
    Failure::invalid("has_time_since_last_hit must not be set in WriteRequest")
}

fn write_default(
    pipeline: &Pipeline,
    switch: &mut Switch,
    table: &TableView,
    operation: Operation,
    entry: &v1::TableEntry,
) -> Result<Option<EntryMetadata>, Failure> {
    let name = &table.name;
    operation.only_modify(&format!("default entry (of table {name})"))?;
    if !entry.r#match.is_empty() || entry.priority != 0 {
        let message = format!("table {name}: the default entry has neither match nor priority");
        return Err(Failure::invalid(message));
    }
    if entry.time_since_last_hit.is_some() {
        return Err(not_for_writes());
    }
    if entry.idle_timeout_ns != 0 {
        return Err(Failure::invalid(format!(
            "table {name}: the default entry has no idle timeout"
        )));
    }
    let direct = DirectResources::of(table, entry, operation)?;
    let Some(action) = &entry.action else {
        // Back to the program's default action; direct resources and metadata are reset as well.
        switch.set_default_entry(table.id, None)?;
        DirectResources::initial(table).set(switch, table.id, None)?;
        return Ok(None);
    };
    if table.profile.is_some() {
        return Err(Failure::new(
            Code::PermissionDenied,
            format!(
                "table {name}: the default entry of a table with an action profile is const NoAction"
            ),
        ));
    }
    let call = match &action.r#type {
        Some(ActionType::Action(action)) => {
            direct_action(pipeline, table, action, |reference| reference.in_default)?
        }
        _ => {
            return Err(Failure::invalid(format!(
                "table {name}: the default entry takes an action"
            )));
        }
    };
    let before = switch.default_entry(table.id)?;
    switch.set_default_entry(table.id, Some(&call))?;
    if let Err(failure) = direct.set(switch, table.id, None) {
        // An update that fails changes nothing.
        switch.set_default_entry(table.id, before.as_ref())?;
        return Err(failure);
    }
    Ok(EntryMetadata::of(entry))
}

/// The dataplane's call for the action of an entry of a direct table.
fn required_action(
    pipeline: &Pipeline,
    table: &TableView,
    action: &TableAction,
) -> Result<ActionCall, Failure> {
    match &action.r#type {
        Some(ActionType::Action(action)) => {
            direct_action(pipeline, table, action, |reference| reference.in_entries)
        }
        Some(_) => Err(Failure::invalid(format!(
            "table {}: it has no action profile; give it an action",
            table.name
        ))),
        None => Err(Failure::invalid(format!(
            "table {}: the action is empty",
            table.name
        ))),
    }
}
