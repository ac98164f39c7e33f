// SPDX-License-Identifier: Apache-2.0
//! Queries of entities, in steps: a wildcard read of a large table must not delay packets.

use std::collections::VecDeque;
use std::ops::Range;

use weir_dataplane::{EntryHandle, ProfileTarget, Switch};
use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::table_action::Type as Action;
use weir_p4runtime::p4::v1::{self, Entity};

use super::action::action_to_p4runtime;
use super::failure::Failure;
use super::pipeline::{Pipeline, TableView};
use super::{Node, counter, matching, meter};

/// The remaining steps of one query.
#[derive(Debug, Default)]
pub struct ReadPlan {
    pub(super) steps: VecDeque<Step>,
}

/// One step of a query.
#[derive(Debug)]
pub(super) enum Step {
    Entries {
        table: u32,
        handles: VecDeque<EntryHandle>,
        query: Box<v1::TableEntry>,
        part: EntryPart,
    },
    Default {
        table: u32,
        query: Box<v1::TableEntry>,
        part: EntryPart,
    },
    Meter {
        id: u32,
        cells: Range<u64>,
        /// With counters by colour.
        colours: bool,
    },
    Counter {
        id: u32,
        cells: Range<u64>,
    },
    Register {
        id: u32,
        cells: Range<u64>,
    },
    Ready(Box<Kind>),
}

/// The part of a table entry that a query reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryPart {
    Whole,
    Meter {
        /// With counters by colour.
        colours: bool,
    },
    Counter,
}

impl ReadPlan {
    /// Whether everything has been read.
    pub fn is_done(&self) -> bool {
        self.steps.is_empty()
    }
}

impl Node {
    pub(super) fn pipeline_ref(&self) -> Result<&Pipeline, Failure> {
        self.pipeline.as_ref().ok_or_else(Failure::no_pipeline)
    }

    /// Reads the next entities: `limit` are examined, of which the query's filter may exclude some.
    ///
    /// # Errors
    /// When the pipeline was replaced since the query was planned.
    pub fn read_some(&mut self, plan: &mut ReadPlan, limit: usize) -> Result<Vec<Entity>, Failure> {
        let mut entities = Vec::new();
        for _ in 0..limit {
            let Some(step) = plan.steps.front_mut() else {
                break;
            };
            let (entity, done) = self.read_one(step)?;
            entities.extend(entity.map(|kind| Entity { entity: Some(kind) }));
            if done {
                plan.steps.pop_front();
            }
        }
        Ok(entities)
    }

    fn read_one(&self, step: &mut Step) -> Result<(Option<Kind>, bool), Failure> {
        let pipeline = self.pipeline_ref()?;
        let Some(switch) = &self.switch else {
            return Ok((None, true));
        };
        match step {
            Step::Ready(entity) => Ok((Some(entity.as_ref().clone()), true)),
            Step::Meter { id, cells, colours } => {
                let Some(cell) = cells.next() else {
                    return Ok((None, true));
                };
                let meter = pipeline.meter(*id)?.id;
                let config = switch.meter(meter, cell)?;
                let colours = if *colours {
                    Some(switch.meter_counters(meter, cell)?)
                } else {
                    None
                };
                let entry = v1::MeterEntry {
                    meter_id: *id,
                    index: index(cell),
                    config: config.map(meter::to_p4runtime),
                    counter_data: colours.map(meter::colours_to_p4runtime),
                };
                Ok((Some(Kind::MeterEntry(entry)), cells.is_empty()))
            }
            Step::Counter { id, cells } => {
                let Some(cell) = cells.next() else {
                    return Ok((None, true));
                };
                let value = switch.counter(pipeline.counter(*id)?.id, cell)?;
                let data = Some(counter::to_p4runtime(value));
                let entry = v1::CounterEntry {
                    counter_id: *id,
                    index: index(cell),
                    data,
                };
                Ok((Some(Kind::CounterEntry(entry)), cells.is_empty()))
            }
            Step::Register { id, cells } => {
                let Some(cell) = cells.next() else {
                    return Ok((None, true));
                };
                let register = pipeline.register(*id)?;
                let data = Some(register.extra.data(&[switch.register(register.id, cell)?]));
                let entry = v1::RegisterEntry {
                    register_id: *id,
                    index: index(cell),
                    data,
                };
                Ok((Some(Kind::RegisterEntry(entry)), cells.is_empty()))
            }
            Step::Default { table, query, part } => {
                let entity = self.default_entry(pipeline.table(*table)?, query, *part)?;
                Ok((entity, true))
            }
            Step::Entries {
                table,
                handles,
                query,
                part,
            } => {
                let Some(handle) = handles.pop_front() else {
                    return Ok((None, true));
                };
                let entity = self.entry(pipeline.table(*table)?, handle, query, *part)?;
                Ok((entity, handles.is_empty()))
            }
        }
    }

