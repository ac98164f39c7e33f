// SPDX-License-Identifier: Apache-2.0
//! Carries out the control commands of a script (all except packets).

use crate::names;
use crate::number::Number;
use crate::stf::{Call, Command, Compare};
use std::collections::BTreeMap;
use weir_dataplane::{
    ActionCall, ActionId, CloneSession, CounterId, CounterValue, EntryHandle, KeyFieldInfo,
    KeyMatch, MatchKind, MeterConfig, MeterId, RegisterId, Replica, Switch, TableEntry, TableId,
};

/// Frame check sequence: scripts count it in byte counters, but the switch's frames have none.
const FCS_BYTES: u64 = 4;

/// The destination of a clone session's copies.
#[derive(Debug, Clone, Copy)]
enum Mirror {
    Port(u32),
    Group(u32),
}

/// State that scripts refer to and the switch does not store in this form.
#[derive(Debug, Default)]
pub(super) struct Control {
    labels: BTreeMap<String, (TableId, EntryHandle)>,
    groups: BTreeMap<u32, Vec<usize>>,
    nodes: Vec<(u16, Vec<u32>)>,
    mirrors: BTreeMap<u32, Mirror>,
    /// Groups or sessions changed since the last [`Control::settle`].
    changed: bool,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Control {
    /// Carries out one command.
    pub(super) fn apply(&mut self, switch: &mut Switch, command: &Command) -> Result<(), String> {
        match command {
            Command::Packet { .. } | Command::Expect { .. } | Command::Nothing => Ok(()),
            Command::Add {
                table,
                priority,
                key,
                call,
                label,
            } => {
                let id = names::table(switch.info(), table)?;
                let entry = entry(switch, id, *priority, key, call)?;
                let handle = switch.insert_entry(id, &entry).map_err(text)?;
                if let Some(label) = label {
                    self.labels.insert(label.clone(), (id, handle));
                }
                Ok(())
            }
            Command::SetDefault { table, call } => {
                let id = names::table(switch.info(), table)?;
                let call = action_call(switch, id, call)?;
                switch.set_default_entry(id, Some(&call)).map_err(text)
            }
            Command::RemoveAll => {
                let tables = 0..u32::try_from(switch.info().tables.len()).map_err(text)?;
                for id in tables {
                    if !switch.info().tables[id as usize].const_entries {
                        switch.clear_table(TableId(id)).map_err(text)?;
                    }
                }
                Ok(())
            }
            Command::CounterWrite { name, numbers } => {
                let id = counter(switch, name)?;
                let [index, packets, bytes] = *numbers;
                let value = CounterValue { packets, bytes };
                switch.set_counter(id, index, value).map_err(text)
            }
            Command::RegisterWrite { name, index, value } => {
                let id = register(switch, name)?;
                let value = Number::parse(value)?.value();
                switch.set_register(id, *index, &value).map_err(text)
            }
            Command::RegisterReset { name } => {
                let id = register(switch, name)?;
                for index in 0..switch.info().registers[id.0 as usize].size {
                    switch.set_register(id, index, &[0]).map_err(text)?;
                }
                Ok(())
            }
            Command::MeterRates { name, index, rates } => meter_rates(switch, name, *index, rates),
            Command::CheckCounter { name, index, check } => {
                self.check_counter(switch, name, index, *check)
            }
            replication => self.replication(replication),
        }
    }

    fn replication(&mut self, command: &Command) -> Result<(), String> {
        self.changed = true;
        let node_of = |nodes: &mut Vec<(u16, Vec<u32>)>, node: usize| {
            if node < nodes.len() {
                Ok(node)
            } else {
                Err(format!("node {node}, there are {}", nodes.len()))
            }
        };
        match command {
            Command::MirrorPort { session, port } => {
                self.mirrors.insert(*session, Mirror::Port(*port));
            }
            Command::MirrorGroup { session, group } => {
                self.mirrors.insert(*session, Mirror::Group(*group));
            }
            Command::GroupCreate { group } => {
                self.groups.insert(*group, Vec::new());
            }
            Command::NodeCreate { rid, ports } => self.nodes.push((*rid, ports.clone())),
            Command::NodeUpdate { node, ports } => {
                let node = node_of(&mut self.nodes, *node)?;
                self.nodes[node].1.clone_from(ports);
            }
            Command::NodeAssociate { group, node } => {
                let node = node_of(&mut self.nodes, *node)?;
                let group = self.groups.get_mut(group);
                group.ok_or("the group does not exist")?.push(node);
            }
            other => return Err(format!("{other:?} is not carried out here")),
        }
        Ok(())
    }

    fn replicas(&self, group: u32) -> Vec<Replica> {
        let nodes = self.groups.get(&group).into_iter().flatten();
        nodes
            .filter_map(|node| self.nodes.get(*node))
            .flat_map(|(rid, ports)| {
                ports.iter().map(|port| Replica {
                    port: *port,
                    instance: *rid,
                })
            })
            .collect()
    }

    /// Writes changed groups and sessions to the switch.
    pub(super) fn settle(&mut self, switch: &mut Switch) -> Result<(), String> {
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        for group in self.groups.keys() {
            let replicas = self.replicas(*group);
            let done = match switch.insert_multicast_group(*group, &replicas) {
                Err(_) => switch.modify_multicast_group(*group, &replicas),
                done => done,
            };
            done.map_err(text)?;
        }
        for (id, mirror) in &self.mirrors {
            let session = CloneSession {
                replicas: match mirror {
                    Mirror::Port(port) => vec![Replica {
                        port: *port,
                        instance: 0,
                    }],
                    Mirror::Group(group) => self.replicas(*group),
                },
                ..CloneSession::default()
            };
            let done = match switch.insert_clone_session(*id, &session) {
                Err(_) => switch.modify_clone_session(*id, &session),
                done => done,
            };
            done.map_err(text)?;
        }
        Ok(())
    }

    fn check_counter(
        &self,
        switch: &Switch,
        name: &str,
        index: &str,
        check: Option<(bool, Compare, u64)>,
    ) -> Result<(), String> {
        let value = match index.strip_prefix('$') {
            Some(label) => {
                let entry = self.labels.get(label);
                let (table, entry) = entry.ok_or_else(|| format!("no entry bears {label:?}"))?;
                switch.direct_counter(*table, *entry).map_err(text)?
            }
            None => {
                let id = counter(switch, name)?;
                let index = Number::parse(index)?.to_u64()?;
                switch.counter(id, index).map_err(text)?
            }
        };
        let Some((bytes, compare, right)) = check else {
            return Ok(());
        };
        let left = if bytes {
            value.bytes + FCS_BYTES * value.packets
        } else {
            value.packets
        };
        if compare.holds(left, right) {
            return Ok(());
        }
        Err(format!(
            "{name}({index}) is {left}, not {compare:?} {right}"
        ))
    }
}

fn counter(switch: &Switch, name: &str) -> Result<CounterId, String> {
    let names = switch.info().counters.iter().map(|c| c.name.as_str());
    Ok(CounterId(id(names::find("counter", name, names)?)))
}

fn register(switch: &Switch, name: &str) -> Result<RegisterId, String> {
    let names = switch.info().registers.iter().map(|r| r.name.as_str());
    Ok(RegisterId(id(names::find("register", name, names)?)))
}

fn id(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// A meter configuration from bmv2's CLI rates: units per microsecond and burst, committed then peak.
fn meter_rates(
    switch: &mut Switch,
    name: &str,
    index: Option<u64>,
    rates: &[(f64, u64)],
) -> Result<(), String> {
    let names = switch.info().meters.iter().map(|m| m.name.as_str());
    let meter = MeterId(id(names::find("meter", name, names)?));
    let [(committed, cbs), (peak, pbs)] = rates else {
        return Err(format!("{} rates; a meter of v1model has two", rates.len()));
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates"
    )]
    let per_second = |per_us: f64| (per_us * 1e6).round() as u64;
    let config = MeterConfig::TwoRateThreeColour {
        cir: per_second(*committed),
        cbs: *cbs,
        pir: per_second(*peak),
        pbs: *pbs,
    };
    let size = switch.info().meters[meter.0 as usize].size;
    let cells = index.map_or(0..size, |index| index..index.saturating_add(1));
    for cell in cells {
        switch.set_meter(meter, cell, Some(config)).map_err(text)?;
    }
    Ok(())
}

fn action_call(switch: &Switch, table: TableId, call: &Call) -> Result<ActionCall, String> {
    let info = switch.info();
    let actions: &[ActionId] = &info.tables[table.0 as usize].actions;
    let action = names::action(info, actions, &call.action)?;
    let params = &info.actions[action.0 as usize].params;
    if let Some((name, _)) = call
        .args
        .iter()
        .find(|(name, _)| params.iter().all(|p| p.name != *name))
    {
        return Err(format!("{} has no parameter {name:?}", call.action));
    }
    let args: Result<Vec<Vec<u8>>, String> = params
        .iter()
        .map(|param| {
            let given = call.args.iter().find(|(name, _)| *name == param.name);
            let (_, value) =
                given.ok_or_else(|| format!("{} lacks {:?}", call.action, param.name))?;
            Ok(Number::parse(value)?.value())
        })
        .collect();
    Ok(ActionCall {
        action,
        args: args?,
    })
}

fn entry(
    switch: &Switch,
    table: TableId,
    priority: Option<u64>,
    key: &[(String, String)],
    call: &Call,
) -> Result<TableEntry, String> {
    let info = &switch.info().tables[table.0 as usize];
    let names: Vec<&str> = info.key.iter().map(|field| field.name.as_str()).collect();
    let mut given: Vec<Option<&str>> = vec![None; names.len()];
    for (name, value) in key {
        given[names::key_field(&names, name)?] = Some(value);
    }
    let key: Result<Vec<KeyMatch>, String> = info
        .key
        .iter()
        .zip(given)
        .map(|(field, given)| key_match(field, given))
        .collect();
    let priority = match (info.needs_priority, priority) {
        (false, _) => 0,
        // Scripts count from 0, the switch (as P4Runtime does) from 1.
        (true, Some(priority)) => i32::try_from(priority.saturating_add(1)).map_err(text)?,
        (true, None) => return Err(format!("table {} needs a priority", info.name)),
    };
    Ok(TableEntry {
        key: key?,
        priority,
        action: action_call(switch, table, call)?,
    })
}

/// The key of an entry. An absent field is 0 for an exact match, else anything; ranges are `low..high`.
fn key_match(field: &KeyFieldInfo, given: Option<&str>) -> Result<KeyMatch, String> {
    let width = field.width_bits;
    let Some(given) = given else {
        return Ok(match field.kind {
            MatchKind::Exact => KeyMatch::Exact(vec![0]),
            _ => KeyMatch::Any,
        });
    };
    match field.kind {
        MatchKind::Exact | MatchKind::Optional => {
            Ok(KeyMatch::Exact(Number::parse(given)?.value()))
        }
        MatchKind::Ternary => {
            let (value, mask) = Number::parse(given)?.masked(width);
            Ok(if mask.iter().all(|byte| *byte == 0) {
                KeyMatch::Any
            } else {
                KeyMatch::Ternary { value, mask }
            })
        }
        MatchKind::Range => {
            let (low, high) = given.split_once("..").unwrap_or((given, given));
            Ok(KeyMatch::Range {
                low: Number::parse(low)?.value(),
                high: Number::parse(high)?.value(),
            })
        }
        MatchKind::Lpm => {
            let (value, length) = match given.split_once('/') {
                None => {
                    let value = Number::parse(given)?;
                    let length = value.known_bits().min(width);
                    (value, length)
                }
                Some((value, length)) => {
                    let length = length.trim().parse().map_err(text)?;
                    (Number::parse(value)?, length)
                }
            };
            Ok(match length {
                0 => KeyMatch::Any,
                prefix_len => KeyMatch::Lpm {
                    value: value.value(),
                    prefix_len,
                },
            })
        }
    }
}
