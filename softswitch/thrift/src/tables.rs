// SPDX-License-Identifier: Apache-2.0
//! Calls on match tables.

use weir_dataplane::{
    ActionCall, EntryHandle, KeyMatch, MeterConfig, ProfileTarget, Switch, TableEntry, TableId,
    TableInfo,
};

use crate::args::{Args, byte_strings, fields, structs, text};
use crate::arrays::{counter_value, meter_config, rates, to_rates};
use crate::dispatch::Answer;
use crate::keys;
use crate::profiles;
use crate::refusal::{Meter, Refusal, Table, of_table};
use crate::state::Context;
use crate::wire::{Struct, Value};

/// `BmActionEntryType`.
const NONE: i32 = 0;
const ACTION_DATA: i32 = 1;
const MEMBER: i32 = 2;
const GROUP: i32 = 3;

/// Types of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its entries have actions.
    Direct,
    /// Its entries point to members.
    Indirect,
    /// Its entries point to members or groups.
    WithSelector,
}

/// A table with its declaration.
pub struct Found {
    /// Its id.
    pub id: TableId,
    /// Its declaration.
    pub info: TableInfo,
    /// Its type.
    pub kind: Kind,
}

/// The table that argument 2 names.
pub fn find(context: &Context<'_>, args: Args<'_>) -> Result<Found, Refusal> {
    let name = args.text(2)?;
    let switch = context.switch(Table::InvalidTableName)?;
    let id = switch.info().table(name).ok_or(Table::InvalidTableName)?;
    let info = switch.info().tables.get(id.index());
    let info = info.ok_or(Table::InvalidTableName)?.clone();
    let profile = info
        .profile
        .and_then(|id| switch.info().profiles.get(id.index()));
    let kind = match profile {
        None => Kind::Direct,
        Some(profile) if profile.selector => Kind::WithSelector,
        Some(_) => Kind::Indirect,
    };
    Ok(Found { id, info, kind })
}

/// The direct table that argument 2 names.
fn direct(context: &Context<'_>, args: Args<'_>) -> Result<Found, Refusal> {
    let table = find(context, args)?;
    match table.kind {
        Kind::Direct => Ok(table),
        _ => Err(Table::WrongTableType.into()),
    }
}

/// The entry that an argument names.
fn entry(
    context: &mut Context<'_>,
    table: &Found,
    args: Args<'_>,
    id: i16,
) -> Result<EntryHandle, Refusal> {
    let handle = args.i32(id)?;
    let (switch, handles) = context.with_handles(table.id)?;
    Ok(handles.entry(switch, table.id, handle)?)
}

/// The action that arguments `name` and `data` give.
fn action(
    switch: &Switch,
    table: TableId,
    args: Args<'_>,
    (name, data): (i16, i16),
) -> Result<ActionCall, Refusal> {
    let action = switch.info().table_action(table, args.text(name)?);
    Ok(ActionCall {
        action: action.ok_or(Table::InvalidActionName)?,
        args: args.byte_strings(data)?,
    })
}

fn key(table: &Found, args: Args<'_>, id: i16) -> Result<Vec<KeyMatch>, Refusal> {
    keys::to_dataplane(&table.info, &args.structs(id)?)
}

fn priority(table: &Found, args: Args<'_>, id: i16) -> Result<i32, Refusal> {
    keys::priority(&table.info, args.fields(id)?.i32(1)?)
}

pub(crate) fn num_entries(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = find(context, args)?;
    let switch = context.switch(Table::InvalidTableName)?;
    let count = switch.entry_count(table.id).map_err(|e| of_table(&e))?;
    Ok(Some(Value::I64(i64::try_from(count).unwrap_or(i64::MAX))))
}

pub(crate) fn clear(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = find(context, args)?;
    let with_default = args.bool(3)?;
    let (switch, handles) = context.with_handles(table.id)?;
    switch.clear_table(table.id).map_err(|e| of_table(&e))?;
    *handles = crate::handles::Handles::default();
    context.core.node.forget_entries(table.id);
    if with_default {
        reset_default(context, args)?;
    }
    Ok(None)
}

pub(crate) fn add(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = direct(context, args)?;
    let switch = context.switch_mut(Table::InvalidTableName)?;
    let entry = TableEntry {
        action: action(switch, table.id, args, (4, 5))?,
        key: key(&table, args, 3)?,
        priority: priority(&table, args, 6)?,
    };
    let added = switch.insert_entry(table.id, &entry);
    assign(context, &table, added.map_err(|e| of_table(&e))?)
}

