// SPDX-License-Identifier: Apache-2.0
//! Queries of entities, in steps: a wildcard read of a large table must not hold up the packets.

use std::collections::VecDeque;
use std::ops::Range;

use weir_dataplane::EntryHandle;
use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::{self, Entity};

use super::failure::Failure;
use super::pipeline::{Pipeline, TableView};
use super::table::action_to_p4runtime;
use super::{Node, counter, matching, meter};

/// What is still to be read for one query.
#[derive(Debug, Default)]
pub struct ReadPlan {
    pub(super) steps: VecDeque<Step>,
}

/// One kind of thing still to be read.
#[derive(Debug)]
pub(super) enum Step {
    Entries {
        table: u32,
        handles: VecDeque<EntryHandle>,
        query: Box<v1::TableEntry>,
        what: EntryPart,
    },
    Default {
        table: u32,
        query: Box<v1::TableEntry>,
    },
    Meter {
        id: u32,
        cells: Range<u64>,
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

/// Which view of a table entry is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryPart {
    Whole,
    Meter,
    Counter,
}

impl ReadPlan {
    /// Everything has been read.
    pub fn is_done(&self) -> bool {
        self.steps.is_empty()
    }
}

impl Node {
    pub(super) fn pipeline_ref(&self) -> Result<&Pipeline, Failure> {
        self.pipeline.as_ref().ok_or_else(|| {
            Failure::new(
                tonic::Code::FailedPrecondition,
                "no forwarding pipeline is set",
            )
        })
    }

    /// Reads at most `limit` more entities (looks at no more than that many, of which a filter may leave fewer).
    ///
    /// # Errors
    /// When the pipeline was replaced meanwhile.
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
            Step::Meter { id, cells } => {
                let Some(cell) = cells.next() else {
                    return Ok((None, true));
                };
                let config = switch.meter(pipeline.meter(*id)?.id, cell)?;
                let entry = v1::MeterEntry {
                    meter_id: *id,
                    index: index(cell),
                    config: config.map(meter::to_p4runtime),
                    counter_data: None,
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
            Step::Default { table, query } => {
                Ok((self.default_entry(pipeline.table(*table)?, query)?, true))
            }
            Step::Entries {
                table,
                handles,
                query,
                what,
            } => {
                let Some(handle) = handles.pop_front() else {
                    return Ok((None, true));
                };
                let entity = self.entry(pipeline.table(*table)?, handle, query, *what)?;
                Ok((entity, handles.is_empty()))
            }
        }
    }

    fn entry(
        &self,
        table: &TableView,
        handle: EntryHandle,
        query: &v1::TableEntry,
        what: EntryPart,
    ) -> Result<Option<Kind>, Failure> {
        let (pipeline, Some(switch)) = (self.pipeline_ref()?, &self.switch) else {
            return Ok(None);
        };
        let entry = switch.entry(table.id, handle)?;
        let metadata = self
            .entries
            .get(&(table.id, handle))
            .cloned()
            .unwrap_or_default();
        let action = action_to_p4runtime(pipeline, table, &entry.action);
        let found = v1::TableEntry {
            table_id: table.p4info_id,
            r#match: matching::to_p4runtime(table, &entry.key),
            priority: entry.priority,
            ..v1::TableEntry::default()
        };
        match what {
            EntryPart::Meter => {
                let config = switch
                    .direct_meter(table.id, handle)?
                    .map(meter::to_p4runtime);
                let entry = v1::DirectMeterEntry {
                    table_entry: Some(found),
                    config,
                    counter_data: None,
                };
                return Ok(Some(Kind::DirectMeterEntry(entry)));
            }
            EntryPart::Counter => {
                let data = Some(counter::to_p4runtime(
                    switch.direct_counter(table.id, handle)?,
                ));
                let entry = v1::DirectCounterEntry {
                    table_entry: Some(found),
                    data,
                };
                return Ok(Some(Kind::DirectCounterEntry(entry)));
            }
            EntryPart::Whole => {}
        }
        let found = v1::TableEntry {
            action,
            controller_metadata: metadata.number,
            metadata: metadata.bytes,
            meter_config: match (&query.meter_config, table.direct_meter) {
                (Some(_), Some(_)) => switch
                    .direct_meter(table.id, handle)?
                    .map(meter::to_p4runtime),
                _ => None,
            },
            counter_data: match &query.counter_data {
                Some(_) if table.direct_counter => Some(counter::to_p4runtime(
                    switch.direct_counter(table.id, handle)?,
                )),
                _ => None,
            },
            is_const: table.is_const,
            ..found
        };
        Ok(passes(&found, query).then_some(Kind::TableEntry(found)))
    }

    fn default_entry(
        &self,
        table: &TableView,
        query: &v1::TableEntry,
    ) -> Result<Option<Kind>, Failure> {
        let (pipeline, Some(switch)) = (self.pipeline_ref()?, &self.switch) else {
            return Ok(None);
        };
        let metadata = self.defaults.get(&table.id).cloned().unwrap_or_default();
        let action = switch.default_entry(table.id)?;
        let found = v1::TableEntry {
            table_id: table.p4info_id,
            action: action.and_then(|call| action_to_p4runtime(pipeline, table, &call)),
            controller_metadata: metadata.number,
            metadata: metadata.bytes,
            is_default_action: true,
            ..v1::TableEntry::default()
        };
        Ok(passes(&found, query).then_some(Kind::TableEntry(found)))
    }
}

/// The filters of "Wildcard Reads"; a default value filters nothing.
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
    // Sizes of arrays come from a p4info's i64.
    Some(v1::Index {
        index: i64::try_from(cell).unwrap_or(i64::MAX),
    })
}