    fn entry(
        &self,
        table: &TableView,
        handle: EntryHandle,
        query: &v1::TableEntry,
        part: EntryPart,
    ) -> Result<Option<Kind>, Failure> {
        let (pipeline, Some(switch)) = (self.pipeline_ref()?, &self.switch) else {
            return Ok(None);
        };
        let entry = switch.entry(table.id, handle)?;
        let found = v1::TableEntry {
            table_id: table.p4info_id,
            r#match: matching::to_p4runtime(&table.fields, &entry.key),
            priority: entry.priority,
            ..v1::TableEntry::default()
        };
        if part != EntryPart::Whole {
            return direct_entry(switch, table, Some(handle), found, part);
        }
        let action = match switch.entry_target(table.id, handle)? {
            Some(target) => Some(self.target_to_p4runtime(table, handle, target)),
            None => action_to_p4runtime(pipeline, table, &entry.action),
        };
        let metadata = self.entries.get(&(table.id, handle));
        let metadata = metadata.cloned().unwrap_or_default();
        let mut found = v1::TableEntry {
            action,
            controller_metadata: metadata.number,
            metadata: metadata.bytes,
            is_const: table.is_const,
            ..found
        };
        if table.idle_timeout {
            let timeout_ns = switch.idle_timeout(table.id, handle)?;
            found.idle_timeout_ns = i64::try_from(timeout_ns).unwrap_or(i64::MAX);
            if query.time_since_last_hit.is_some() {
                let idle_ns = switch.idle_ns(table.id, handle)?;
                found.time_since_last_hit = Some(v1::table_entry::IdleTimeout {
                    elapsed_ns: i64::try_from(idle_ns).unwrap_or(i64::MAX),
                });
            }
        }
        add_direct(switch, table, Some(handle), query, &mut found)?;
        Ok(passes(&found, query).then_some(Kind::TableEntry(found)))
    }

    fn target_to_p4runtime(
        &self,
        table: &TableView,
        handle: EntryHandle,
        target: ProfileTarget,
    ) -> v1::TableAction {
        // Ids of controllers are u32; larger ones belong to one-shot sets.
        let id = |id| u32::try_from(id).unwrap_or(u32::MAX);
        let action = match (self.profiles.one_shot(table.id, handle), target) {
            (Some(one_shot), _) => Action::ActionProfileActionSet(one_shot.set.clone()),
            (None, ProfileTarget::Member(member)) => Action::ActionProfileMemberId(id(member)),
            (None, ProfileTarget::Group(group)) => Action::ActionProfileGroupId(id(group)),
        };
        v1::TableAction {
            r#type: Some(action),
        }
    }

    fn default_entry(
        &self,
        table: &TableView,
        query: &v1::TableEntry,
        part: EntryPart,
    ) -> Result<Option<Kind>, Failure> {
        let (pipeline, Some(switch)) = (self.pipeline_ref()?, &self.switch) else {
            return Ok(None);
        };
        let found = v1::TableEntry {
            table_id: table.p4info_id,
            is_default_action: true,
            ..v1::TableEntry::default()
        };
        if part != EntryPart::Whole {
            return direct_entry(switch, table, None, found, part);
        }
        let metadata = self.defaults.get(&table.id).cloned().unwrap_or_default();
        let action = switch.default_entry(table.id)?;
        let mut found = v1::TableEntry {
            action: action.and_then(|call| action_to_p4runtime(pipeline, table, &call)),
            controller_metadata: metadata.number,
            metadata: metadata.bytes,
            ..found
        };
        add_direct(switch, table, None, query, &mut found)?;
        Ok(passes(&found, query).then_some(Kind::TableEntry(found)))
    }
}

/// A direct counter or meter as an entity.
fn direct_entry(
    switch: &Switch,
    table: &TableView,
    handle: Option<EntryHandle>,
    key: v1::TableEntry,
    part: EntryPart,
) -> Result<Option<Kind>, Failure> {
    let table_entry = Some(key);
    Ok(Some(match part {
        EntryPart::Meter { colours } => {
            let config = switch.direct_meter(table.id, handle)?;
            let counters = switch.direct_meter_counters(table.id, handle)?;
            Kind::DirectMeterEntry(v1::DirectMeterEntry {
                table_entry,
                config: config.map(meter::to_p4runtime),
                counter_data: colours.then(|| meter::colours_to_p4runtime(counters)),
            })
        }
        EntryPart::Counter => {
            let value = switch.direct_counter(table.id, handle)?;
            Kind::DirectCounterEntry(v1::DirectCounterEntry {
                table_entry,
                data: Some(counter::to_p4runtime(value)),
            })
        }
        EntryPart::Whole => return Ok(None),
    }))
}

/// Adds the direct resources that the query selects.
fn add_direct(
    switch: &Switch,
    table: &TableView,
    handle: Option<EntryHandle>,
    query: &v1::TableEntry,
    found: &mut v1::TableEntry,
) -> Result<(), Failure> {
    if table.direct_meter.is_some() {
        if query.meter_config.is_some() {
            let config = switch.direct_meter(table.id, handle)?;
            found.meter_config = config.map(meter::to_p4runtime);
        }
        if query.meter_counter_data.is_some() {
            let counters = switch.direct_meter_counters(table.id, handle)?;
            found.meter_counter_data = Some(meter::colours_to_p4runtime(counters));
        }
    }
    if table.direct_counter && query.counter_data.is_some() {
        let value = switch.direct_counter(table.id, handle)?;
        found.counter_data = Some(counter::to_p4runtime(value));
    }
    Ok(())
}

/// The filters of "Wildcard Reads" (specification); a default value filters nothing.
fn passes(entry: &v1::TableEntry, query: &v1::TableEntry) -> bool {
    let action_id =
        |entry: &v1::TableEntry| match entry.action.as_ref().and_then(|a| a.r#type.as_ref()) {
            Some(v1::table_action::Type::Action(action)) => Some(action.action_id),
            _ => None,
        };
    let action_passes = action_id(query).is_none_or(|id| id == 0 || Some(id) == action_id(entry));
    action_passes
        && (query.priority == 0 || query.priority == entry.priority)
        && (query.controller_metadata == 0
            || query.controller_metadata == entry.controller_metadata)
        && (query.metadata.is_empty() || query.metadata == entry.metadata)
}

fn index(cell: u64) -> Option<v1::Index> {
    // Array sizes fit: they come from an i64 of the P4Info.
    Some(v1::Index {
        index: i64::try_from(cell).unwrap_or(i64::MAX),
    })
}