/// The answer of a call that added an entry.
fn assign(context: &mut Context<'_>, table: &Found, entry: EntryHandle) -> Answer {
    let (switch, handles) = context.with_handles(table.id)?;
    if switch.entry_count(table.id).is_ok_and(|count| count > 1) {
        // Entries that P4Runtime or the program wrote get theirs first.
        handles.catch_up(switch, table.id, entry);
    }
    Ok(Some(Value::I32(handles.assign(switch, table.id, entry))))
}

pub(crate) fn set_default(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = direct(context, args)?;
    let switch = context.switch_mut(Table::InvalidTableName)?;
    let call = action(switch, table.id, args, (3, 4))?;
    let set = switch.set_default_entry(table.id, Some(&call));
    set.map_err(|e| of_table(&e))?;
    Ok(None)
}

pub(crate) fn reset_default(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = find(context, args)?;
    profiles::forget_default(context, &table);
    let switch = context.switch_mut(Table::InvalidTableName)?;
    // A const default is the initial one already.
    if !table.info.const_default {
        let reset = switch.set_default_entry(table.id, None);
        reset.map_err(|e| of_table(&e))?;
    }
    Ok(None)
}

pub(crate) fn delete(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = direct(context, args)?;
    delete_from(context, &table, args)
}

/// Deletes the entry that argument 3 names.
pub fn delete_from(context: &mut Context<'_>, table: &Found, args: Args<'_>) -> Answer {
    if table.info.const_entries {
        return Err(Table::ImmutableEntries.into());
    }
    let entry = entry(context, table, args, 3)?;
    let (switch, handles) = context.with_handles(table.id)?;
    let deleted = switch.delete_entry(table.id, entry);
    deleted.map_err(|e| of_table(&e))?;
    handles.forget(entry);
    context.core.node.forget_entry(table.id, entry);
    Ok(None)
}

pub(crate) fn modify(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = direct(context, args)?;
    let call = {
        let switch = context.switch(Table::InvalidTableName)?;
        action(switch, table.id, args, (4, 5))?
    };
    if table.info.const_entries {
        return Err(Table::ImmutableEntries.into());
    }
    let entry = entry(context, &table, args, 3)?;
    let switch = context.switch_mut(Table::InvalidTableName)?;
    let modified = switch.modify_entry(table.id, entry, &call);
    modified.map_err(|e| of_table(&e))?;
    Ok(None)
}

pub(crate) fn set_timeout(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = find(context, args)?;
    if !table.info.support_timeout {
        return Err(Table::AgeingDisabled.into());
    }
    let entry = entry(context, &table, args, 3)?;
    let timeout_ns = u64::from(args.i32(4)?.cast_unsigned()) * 1_000_000;
    let switch = context.switch_mut(Table::InvalidTableName)?;
    let set = switch.set_idle_timeout(table.id, entry, timeout_ns);
    set.map_err(|e| of_table(&e))?;
    Ok(None)
}

pub(crate) fn add_indirect(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = profiles::indirect(context, args)?;
    insert_indirect(context, &table, args, profiles::Points::Member)
}

pub(crate) fn add_to_group(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = profiles::with_selector(context, args)?;
    insert_indirect(context, &table, args, profiles::Points::Group)
}

fn insert_indirect(
    context: &mut Context<'_>,
    table: &Found,
    args: Args<'_>,
    points: profiles::Points,
) -> Answer {
    let target = profiles::target(context, table, points, args.i32(4)?)?;
    let (key, priority) = (key(table, args, 3)?, priority(table, args, 5)?);
    let switch = context.switch_mut(Table::InvalidTableName)?;
    let added = switch.insert_indirect_entry(table.id, &key, priority, target);
    assign(context, table, added.map_err(|e| of_table(&e))?)
}

pub(crate) fn modify_indirect(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = profiles::indirect(context, args)?;
    repoint(context, &table, args, profiles::Points::Member)
}

pub(crate) fn modify_to_group(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = profiles::with_selector(context, args)?;
    repoint(context, &table, args, profiles::Points::Group)
}

fn repoint(
    context: &mut Context<'_>,
    table: &Found,
    args: Args<'_>,
    points: profiles::Points,
) -> Answer {
    let entry = entry(context, table, args, 3)?;
    let target = profiles::target(context, table, points, args.i32(4)?)?;
    let switch = context.switch_mut(Table::InvalidTableName)?;
    let modified = switch.modify_indirect_entry(table.id, entry, target);
    modified.map_err(|e| of_table(&e))?;
    Ok(None)
}

