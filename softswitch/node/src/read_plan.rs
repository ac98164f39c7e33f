// SPDX-License-Identifier: Apache-2.0
//! Plans queries: turns each into the steps that `read` carries out.

use std::collections::VecDeque;

use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::packet_replication_engine_entry::Type as ReplicationEntry;
use weir_p4runtime::p4::v1::{self, Entity, PacketReplicationEngineEntry};

use super::digest::DigestQueue;
use super::entry_key::find;
use super::failure::Failure;
use super::pipeline::TableView;
use super::read::{EntryPart, ReadPlan, Step};
use super::write::cells;
use super::{Node, parts};

/// The entries of a table that a key without match fields names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmptyMatch {
    /// All, as in a query.
    Any,
    /// The one that has no match fields, as in an update.
    Exactly,
}

impl Node {
    /// Plans a query; [`Node::read_some`] then reads it.
    ///
    /// # Errors
    /// As for [`Node::write`], for queries of objects that do not exist.
    pub fn plan_read(&mut self, query: &Entity) -> Result<ReadPlan, Failure> {
        self.plan(query, EmptyMatch::Any)
    }

    pub(super) fn plan(&mut self, query: &Entity, empty: EmptyMatch) -> Result<ReadPlan, Failure> {
        parts(&self.pipeline, &mut self.switch)?;
        let Some(kind) = &query.entity else {
            return Err(Failure::invalid(
                "the query has no entity; set the kind of entity to read",
            ));
        };
        let steps = match kind {
            Kind::TableEntry(query) => self.plan_table(query, empty)?,
            Kind::MeterEntry(query) => self.plan_meter(query)?,
            Kind::CounterEntry(query) => self.plan_counter(query)?,
            Kind::RegisterEntry(query) => self.plan_register(query)?,
            Kind::DirectMeterEntry(query) => {
                let pipeline = self.pipeline.as_ref();
                let part = EntryPart::Meter {
                    colours: query.counter_data.is_some(),
                };
                let has = |id| {
                    pipeline
                        .and_then(|p| p.tables.get(&id))
                        .is_some_and(|t| t.direct_meter.is_some())
                };
                let key = (query.table_entry.as_ref(), empty);
                self.plan_direct(key, part, "direct meter", has)?
            }
            Kind::DirectCounterEntry(query) => {
                let pipeline = self.pipeline.as_ref();
                let has = |id| {
                    pipeline
                        .and_then(|p| p.tables.get(&id))
                        .is_some_and(|t| t.direct_counter)
                };
                let key = (query.table_entry.as_ref(), empty);
                self.plan_direct(key, EntryPart::Counter, "direct counter", has)?
            }
            Kind::DigestEntry(query) => self.plan_digest(query.digest_id)?,
            Kind::PacketReplicationEngineEntry(query) => self.plan_replication(query)?,
            Kind::ActionProfileMember(query) => {
                let (profile, id) = (query.action_profile_id, query.member_id);
                self.check_profile_query(profile, id)?;
                let found = self.profiles.members(profile, id).cloned();
                found.map(Kind::ActionProfileMember).map(ready).collect()
            }
            Kind::ActionProfileGroup(query) => {
                let (profile, id) = (query.action_profile_id, query.group_id);
                self.check_profile_query(profile, id)?;
                let found = self.profiles.groups(profile, id).cloned();
                found.map(Kind::ActionProfileGroup).map(ready).collect()
            }
            Kind::ValueSetEntry(query) => {
                let found = self.value_sets(query.value_set_id)?.into_iter();
                found.map(Kind::ValueSetEntry).map(ready).collect()
            }
            // Pipelines with externs are refused, so a query for all of them finds none.
            Kind::ExternEntry(query) if query.extern_type_id == 0 && query.extern_id == 0 => vec![],
            Kind::ExternEntry(_) => return Err(Failure::unimplemented("ExternEntry")),
        };
        Ok(ReadPlan {
            steps: steps.into(),
        })
    }

