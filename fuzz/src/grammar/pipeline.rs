// SPDX-License-Identifier: Apache-2.0
//! Pipelines: tables, conditions and calls of actions, each followed by a later one.

use serde_json::{Map, Value, json};

use super::Gress;
use super::action::Action;
use super::declared::{Declared, Field};
use super::expression::{DEPTH, Scope, hex};
use super::witness;
use crate::choices::Choices;

const MOST_NODES: usize = 5;

/// Direct counters and meters, which the program lists beside the others.
#[derive(Default)]
pub struct Direct {
    pub counters: Vec<Value>,
    pub meters: Vec<Value>,
}

/// A pipeline being generated.
struct Writer<'a> {
    declared: &'a Declared,
    /// The pipeline's own actions.
    actions: Vec<&'a Action>,
    /// Names of all nodes, in order, except the last.
    nodes: Vec<String>,
    /// Name of the node that is the last one on every way; null if there is none.
    last: Value,
    direct: &'a mut Direct,
    profiles: Vec<Value>,
}

/// One of the pipelines.
pub fn pipeline(
    choices: &mut Choices<'_>,
    declared: &Declared,
    actions: &[Action],
    gress: Gress,
    direct: &mut Direct,
) -> Value {
    let name = gress.name();
    let count = match gress {
        Gress::Ingress => choices.usize(1..=MOST_NODES),
        Gress::Egress => choices.usize(..MOST_NODES),
    };
    let actions: Vec<&Action> = actions
        .iter()
        .filter(|action| action.gress == gress)
        .collect();
    let witness = witness::node(&actions, count);
    let mut writer = Writer {
        declared,
        actions,
        last: witness
            .as_ref()
            .map_or(Value::Null, |node| node["name"].clone()),
        nodes: (0..count).map(|number| format!("{name}{number}")).collect(),
        direct,
        profiles: Vec::new(),
    };
    let (mut tables, mut conditions, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..count {
        match choices.u8(..8) {
            0 => conditions.push(writer.condition(choices, at)),
            1..4 => calls.push(writer.call(choices, at)),
            _ => tables.push(writer.table(choices, at)),
        }
    }
    calls.extend(witness);
    let first = writer.nodes.first().map_or(writer.last, |node| json!(node));
    json!({
        "name": name, "id": gress as usize, "init_table": first,
        "tables": tables, "action_profiles": writer.profiles, "conditionals": conditions,
        "action_calls": calls
    })
}

impl Writer<'_> {
    /// A later node, or the last.
    fn next(&self, choices: &mut Choices<'_>, at: usize) -> Value {
        let later = self.nodes.get(at + 1..).unwrap_or_default();
        match choices.choice(later) {
            Some(name) if choices.u8(..6) > 0 => json!(name),
            _ => self.last.clone(),
        }
    }

    fn condition(&self, choices: &mut Choices<'_>, at: usize) -> Value {
        let scope = Scope {
            declared: self.declared,
            params: &[],
            parser: false,
        };
        json!({
            "name": self.nodes[at], "id": at, "expression": scope.boolean(choices, DEPTH),
            "true_next": self.next(choices, at), "false_next": self.next(choices, at)
        })
    }

    /// A call of an action without parameters: steps that every packet at this node runs.
    fn call(&self, choices: &mut Choices<'_>, at: usize) -> Value {
        let callable = |action: &&&Action| action.params.is_empty();
        let actions: Vec<&&Action> = self.actions.iter().filter(callable).collect();
        let action = choices.choice(&actions).map(|action| action.id);
        json!({
            "name": self.nodes[at], "id": at, "action_id": action,
            "next_node": self.next(choices, at)
        })
    }

    fn table(&mut self, choices: &mut Choices<'_>, at: usize) -> Value {
        let name = self.nodes[at].clone();
        let key = self.key(choices);
        let mut actions: Vec<&Action> = self
            .actions
            .iter()
            .copied()
            .filter(|_| choices.u8(..4) > 0)
            .collect();
        if actions.is_empty() {
            actions.push(self.actions[0]);
        }
        let next = self.next(choices, at);
        let mut next_tables = Map::new();
        if choices.u8(..3) == 0 {
            for label in ["__HIT__", "__MISS__"] {
                next_tables.insert(label.to_owned(), self.next(choices, at));
            }
        } else {
            for action in &actions {
                let to = if choices.u8(..3) == 0 {
                    self.next(choices, at)
                } else {
                    next.clone()
                };
                next_tables.insert(action.name.clone(), to);
            }
        }
        let default = choices.choice(&actions).copied().unwrap_or(self.actions[0]);
        let is_const = key.is_empty() && choices.u8(..4) > 0;
        let mut table = json!({
            "name": name, "id": at, "type": "simple", "max_size": 16, "support_timeout": false,
            "with_counters": false, "direct_meters": null,
            "action_ids": actions.iter().map(|action| action.id).collect::<Vec<_>>(),
            "base_default_next": next, "next_tables": next_tables,
            "default_entry": {
                "action_id": default.id, "action_const": is_const,
                "action_data": data(choices, default), "action_entry_const": is_const
            }
        });
        if key.len() == 1 && choices.u8(..4) == 0 {
            table["entries"] = Value::from(entries(choices, &key[0], &actions));
        } else if !self.declared.plain && !key.is_empty() && choices.u8(..4) == 0 {
            self.indirect(choices, &mut table);
        }
        self.direct(choices, &name, &mut table);
        table["key"] = Value::from(key);
        table
    }

    fn key(&self, choices: &mut Choices<'_>) -> Vec<Value> {
        let kinds = ["exact", "exact", "ternary", "range", "optional", "lpm"];
        let mut has_lpm = false;
        let mut key = Vec::new();
        for number in 0..choices.usize(..5) {
            let mut kind = choices.choice(kinds).unwrap_or("exact");
            if kind == "lpm" && std::mem::replace(&mut has_lpm, true) {
                kind = "ternary";
            }
            let Some(field) = choices.choice(&self.declared.fields) else {
                break;
            };
            let target = match choices.choice(&self.declared.addable) {
                Some(header) if choices.u8(..8) == 0 && kind != "lpm" => json!([header, "$valid$"]),
                _ => field.pair(),
            };
            let mask = if choices.u8(..8) == 0 && target[1] != "$valid$" {
                json!(hex(choices, field.width))
            } else {
                Value::Null
            };
            key.push(json!({
                "match_type": kind, "name": format!("key{number}"), "target": target, "mask": mask
            }));
        }
        key
    }

    /// Makes the table's actions those of a profile, with a selector or without.
    fn indirect(&mut self, choices: &mut Choices<'_>, table: &mut Value) {
        let profile = format!("{}_profile", table["name"].as_str().unwrap_or_default());
        let mut described = json!({"name": profile, "id": self.profiles.len(), "max_size": 8});
        table["type"] = json!("indirect");
        if choices.bool() {
            let input: Vec<Value> = (0..choices.usize(1..3))
                .filter_map(|_| choices.choice(&self.declared.fields))
                .map(Field::value)
                .collect();
            described["selector"] = json!({"algo": "crc16", "input": input});
            table["type"] = json!("indirect_ws");
        }
        table["action_profile"] = json!(profile);
        if let Some(table) = table.as_object_mut() {
            table.remove("default_entry");
        }
        self.profiles.push(described);
    }

    fn direct(&mut self, choices: &mut Choices<'_>, name: &str, table: &mut Value) {
        if choices.u8(..4) == 0 {
            table["with_counters"] = json!(true);
            self.direct.counters.push(json!({
                "name": format!("{name}_counter"), "is_direct": true, "binding": name
            }));
        }
        let unsigned = |field: &&Field| !field.signed && field.width >= 2;
        let fields: Vec<&Field> = self.declared.metadata.iter().filter(unsigned).collect();
        if choices.u8(..6) == 0
            && let Some(field) = choices.choice(&fields)
        {
            let meter = format!("{name}_meter");
            table["direct_meters"] = json!(meter);
            self.direct.meters.push(json!({
                "name": meter, "is_direct": true, "rate_count": 2, "type": "bytes", "size": 16,
                "binding": name, "result_target": field.pair()
            }));
        }
    }
}

/// Arguments of an action.
fn data(choices: &mut Choices<'_>, action: &Action) -> Vec<Value> {
    let one = |width: &u32| Value::from(hex(choices, *width));
    action.params.iter().map(one).collect()
}

/// Entries 0 and 1 of a table with one field in its key.
fn entries(choices: &mut Choices<'_>, key: &Value, actions: &[&Action]) -> Vec<Value> {
    let kind = key["match_type"].as_str().unwrap_or("exact");
    if kind == "lpm" {
        return Vec::new();
    }
    (0..choices.usize(1..3))
        .filter_map(|number| {
            let action = choices.choice(actions)?;
            let value = format!("0x{number:x}");
            let matched = match kind {
                "range" => json!({"match_type": kind, "start": value, "end": value}),
                "exact" => json!({"match_type": kind, "key": value}),
                _ => json!({"match_type": kind, "key": value, "mask": "0x1"}),
            };
            Some(json!({
                "match_key": [matched], "priority": number + 1,
                "action_entry": {"action_id": action.id, "action_data": data(choices, action)}
            }))
        })
        .collect()
}
