// SPDX-License-Identifier: Apache-2.0
//! The way back: for an update, the updates that restore what it changes (specification section "Batch Atomicity").

use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::packet_replication_engine_entry::Type as ReplicationEntry;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::{self, Entity, Update};

use super::Node;
use super::failure::Failure;

/// What has been changed, in order.
#[derive(Debug, Default)]
pub struct Undo(Vec<Update>);

impl Node {
    /// As [`Node::write`], and remembers how to take it back.
    ///
    /// # Errors
    /// As [`Node::write`]; `UNIMPLEMENTED` for a reset of counters by colour, which nothing can take back.
    pub fn write_undoable(&mut self, update: &Update, undo: &mut Undo) -> Result<(), Failure> {
        let before = self.before(update)?;
        self.write(update)?;
        undo.0.extend(before);
        Ok(())
    }

    /// Takes back what was written, last first. Buckets of meters start full; counters by colour of deleted entries
    /// start at 0.
    ///
    /// # Errors
    /// Never in a consistent switch.
    pub fn undo(&mut self, undo: Undo) -> Result<(), Failure> {
        undo.0
            .iter()
            .rev()
            .try_for_each(|update| self.write(update))
    }

    fn before(&mut self, update: &Update) -> Result<Vec<Update>, Failure> {
        let Some(entity) = &update.entity else {
            return Ok(Vec::new());
        };
        match Type::try_from(update.r#type) {
            Ok(Type::Insert) => Ok(vec![with(Type::Delete, entity.clone())]),
            Ok(Type::Modify) => Ok(self
                .present(entity)?
                .map(|e| with(Type::Modify, e))
                .collect()),
            Ok(Type::Delete) => Ok(self
                .present(entity)?
                .map(|e| with(Type::Insert, e))
                .collect()),
            Ok(Type::Unspecified) | Err(_) => Ok(Vec::new()),
        }
    }

    /// What the entity's key names now, with all that a write could change.
    fn present(
        &mut self,
        entity: &Entity,
    ) -> Result<impl Iterator<Item = Entity> + use<>, Failure> {
        let query = query_of(entity)?;
        let mut plan = self.plan_read(&query)?;
        let mut found = self.read_some(&mut plan, usize::MAX)?;
        for entity in &mut found {
            writable(entity);
        }
        if let Some(Kind::TableEntry(entry)) = &entity.entity {
            // An empty match reads all entries; only the one with all fields left out is meant.
            found.retain(|e| {
                matches!(&e.entity, Some(Kind::TableEntry(found)) if found.r#match.len() == entry.r#match.len())
            });
        }
        Ok(found.into_iter())
    }
}

fn with(operation: Type, entity: Entity) -> Update {
    Update {
        r#type: operation as i32,
        entity: Some(entity),
    }
}

/// A query for what an update's entity names.
fn query_of(entity: &Entity) -> Result<Entity, Failure> {
    let no_way_back = |what: &str| {
        Failure::unimplemented(format!(
            "{what}: resetting counters by colour in a batch that can be rolled back"
        ))
    };
    let mut query = entity.clone();
    match &mut query.entity {
        Some(Kind::TableEntry(entry)) => {
            if entry.meter_counter_data.is_some() {
                return Err(no_way_back("TableEntry"));
            }
            *entry = v1::TableEntry {
                table_id: entry.table_id,
                r#match: std::mem::take(&mut entry.r#match),
                priority: entry.priority,
                is_default_action: entry.is_default_action,
                meter_config: Some(v1::MeterConfig::default()),
                counter_data: Some(v1::CounterData::default()),
                ..v1::TableEntry::default()
            };
        }
        Some(Kind::MeterEntry(meter)) if meter.counter_data.is_some() => {
            return Err(no_way_back("MeterEntry"));
        }
        Some(Kind::DirectMeterEntry(meter)) if meter.counter_data.is_some() => {
            return Err(no_way_back("DirectMeterEntry"));
        }
        Some(Kind::PacketReplicationEngineEntry(entry)) => match &mut entry.r#type {
            Some(ReplicationEntry::MulticastGroupEntry(group)) => group.replicas.clear(),
            Some(ReplicationEntry::CloneSessionEntry(session)) => session.replicas.clear(),
            None => {}
        },
        _ => {}
    }
    Ok(query)
}

/// Takes away what only the switch may say.
fn writable(entity: &mut Entity) {
    if let Some(Kind::TableEntry(entry)) = &mut entity.entity {
        if entry.is_const {
            entry.action = None;
        }
        entry.is_const = false;
    }
}