    /// Requires that the profile exists, and that an id comes with its profile.
    fn check_profile_query(&self, profile: u32, id: u32) -> Result<(), Failure> {
        match (profile, id) {
            (0, 0) => Ok(()),
            (0, id) => Err(Failure::invalid(format!(
                "action_profile_id is missing for the member or group {id}"
            ))),
            (profile, _) => self.pipeline_ref()?.profile(profile).map(|_| ()),
        }
    }

    fn plan_table(&self, query: &v1::TableEntry, empty: EmptyMatch) -> Result<Vec<Step>, Failure> {
        let pipeline = self.pipeline_ref()?;
        if query.table_id != 0 {
            let table = pipeline.table(query.table_id)?;
            if query.time_since_last_hit.is_some() && !table.idle_timeout {
                return Err(Failure::invalid(format!(
                    "table {}: the program declares no idle timeout for it",
                    table.name
                )));
            }
            return Ok(vec![self.plan_entries(
                table,
                (query, empty),
                EntryPart::Whole,
            )?]);
        }
        // Without a table other filters are ignored; the selected direct resources are not filters.
        let query = v1::TableEntry {
            meter_config: query.meter_config,
            counter_data: query.counter_data,
            meter_counter_data: query.meter_counter_data,
            time_since_last_hit: query.time_since_last_hit,
            is_default_action: query.is_default_action,
            ..v1::TableEntry::default()
        };
        pipeline
            .tables
            .values()
            .map(|table| self.plan_entries(table, (&query, EmptyMatch::Any), EntryPart::Whole))
            .collect()
    }