pub(crate) fn delete_indirect(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = profiles::indirect(context, args)?;
    delete_from(context, &table, args)
}

/// `BmActionEntry` of an action.
fn action_entry(switch: &Switch, call: ActionCall) -> Value {
    let info = switch.info().actions.get(call.action.index());
    fields([
        (1, Value::I32(ACTION_DATA)),
        (2, text(info.map_or("", |info| info.name.as_str()))),
        (3, action_data(call.args)),
    ])
}

/// Action data without leading zeros, as bmv2 has it.
pub fn action_data(args: Vec<Vec<u8>>) -> Value {
    let shortened = args.into_iter().map(|arg| {
        let last = arg.len().saturating_sub(1);
        let zeros = arg.iter().take(last).take_while(|byte| **byte == 0).count();
        arg.into_iter().skip(zeros).collect()
    });
    byte_strings(shortened.collect())
}

/// `BmMtEntry` of an entry.
fn entry_value(
    switch: &Switch,
    table: &Found,
    (handle, at): (i32, EntryHandle),
    first: i32,
) -> Option<Value> {
    let entry = switch.entry(table.id, at).ok()?;
    let priority = keys::priority_to_thrift(&table.info, entry.priority, first);
    let action = match switch.entry_target(table.id, at).ok()? {
        Some(ProfileTarget::Member(id)) => fields([
            (1, Value::I32(MEMBER)),
            (4, Value::I32(profiles::handle_of(id))),
        ]),
        Some(ProfileTarget::Group(id)) => fields([
            (1, Value::I32(GROUP)),
            (5, Value::I32(profiles::handle_of(id))),
        ]),
        None => action_entry(switch, entry.action),
    };
    let mut members = vec![
        (1, structs(keys::to_thrift(&table.info, &entry.key))),
        (2, fields([(1, Value::I32(priority))])),
        (3, Value::I32(handle)),
        (4, action),
    ];
    if let Some(life) = life(switch, table, at) {
        members.push((5, life));
    }
    Some(Value::Struct(Struct(members)))
}

/// `BmMtEntryLife` of an entry with a timeout.
fn life(switch: &Switch, table: &Found, at: EntryHandle) -> Option<Value> {
    let timeout_ns = switch.idle_timeout(table.id, at).ok()?;
    let idle_ns = switch.idle_ns(table.id, at).ok()?;
    let millis = |ns: u64| Value::I32(i32::try_from(ns / 1_000_000).unwrap_or(i32::MAX));
    (timeout_ns > 0).then(|| fields([(1, millis(timeout_ns)), (2, millis(idle_ns))]))
}

/// The highest priority of a table whose entries the program declares; else 0.
fn first_priority(switch: &Switch, table: &Found) -> i32 {
    if !(table.info.const_entries && table.info.needs_priority) {
        return 0;
    }
    let entries = switch.entries(table.id).unwrap_or_default().into_iter();
    let entries = entries.filter_map(|at| switch.entry(table.id, at).ok());
    entries.map(|entry| entry.priority).max().unwrap_or(0)
}

/// The entries of a table, some at a time: the answer of `bm_mt_get_entries`.
pub(crate) struct Dump {
    table: Found,
    first: i32,
    left: std::vec::IntoIter<(i32, EntryHandle)>,
    values: Vec<Value>,
}

/// Entries between two batches of frames.
const TURN: usize = 256;

impl Dump {
    pub(crate) fn begin(context: &mut Context<'_>, args: Args<'_>) -> Result<Box<Self>, Refusal> {
        let table = find(context, args)?;
        let (switch, handles) = context.with_handles(table.id)?;
        Ok(Box::new(Self {
            first: first_priority(switch, &table),
            left: handles.all(switch, table.id).into_iter(),
            values: Vec::new(),
            table,
        }))
    }

    /// Reads the next entries; the whole answer when there are none left.
    pub(crate) fn turn(mut self: Box<Self>, context: &mut Context<'_>) -> Result<Value, Box<Self>> {
        let Some(switch) = context.core.node.switch() else {
            return Ok(structs(self.values));
        };
        for at in self.left.by_ref().take(TURN) {
            // One that was deleted meanwhile is left out.
            let value = entry_value(switch, &self.table, at, self.first);
            self.values.extend(value);
        }
        if self.left.len() == 0 {
            return Ok(structs(self.values));
        }
        Err(self)
    }
}

pub(crate) fn get(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = find(context, args)?;
    let at = entry(context, &table, args, 3)?;
    one(context, &table, at)
}

