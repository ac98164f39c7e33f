// SPDX-License-Identifier: Apache-2.0
//! `TableEntry` (specification section of that name): entries, default entries and their direct resources.

use tonic::Code;
use weir_dataplane::{ActionCall, EntryHandle, KeyMatch, MeterConfig, Switch, TableEntry};
use weir_p4runtime::p4::v1::table_action::Type as ActionType;
use weir_p4runtime::p4::v1::{self, TableAction, action};

use super::bytestring::{canonical, check, padded};
use super::failure::{Failure, listed};
use super::pipeline::{ActionRefView, ActionView, Pipeline, TableView};
use super::write::Operation;
use super::{Node, counter, matching, meter, parts};

/// What a controller keeps with an entry and the dataplane does not know.
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

/// Looks up the live entry with this table, match and priority.
///
/// # Errors
/// `INVALID_ARGUMENT` or `OUT_OF_RANGE` for a malformed key, `NOT_FOUND` when there is no such entry.
pub fn find(
    table: &TableView,
    switch: &Switch,
    entry: &v1::TableEntry,
) -> Result<EntryHandle, Failure> {
    let key = key_of(table, entry)?;
    switch
        .find_entry(table.id, &key, entry.priority)
        .map_err(|error| {
            let failure = Failure::from(error);
            if failure.code == Code::NotFound {
                return Failure::not_found(format!(
                    "table {}: no entry has this match and priority",
                    table.name
                ));
            }
            failure
        })
}

