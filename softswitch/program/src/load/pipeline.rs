// SPDX-License-Identifier: Apache-2.0
//! Pipelines: tables, conditions and the edges between them.

use super::emit::{Demand, compile};
use super::entries::const_match;
use super::expr::{Ast, hexstr, pair, text};
use super::flatten::flatten;
use super::log::Source;
use super::{Loader, Result, dangling, invalid, unsupported};
use crate::info::{
    ActionId, CounterId, KeyFieldInfo, MatchKind, MeterId, MeterUnit, TableId, TableInfo,
};
use crate::ir::{
    AnyField, Call, Condition, ConstEntry, Field, KeyPart, Node, Op, Table, WideField,
};
use crate::key_match::KeyMatch;
use crate::value::value_bytes;
use serde_json::Value;
use std::collections::HashMap;
use weir_bmv2_json::{ActionEntry, Conditional, Key, Pipeline, Table as JsonTable, TableEntry};

/// Nodes of one pipeline by name.
type Nodes = HashMap<String, Node>;

fn next_node(nodes: &Nodes, name: Option<&str>, location: &str) -> Result<Node> {
    match name {
        None => Ok(Node::End),
        Some(name) => nodes
            .get(name)
            .copied()
            .ok_or_else(|| dangling(location, "next node", name)),
    }
}

/// The condition as bmv2 logs it, up to its value.
fn condition_text(json: &Conditional) -> String {
    let name = &json.name;
    match Source::of(&json.source_info) {
        Some(source) => format!("{} Condition \"{}\" ({name})", source.place, source.text),
        None => format!("Condition \"{name}\" ({name})"),
    }
}

