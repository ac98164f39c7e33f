// SPDX-License-Identifier: Apache-2.0
//! Rollback: the updates that restore the state before an update (specification section "Batch Atomicity").

use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::packet_replication_engine_entry::Type as ReplicationEntry;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::{self, Entity, Update};

use super::Node;
use super::failure::Failure;

/// The updates that restore the earlier state; the last applies first.
#[derive(Debug, Default)]
pub struct Undo(Vec<Update>);

impl Node {
    /// As [`Node::write`], and adds the inverse updates to `undo`.
    ///
    /// # Errors
    /// As [`Node::write`]; `UNIMPLEMENTED` for a reset of counters by colour, which cannot be undone.
    pub fn write_undoable(&mut self, update: &Update, undo: &mut Undo) -> Result<(), Failure> {
        let before = self.before(update)?;
        self.write(update)?;
        undo.0.extend(before);
        Ok(())
    }

    /// Restores the earlier state. Buckets of meters start full; counters by colour of deleted entries start at 0.
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

    /// The entity with this key as it is now, with everything that a write could change.
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
            // An empty match reads all entries; keep only the entry without match fields.
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

/// The query for the entity of an update.
fn query_of(entity: &Entity) -> Result<Entity, Failure> {
    let irreversible = |what: &str| {
        Failure::unimplemented(format!(
            "{what}: resetting counters by colour in a batch that can be rolled back"
        ))
    };
    let mut query = entity.clone();
    match &mut query.entity {
        Some(Kind::TableEntry(entry)) => {
            if entry.meter_counter_data.is_some() {
                return Err(irreversible("TableEntry"));
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
            return Err(irreversible("MeterEntry"));
        }
        Some(Kind::DirectMeterEntry(meter)) if meter.counter_data.is_some() => {
            return Err(irreversible("DirectMeterEntry"));
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

/// Removes the fields that only the switch may set.
fn writable(entity: &mut Entity) {
    if let Some(Kind::TableEntry(entry)) = &mut entity.entity {
        if entry.is_const {
            entry.action = None;
        }
        entry.is_const = false;
    }
}