fn key_of(table: &TableView, entry: &v1::TableEntry) -> Result<Vec<KeyMatch>, Failure> {
    if table.needs_priority && entry.priority <= 0 {
        let message = format!(
            "table {}: priority {} must be at least 1",
            table.name, entry.priority
        );
        return Err(Failure::invalid(message));
    }
    if !table.needs_priority && entry.priority != 0 {
        let message = format!(
            "table {}: priority {} must be 0, because no match field is ternary, range or optional",
            table.name, entry.priority
        );
        return Err(Failure::invalid(message));
    }
    matching::to_dataplane(table, &entry.r#match)
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
        if operation == Operation::Delete {
            let handle = find(table, switch, entry)?;
            switch.delete_entry(table.id, handle)?;
            self.entries.remove(&(table.id, handle));
            return Ok(());
        }
        check_common(table, entry)?;
        let direct = DirectResources::of(table, entry)?;
        let handle = if operation == Operation::Insert {
            insert(pipeline, switch, table, entry, &direct)?
        } else {
            modify(pipeline, switch, table, entry, &direct)?
        };
        replace(
            &mut self.entries,
            (table.id, handle),
            EntryMetadata::of(entry),
        );
        Ok(())
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

/// What an entry may not hold, whether inserted or modified.
fn check_common(table: &TableView, entry: &v1::TableEntry) -> Result<(), Failure> {
    let name = &table.name;
    if entry.is_const {
        return Err(Failure::invalid(format!(
            "table {name}: is_const is for the switch to say"
        )));
    }
    let idle = entry.idle_timeout_ns != 0 || entry.time_since_last_hit.is_some();
    if idle && !table.idle_timeout {
        return Err(Failure::invalid(format!(
            "table {name}: the program declares no idle timeout for it"
        )));
    }
    if idle {
        return Err(Failure::unimplemented(format!(
            "table {name}: idle_timeout_ns"
        )));
    }
    if table.fields.is_empty() {
        let message =
            format!("table {name}: has no match fields, so only its default entry can be set");
        return Err(Failure::invalid(message));
    }
    Ok(())
}

struct DirectResources {
    meter: Option<MeterConfig>,
    counter: Option<weir_dataplane::CounterValue>,
}

impl DirectResources {
    fn of(table: &TableView, entry: &v1::TableEntry) -> Result<Self, Failure> {
        let place = format!("table {}", table.name);
        if entry.meter_counter_data.is_some() {
            return Err(Failure::unimplemented(format!(
                "{place}: meter_counter_data"
            )));
        }
        let meter = match (&entry.meter_config, table.direct_meter) {
            (None, _) => None,
            (Some(_), None) => {
                return Err(Failure::invalid(format!("{place}: it has no direct meter")));
            }
            (Some(config), Some(kind)) => Some(meter::to_dataplane(config, kind, &place)?),
        };
        let counter = match &entry.counter_data {
            Some(_) if !table.direct_counter => {
                return Err(Failure::invalid(format!(
                    "{place}: it has no direct counter"
                )));
            }
            data => data
                .as_ref()
                .map(|d| counter::to_dataplane(d, &place))
                .transpose()?,
        };
        Ok(Self { meter, counter })
    }

    fn set(
        &self,
        switch: &mut Switch,
        table: &TableView,
        handle: EntryHandle,
    ) -> Result<(), Failure> {
        if table.direct_meter.is_some() {
            // Unset in the update means: back to the default, which colours everything green.
            switch.set_direct_meter(table.id, handle, self.meter)?;
        }
        if let Some(counter) = self.counter {
            switch.set_direct_counter(table.id, handle, counter)?;
        }
        Ok(())
    }
}

fn insert(
    pipeline: &Pipeline,
    switch: &mut Switch,
    table: &TableView,
    entry: &v1::TableEntry,
    direct: &DirectResources,
) -> Result<EntryHandle, Failure> {
    let key = key_of(table, entry)?;
    let action = required_action(pipeline, table, entry.action.as_ref(), |reference| {
        reference.in_entries
    })?;
    let entry = TableEntry {
        key,
        priority: entry.priority,
        action,
    };
    let handle = switch.insert_entry(table.id, &entry)?;
    if let Err(failure) = direct.set(switch, table, handle) {
        // An update that fails changes nothing.
        switch.delete_entry(table.id, handle)?;
        return Err(failure);
    }
    Ok(handle)
}

fn modify(
    pipeline: &Pipeline,
    switch: &mut Switch,
    table: &TableView,
    entry: &v1::TableEntry,
    direct: &DirectResources,
) -> Result<EntryHandle, Failure> {
    let handle = find(table, switch, entry)?;
    if table.is_const {
        if entry.action.is_some() {
            let message = format!(
                "table {}: its entries are const; only direct resources can change",
                table.name
            );
            return Err(Failure::new(Code::PermissionDenied, message));
        }
        direct.set(switch, table, handle)?;
        return Ok(handle);
    }
    let action = required_action(pipeline, table, entry.action.as_ref(), |reference| {
        reference.in_entries
    })?;
    // The meter first: it is what the dataplane may still refuse, and then nothing has changed.
    direct.set(switch, table, handle)?;
    switch.modify_entry(table.id, handle, &action)?;
    Ok(handle)
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
    if entry.idle_timeout_ns != 0 || entry.time_since_last_hit.is_some() {
        return Err(Failure::invalid(format!(
            "table {name}: the default entry has no idle timeout"
        )));
    }
    if entry.meter_config.is_some()
        || entry.counter_data.is_some()
        || entry.meter_counter_data.is_some()
    {
        let feature = format!("table {name}: a direct counter or meter of the default entry");
        return Err(Failure::unimplemented(feature));
    }
    let Some(action) = &entry.action else {
        switch.set_default_entry(table.id, None)?;
        return Ok(None);
    };
    let action = required_action(pipeline, table, Some(action), |reference| {
        reference.in_default
    })?;
    switch.set_default_entry(table.id, Some(&action))?;
    Ok(EntryMetadata::of(entry))
}

/// The dataplane's call for an action that must be given.
fn required_action(
    pipeline: &Pipeline,
    table: &TableView,
    action: Option<&TableAction>,
    allowed: impl Fn(&ActionRefView) -> bool,
) -> Result<ActionCall, Failure> {
    let action = match action.and_then(|a| a.r#type.as_ref()) {
        Some(ActionType::Action(action)) => action,
        Some(
            ActionType::ActionProfileMemberId(_)
            | ActionType::ActionProfileGroupId(_)
            | ActionType::ActionProfileActionSet(_),
        ) => {
            let message = format!(
                "table {}: it has no action profile; give it an action",
                table.name
            );
            return Err(Failure::invalid(message));
        }
        None => {
            return Err(Failure::invalid(format!(
                "table {}: the entry has no action",
                table.name
            )));
        }
    };
    let view = pipeline.actions.get(&action.action_id);
    let reference = table
        .actions
        .iter()
        .find(|r| r.p4info_id == action.action_id && allowed(r));
    let (Some(view), Some(reference)) = (view, reference) else {
        let valid = table
            .actions
            .iter()
            .filter(|r| allowed(r))
            .filter_map(|r| pipeline.actions.get(&r.p4info_id));
        let valid = listed(valid.map(|a| a.name.as_str()));
        let given = view.map_or_else(|| action.action_id.to_string(), |v| v.name.clone());
        let message = format!(
            "table {}: action {given} cannot be used here; valid are {valid}",
            table.name
        );
        return Err(Failure::invalid(message));
    };
    Ok(ActionCall {
        action: reference.id,
        args: arguments(table, view, &action.params)?,
    })
}

fn arguments(
    table: &TableView,
    action: &ActionView,
    given: &[action::Param],
) -> Result<Vec<Vec<u8>>, Failure> {
    let place = || format!("table {}: action {}", table.name, action.name);
    if given.len() != action.params.len() {
        let valid = listed(action.params.iter().map(|p| p.name.as_str()));
        let (count, expected) = (given.len(), action.params.len());
        let message = format!(
            "{}: {count} parameters were given, it has {expected} ({valid})",
            place()
        );
        return Err(Failure::invalid(message));
    }
    let argument = |param: &super::pipeline::ParamView| {
        let found = given
            .iter()
            .find(|g| g.param_id == param.id)
            .ok_or_else(|| {
                Failure::invalid(format!(
                    "{}: parameter {} (id {}) is missing",
                    place(),
                    param.name,
                    param.id
                ))
            })?;
        check(&found.value, param.width_bits, || {
            format!("{}: parameter {}", place(), param.name)
        })?;
        Ok(padded(&found.value, param.width_bits))
    };
    action.params.iter().map(argument).collect()
}

/// The P4Runtime form of an action call; None when the call is to an action that the P4Info does not show.
pub fn action_to_p4runtime(
    pipeline: &Pipeline,
    table: &TableView,
    call: &ActionCall,
) -> Option<TableAction> {
    let reference = table.actions.iter().find(|r| r.id == call.action)?;
    let view = pipeline.actions.get(&reference.p4info_id)?;
    let params = view.params.iter().zip(&call.args);
    let params = params.map(|(param, value)| action::Param {
        param_id: param.id,
        value: canonical(value),
    });
    let action = v1::Action {
        action_id: reference.p4info_id,
        params: params.collect(),
    };
    Some(TableAction {
        r#type: Some(ActionType::Action(action)),
    })
}