    fn plan_entries(
        &self,
        table: &TableView,
        (query, empty): (&v1::TableEntry, EmptyMatch),
        part: EntryPart,
    ) -> Result<Step, Failure> {
        if query.is_default_action {
            return Ok(Step::Default {
                table: table.p4info_id,
                query: Box::new(query.clone()),
                part,
            });
        }
        let Some(switch) = &self.switch else {
            return Err(Failure::not_found("no program"));
        };
        let handles = if query.r#match.is_empty() && empty == EmptyMatch::Any {
            switch.entries(table.id)?.into()
        } else {
            // A full key names at most one entry; if it does not exist, the answer is empty.
            match find(table, switch, query) {
                Ok(handle) => VecDeque::from([handle]),
                Err(failure)
                    if failure.code == tonic::Code::NotFound && part == EntryPart::Whole =>
                {
                    VecDeque::new()
                }
                Err(failure) => return Err(failure),
            }
        };
        Ok(Step::Entries {
            table: table.p4info_id,
            handles,
            query: Box::new(query.clone()),
            part,
        })
    }

    fn plan_direct(
        &self,
        (key, empty): (Option<&v1::TableEntry>, EmptyMatch),
        part: EntryPart,
        resource: &str,
        has: impl Fn(u32) -> bool,
    ) -> Result<Vec<Step>, Failure> {
        let pipeline = self.pipeline_ref()?;
        let key = key.cloned().unwrap_or_default();
        if key.table_id == 0 {
            let tables = pipeline
                .tables
                .values()
                .filter(|table| has(table.p4info_id));
            return tables
                .map(|table| {
                    let query = v1::TableEntry {
                        is_default_action: key.is_default_action,
                        ..v1::TableEntry::default()
                    };
                    self.plan_entries(table, (&query, EmptyMatch::Any), part)
                })
                .collect();
        }
        let table = pipeline.table(key.table_id)?;
        if !has(key.table_id) {
            return Err(Failure::invalid(format!(
                "table {}: it has no {resource}",
                table.name
            )));
        }
        // Only table, match and priority identify the entry.
        let key = v1::TableEntry {
            table_id: key.table_id,
            r#match: key.r#match,
            priority: key.priority,
            is_default_action: key.is_default_action,
            ..v1::TableEntry::default()
        };
        Ok(vec![self.plan_entries(table, (&key, empty), part)?])
    }

    fn plan_meter(&self, query: &v1::MeterEntry) -> Result<Vec<Step>, Failure> {
        let pipeline = self.pipeline_ref()?;
        let colours = query.counter_data.is_some();
        if query.meter_id == 0 {
            let all = pipeline.meters.iter();
            return Ok(all
                .map(|(id, meter)| Step::Meter {
                    id: *id,
                    cells: 0..meter.size,
                    colours,
                })
                .collect());
        }
        let meter = pipeline.meter(query.meter_id)?;
        let cells = cells(
            query.index.as_ref(),
            meter.size,
            &format!("meter {}", meter.name),
        )?;
        Ok(vec![Step::Meter {
            id: query.meter_id,
            cells,
            colours,
        }])
    }

    fn plan_counter(&self, query: &v1::CounterEntry) -> Result<Vec<Step>, Failure> {
        let pipeline = self.pipeline_ref()?;
        if query.counter_id == 0 {
            let all = pipeline.counters.iter();
            return Ok(all
                .map(|(id, counter)| Step::Counter {
                    id: *id,
                    cells: 0..counter.size,
                })
                .collect());
        }
        let counter = pipeline.counter(query.counter_id)?;
        let cells = cells(
            query.index.as_ref(),
            counter.size,
            &format!("counter {}", counter.name),
        )?;
        Ok(vec![Step::Counter {
            id: query.counter_id,
            cells,
        }])
    }

    fn plan_register(&self, query: &v1::RegisterEntry) -> Result<Vec<Step>, Failure> {
        let pipeline = self.pipeline_ref()?;
        let step = |id: u32, cells| {
            let register = pipeline.register(id)?;
            match register.extra.members() {
                [_] => Ok(Step::Register { id, cells }),
                _ => Err(Failure::unimplemented(format!(
                    "register {}: reading a struct or tuple",
                    register.name
                ))),
            }
        };
        if query.register_id == 0 {
            return pipeline
                .registers
                .iter()
                .map(|(id, register)| step(*id, 0..register.size))
                .collect();
        }
        let register = pipeline.register(query.register_id)?;
        let cells = cells(
            query.index.as_ref(),
            register.size,
            &format!("register {}", register.name),
        )?;
        Ok(vec![step(query.register_id, cells)?])
    }

    fn plan_digest(&self, id: u32) -> Result<Vec<Step>, Failure> {
        if id != 0 {
            self.pipeline_ref()?.digest(id)?;
        }
        let found = self
            .digests
            .iter()
            .filter(|(known, _)| id == 0 || id == **known);
        let entry = |(id, queue): (&u32, &DigestQueue)| {
            let entry = v1::DigestEntry {
                digest_id: *id,
                config: Some(queue.config()),
            };
            ready(Kind::DigestEntry(entry))
        };
        Ok(found.map(entry).collect())
    }

    fn plan_replication(&self, query: &PacketReplicationEngineEntry) -> Result<Vec<Step>, Failure> {
        let ready = |entry| {
            ready(Kind::PacketReplicationEngineEntry(
                PacketReplicationEngineEntry {
                    r#type: Some(entry),
                },
            ))
        };
        match &query.r#type {
            Some(ReplicationEntry::MulticastGroupEntry(query)) => {
                let wanted = query.multicast_group_id;
                let found = self
                    .groups
                    .iter()
                    .filter(|(id, _)| wanted == 0 || wanted == **id);
                Ok(found
                    .map(|(_, group)| ready(ReplicationEntry::MulticastGroupEntry(group.clone())))
                    .collect())
            }
            Some(ReplicationEntry::CloneSessionEntry(query)) => {
                let wanted = query.session_id;
                let found = self
                    .sessions
                    .iter()
                    .filter(|(id, _)| wanted == 0 || wanted == **id);
                Ok(found
                    .map(|(_, session)| ready(ReplicationEntry::CloneSessionEntry(session.clone())))
                    .collect())
            }
            None => Err(Failure::invalid(
                "PacketReplicationEngineEntry: its type is not set",
            )),
        }
    }
}

fn ready(entity: Kind) -> Step {
    Step::Ready(Box::new(entity))
}