fn one(context: &mut Context<'_>, table: &Found, at: EntryHandle) -> Answer {
    let (switch, handles) = context.with_handles(table.id)?;
    let handle = handles.handle(switch, table.id, at);
    let first = first_priority(switch, table);
    let value = entry_value(switch, table, (handle, at), first);
    Ok(Some(value.ok_or(Table::InvalidHandle)?))
}

pub(crate) fn get_by_key(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = find(context, args)?;
    if args.structs(3)?.is_empty() {
        let default = default_entry(context, &table)?;
        return Ok(Some(fields([(4, default)])));
    }
    let (key, mut priority) = (key(&table, args, 3)?, priority(&table, args, 4)?);
    let switch = context.switch(Table::InvalidTableName)?;
    if table.info.const_entries && table.info.needs_priority {
        let given = args.fields(4)?.i32(1)?;
        priority = first_priority(switch, &table)
            .saturating_sub(given)
            .saturating_add(1);
    }
    let at = switch.find_entry(table.id, &key, priority);
    // bmv2's code for a key that no entry has, too.
    let at = at.map_err(|_| Table::BadMatchKey)?;
    one(context, &table, at)
}

pub(crate) fn get_default(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = find(context, args)?;
    Ok(Some(default_entry(context, &table)?))
}

fn default_entry(context: &Context<'_>, table: &Found) -> Result<Value, Refusal> {
    let none = fields([(1, Value::I32(NONE))]);
    if table.kind != Kind::Direct {
        let member = profiles::default_member(context, table);
        return Ok(member.map_or(none, |member| {
            fields([(1, Value::I32(MEMBER)), (4, Value::I32(member))])
        }));
    }
    let switch = context.switch(Table::InvalidTableName)?;
    let default = switch.default_entry(table.id).map_err(|e| of_table(&e))?;
    Ok(default.map_or(none, |call| action_entry(switch, call)))
}

fn with_counter(context: &Context<'_>, args: Args<'_>) -> Result<Found, Refusal> {
    let table = find(context, args)?;
    let counts = table.info.direct_counter.is_some();
    counts
        .then_some(table)
        .ok_or_else(|| Table::CountersDisabled.into())
}

pub(crate) fn read_counter(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = with_counter(context, args)?;
    let at = entry(context, &table, args, 3)?;
    let switch = context.switch(Table::InvalidTableName)?;
    let value = switch.direct_counter(table.id, at);
    Ok(Some(counter_value(value.map_err(|e| of_table(&e))?)))
}

pub(crate) fn reset_counters(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = with_counter(context, args)?;
    let switch = context.switch_mut(Table::InvalidTableName)?;
    for at in switch.entries(table.id).map_err(|e| of_table(&e))? {
        let reset =
            switch.set_direct_counter(table.id, at, weir_dataplane::CounterValue::default());
        reset.map_err(|e| of_table(&e))?;
    }
    Ok(None)
}

pub(crate) fn write_counter(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = with_counter(context, args)?;
    let at = entry(context, &table, args, 3)?;
    let value = crate::arrays::to_counter(args.fields(4)?)?;
    let switch = context.switch_mut(Table::InvalidTableName)?;
    let set = switch.set_direct_counter(table.id, at, value);
    set.map_err(|e| of_table(&e))?;
    Ok(None)
}

fn with_meter(context: &Context<'_>, args: Args<'_>) -> Result<Found, Refusal> {
    let table = find(context, args)?;
    let meters = table.info.direct_meter.is_some();
    meters
        .then_some(table)
        .ok_or_else(|| Table::MetersDisabled.into())
}

pub(crate) fn set_meter(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = with_meter(context, args)?;
    let at = entry(context, &table, args, 3)?;
    let config: MeterConfig = meter_config(&rates(args, 4)?).map_err(|refusal| match refusal {
        Refusal::Declared(code) if code <= Meter::Error as i32 => Table::Error.into(),
        refusal => refusal,
    })?;
    let switch = context.switch_mut(Table::InvalidTableName)?;
    let set = switch.set_direct_meter(table.id, at, Some(config));
    set.map_err(|e| of_table(&e))?;
    Ok(None)
}

pub(crate) fn get_meter(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let table = with_meter(context, args)?;
    let at = entry(context, &table, args, 3)?;
    let switch = context.switch(Table::InvalidTableName)?;
    let config = switch
        .direct_meter(table.id, at)
        .map_err(|e| of_table(&e))?;
    Ok(Some(to_rates(config)))
}