impl Loader<'_> {
    pub(super) fn pipelines(&mut self) -> Result<()> {
        for pipeline in &self.json.pipelines {
            let location = format!("pipelines {:?}", pipeline.name);
            self.profiles(pipeline)?;
            let nodes = self.nodes(pipeline)?;
            for table in &pipeline.tables {
                self.table(table, &nodes)?;
            }
            let spare = self.ir.conditions.len() + pipeline.conditionals.len();
            let mut halves = Vec::new();
            for condition in &pipeline.conditionals {
                let named = self.info.log_names.conditions.len();
                let named = u16::try_from(named).unwrap_or(u16::MAX);
                self.info
                    .log_names
                    .conditions
                    .push(condition_text(condition));
                let location = format!("conditionals {:?}", condition.name);
                let value = self.read(&condition.expression, &[], &location)?;
                let if_true = next_node(&nodes, condition.true_next.as_deref(), &location)?;
                let if_false = next_node(&nodes, condition.false_next.as_deref(), &location)?;
                let next = (if_true, if_false);
                let condition =
                    self.conjunction(&value, next, (named, spare), &mut halves, &location)?;
                self.ir.conditions.push(condition);
            }
            self.ir.conditions.append(&mut halves);
            for call in &pipeline.action_calls {
                let location = format!("action_calls {:?}", call.name);
                let action = self.action_of(call.action_id, &location)?;
                if self
                    .ir
                    .actions
                    .get(usize::from(action))
                    .is_some_and(|a| !a.params.is_empty())
                {
                    return Err(invalid(
                        &location,
                        "calls an action that has parameters".into(),
                    ));
                }
                let next = next_node(&nodes, call.next_node.as_deref(), &location)?;
                let table = None;
                self.ir.calls.push(Call {
                    action,
                    next,
                    table,
                });
            }
            let start = Some(next_node(
                &nodes,
                pipeline.init_table.as_deref(),
                &location,
            )?);
            match pipeline.name.as_str() {
                "ingress" => self.ir.ingress = start,
                "egress" => self.ir.egress = start,
                _ => {
                    return Err(unsupported(
                        &location,
                        "a pipeline beside \"ingress\" and \"egress\"".into(),
                    ));
                }
            }
        }
        if self.ir.ingress.is_none() || self.ir.egress.is_none() {
            return Err(invalid(
                "pipelines",
                "v1model has \"ingress\" and \"egress\"; one is missing".into(),
            ));
        }
        self.check_acyclic()?;
        self.call_keyless_tables();
        self.ir.flat = flatten(&self.ir);
        self.prefetch();
        Ok(())
    }

    /// Splits `a && b` into two conditions, so that `b` is only evaluated if `a` is true. The second halves come after
    /// the conditions that have names.
    fn conjunction(
        &mut self,
        value: &Ast,
        (if_true, if_false): (Node, Node),
        (named, spare): (u16, usize),
        halves: &mut Vec<Condition>,
        location: &str,
    ) -> Result<Condition> {
        let mut then = if_true;
        let mut first = value;
        while let Ast::Binary(Op::BoolAnd, left, right) = first {
            let Ok(index) = u16::try_from(spare + halves.len()) else {
                break;
            };
            let half = Condition {
                value: compile(&mut self.ir, right, Demand::Exact, location)?,
                if_true: then,
                if_false,
                named,
                last: then == if_true,
            };
            halves.push(half);
            then = Node::Condition(index);
            first = left;
        }
        Ok(Condition {
            value: compile(&mut self.ir, first, Demand::Exact, location)?,
            if_true: then,
            if_false,
            named,
            last: then == if_true,
        })
    }

    /// A table without a key (p4c makes one of each block of statements) can only run its default action; if that is
    /// const, an edge to the table becomes a call.
    fn call_keyless_tables(&mut self) {
        let mut calls = std::mem::take(&mut self.ir.calls);
        let mut instead = Vec::new();
        for (number, (table, info)) in (0..).zip(self.ir.tables.iter().zip(&self.info.tables)) {
            let default = table.default.as_ref().filter(|(_, args)| {
                table.key.is_empty()
                    && info.const_default
                    && args.is_empty()
                    && !table.direct_counter
                    && table.direct_meter.is_none()
                    && table.profile.is_none()
            });
            let call = default.and_then(|(local, _)| {
                let action = *table.actions.get(usize::from(*local))?;
                let next = table
                    .miss
                    .or_else(|| table.next.get(usize::from(*local)).copied());
                let next = next.unwrap_or(table.base_next);
                let index = u16::try_from(calls.len()).ok()?;
                let table = Some(number);
                calls.push(Call {
                    action,
                    next,
                    table,
                });
                Some(Node::Call(index))
            });
            instead.push(call);
        }
        let redirect = |node: &mut Node| {
            if let Node::Table(index) = *node
                && let Some(Some(call)) = instead.get(usize::from(index))
            {
                *node = *call;
            }
        };
        calls.iter_mut().for_each(|call| redirect(&mut call.next));
        self.ir.calls = calls;
        for condition in &mut self.ir.conditions {
            redirect(&mut condition.if_true);
            redirect(&mut condition.if_false);
        }
        for table in &mut self.ir.tables {
            table.next.iter_mut().for_each(redirect);
            table.hit.iter_mut().for_each(redirect);
            table.miss.iter_mut().for_each(redirect);
            redirect(&mut table.base_next);
        }
        self.ir.ingress.iter_mut().for_each(redirect);
        self.ir.egress.iter_mut().for_each(redirect);
    }

    fn action_of(&self, id: i64, location: &str) -> Result<u16> {
        self.names
            .actions
            .get(&id)
            .copied()
            .ok_or_else(|| dangling(location, "action id", &id.to_string()))
    }

    fn nodes(&self, pipeline: &Pipeline) -> Result<Nodes> {
        let mut nodes = Nodes::new();
        let mut add = |name: &String, node: Option<Node>| {
            let node = node.ok_or_else(|| {
                unsupported("pipelines", "more than 65,535 tables or conditions".into())
            })?;
            match nodes.insert(name.clone(), node) {
                None => Ok(()),
                Some(_) => Err(invalid(
                    &format!("pipelines {:?}", pipeline.name),
                    format!("{name:?} stands twice"),
                )),
            }
        };
        let number = |base: usize, i: usize| u16::try_from(base + i).ok();
        for (i, table) in pipeline.tables.iter().enumerate() {
            add(
                &table.name,
                number(self.ir.tables.len(), i).map(Node::Table),
            )?;
        }
        for (i, condition) in pipeline.conditionals.iter().enumerate() {
            add(
                &condition.name,
                number(self.ir.conditions.len(), i).map(Node::Condition),
            )?;
        }
        for (i, call) in pipeline.action_calls.iter().enumerate() {
            add(&call.name, number(self.ir.calls.len(), i).map(Node::Call))?;
        }
        Ok(nodes)
    }

    fn table(&mut self, json: &JsonTable, nodes: &Nodes) -> Result<()> {
        let location = format!("tables {:?}", json.name);
        let id = TableId(u32::try_from(self.ir.tables.len()).unwrap_or(u32::MAX));
        let profile = self.profile_of(json, id, &location)?;
        let (key, infos, key_words) = self.key(&json.key, &location)?;
        let needs_priority = infos.iter().any(|k| {
            matches!(
                k.kind,
                MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
            )
        });

        let mut actions = Vec::new();
        for action in &json.action_ids {
            actions.push(self.action_of(*action, &location)?);
        }
        let label = |name: &str| json.next_tables.get(name);
        let edge = |value: &Value| next_node(nodes, value.as_str(), &location);
        let base_next = next_node(nodes, json.base_default_next.as_deref(), &location)?;
        let hit = label("__HIT__").map(edge).transpose()?;
        let miss = label("__MISS__").map(edge).transpose()?;
        let mut next = Vec::new();
        for action in &actions {
            let name = self
                .info
                .actions
                .get(usize::from(*action))
                .map_or("", |a| a.name.as_str());
            next.push(label(name).map(edge).transpose()?.unwrap_or(base_next));
        }
        let default = match &json.default_entry {
            None => None,
            Some(entry) => Some(self.action_entry(entry, &actions, &location)?),
        };
        let mut table = Table {
            key,
            key_words,
            actions,
            next,
            hit,
            miss,
            base_next,
            default: default.map(|(action, args)| (action, args.concat())),
            entries: Vec::new(),
            direct_counter: false,
            direct_meter: None,
            meter_bytes: false,
            support_timeout: json.support_timeout,
            profile: profile.map(|(_, used)| used),
        };
        let mut info = TableInfo {
            name: json.name.clone(),
            json_id: i32::try_from(json.id).unwrap_or(i32::MAX),
            key: infos,
            actions: table
                .actions
                .iter()
                .map(|a| ActionId(u32::from(*a)))
                .collect(),
            size: usize::try_from(json.max_size.unwrap_or(1024)).unwrap_or(usize::MAX),
            needs_priority,
            const_entries: json.entries.is_some(),
            const_default: json.default_entry.as_ref().is_some_and(|d| d.action_const),
            direct_counter: None,
            direct_meter: None,
            support_timeout: json.support_timeout,
            profile: profile.map(|(id, _)| id),
        };
        self.direct(json, id, &mut table, &mut info, &location)?;
        if let Some(entries) = &json.entries {
            // Without priorities, the first entry that matches wins.
            let given = |(number, entry): (i64, &TableEntry)| entry.priority.unwrap_or(number);
            let last = (0..).zip(entries).map(given).max().unwrap_or(0);
            for (number, entry) in (0..).zip(entries) {
                let location = format!("{location} entry {number}");
                // In BMv2 JSON the lowest priority wins, in P4Runtime (and here) the highest.
                let given = given((number, entry));
                let priority =
                    i32::try_from(last.max(given).saturating_sub(given).saturating_add(1));
                let priority =
                    priority.map_err(|_| invalid(&location, format!("priority {given}")))?;
                if entry.match_key.len() != info.key.len() {
                    return Err(invalid(
                        &location,
                        format!("{} match fields", entry.match_key.len()),
                    ));
                }
                let key: Result<Vec<KeyMatch>> = entry
                    .match_key
                    .iter()
                    .zip(&info.key)
                    .map(|(given, field)| const_match(given, field, &location))
                    .collect();
                let (action, words) =
                    self.action_entry(&entry.action_entry, &table.actions, &location)?;
                let params = table
                    .actions
                    .get(usize::from(action))
                    .and_then(|a| self.ir.actions.get(usize::from(*a)))
                    .map_or(&[][..], |a| a.params.as_slice());
                let args = words
                    .iter()
                    .zip(params)
                    .map(|(words, (_, width))| value_bytes(words, *width))
                    .collect();
                let priority = if needs_priority { priority } else { 0 };
                table.entries.push(ConstEntry {
                    key: key?,
                    priority,
                    action,
                    args,
                });
            }
            info.size = info.size.max(table.entries.len());
        }
        self.ir.tables.push(table);
        self.info.tables.push(info);
        Ok(())
    }

    /// Index in the table's action list, and the words of each argument.
    fn action_entry(
        &self,
        entry: &ActionEntry,
        actions: &[u16],
        location: &str,
    ) -> Result<(u16, Vec<Vec<u64>>)> {
        let action = self.action_of(entry.action_id, location)?;
        let local = actions
            .iter()
            .position(|a| *a == action)
            .and_then(|i| u16::try_from(i).ok());
        let local = local.ok_or_else(|| {
            invalid(
                location,
                format!("action id {} is not the table's", entry.action_id),
            )
        })?;
        let params = self
            .ir
            .actions
            .get(usize::from(action))
            .map_or(&[][..], |a| a.params.as_slice());
        if params.len() != entry.action_data.len() {
            let what = format!(
                "{} arguments, the action has {}",
                entry.action_data.len(),
                params.len()
            );
            return Err(invalid(location, what));
        }
        let words: Result<Vec<Vec<u64>>> = entry
            .action_data
            .iter()
            .zip(params)
            .map(|(text, (_, width))| {
                Ok(super::emit::const_words(&hexstr(text, location)?, *width))
            })
            .collect();
        Ok((local, words?))
    }

    /// Key parts packed into words: small fields share a word, a wide one starts its own.
    fn key(&self, json: &[Key], location: &str) -> Result<(Vec<KeyPart>, Vec<KeyFieldInfo>, u16)> {
        let mut parts = Vec::new();
        let mut infos = Vec::new();
        let (mut words, mut used) = (0_u16, 64_u32);
        for key in json {
            let (header, name) = if key.match_type == "valid" {
                (text(&key.target, location)?, "$valid$")
            } else {
                let (header, name) = pair(&key.target, location)?;
                (text(header, location)?, name)
            };
            let kind = match key.match_type.as_str() {
                "exact" | "valid" => MatchKind::Exact,
                "lpm" => MatchKind::Lpm,
                "ternary" => MatchKind::Ternary,
                "range" => MatchKind::Range,
                "optional" => MatchKind::Optional,
                other => return Err(unsupported(location, format!("match type {other:?}"))),
            };
            let field = match self.layout.field(&self.ir, header, name, location)? {
                AnyField::Narrow(f) => AnyField::Narrow(Field { signed: false, ..f }),
                AnyField::Wide(f) => AnyField::Wide(WideField { signed: false, ..f }),
            };
            let width_bits = field.width();
            let (word, shift) = if matches!(field, AnyField::Narrow(_)) {
                if used + width_bits > 64 {
                    words = words.saturating_add(1);
                    used = 0;
                }
                used += width_bits;
                (words - 1, u8::try_from(used - width_bits).unwrap_or(0))
            } else {
                let first = words;
                words = words
                    .saturating_add(u16::try_from(width_bits.div_ceil(64)).unwrap_or(u16::MAX));
                used = 64;
                (first, 0)
            };
            let mask = match &key.mask {
                None => None,
                Some(mask) => Some(super::emit::const_words(
                    &hexstr(mask, location)?,
                    width_bits,
                )),
            };
            parts.push(KeyPart {
                field,
                word,
                shift,
                mask,
                valid: self
                    .layout
                    .validity_of_field(&self.ir, header, name, location)?,
            });
            let name = key
                .name
                .clone()
                .unwrap_or_else(|| format!("{header}.{name}"));
            infos.push(KeyFieldInfo {
                name,
                kind,
                width_bits,
            });
        }
        Ok((parts, infos, words))
    }

    /// Assigns direct counters and meters to the table.
    fn direct(
        &mut self,
        json: &JsonTable,
        id: TableId,
        table: &mut Table,
        info: &mut TableInfo,
        location: &str,
    ) -> Result<()> {
        table.direct_counter = json.with_counters;
        let bound = |direct: bool, binding: &Option<String>| {
            direct && binding.as_deref() == Some(json.name.as_str())
        };
        let counters = (0_u32..).zip(&self.json.counter_arrays);
        if let Some((index, _)) = counters
            .into_iter()
            .find(|(_, c)| bound(c.is_direct, &c.binding))
        {
            table.direct_counter = true;
            info.direct_counter = Some(CounterId(index));
            self.info.counters[index as usize].table = Some(id);
        }
        let Some(name) = &json.direct_meters else {
            return Ok(());
        };
        let index = self
            .names
            .meters
            .get(name)
            .copied()
            .ok_or_else(|| dangling(location, "meter", name))?;
        let array = &self.json.meter_arrays[usize::from(index)];
        if let Some(target) = &array.result_target {
            let target = serde_json::json!({"type": "field", "value": target});
            table.direct_meter = Some(self.target(&target, &[], location)?);
        } else {
            return Err(invalid(
                location,
                format!("direct meter {name:?} has no result_target"),
            ));
        }
        table.meter_bytes = self.info.meters[usize::from(index)].unit == MeterUnit::Bytes;
        info.direct_meter = Some(MeterId(u32::from(index)));
        self.info.meters[usize::from(index)].table = Some(id);
        Ok(())
    }
}
