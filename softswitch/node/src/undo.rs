// SPDX-License-Identifier: Apache-2.0
//! Rollback: the updates that restore the state before an update (specification section "Batch Atomicity").

use tonic::Code;
use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::packet_replication_engine_entry::Type as ReplicationEntry;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::{self, Entity, Update};

use super::Node;
use super::failure::Failure;
use super::read::{ReadPlan, Step};
use super::read_plan::EmptyMatch;

/// Most cells that the updates of a batch may change which name a whole array. They are read, and written back, in one turn of
/// the dataplane thread, and kept meanwhile.
const MAX_ARRAY_CELLS: u64 = 10_000;

/// The updates that restore the earlier state; the last applies first.
#[derive(Debug, Default)]
pub struct Undo {
    updates: Vec<Update>,
    /// Cells of whole arrays among them.
    array_cells: u64,
}

impl Node {
    /// As [`Node::write`], and adds the inverse updates to `undo`.
    ///
    /// # Errors
    /// As [`Node::write`]; `UNIMPLEMENTED` for a reset of counters by colour, which cannot be undone, and for more than 10,000
    /// cells of whole arrays in a batch.
    pub fn write_undoable(&mut self, update: &Update, undo: &mut Undo) -> Result<(), Failure> {
        let before = self.before(update, &mut undo.array_cells)?;
        self.write(update)?;
        undo.updates.extend(before);
        Ok(())
    }

    /// Restores the earlier state. Buckets of meters start full; counters by colour of deleted entries start at 0.
    ///
    /// # Errors
    /// Never in a consistent switch.
    pub fn undo(&mut self, undo: Undo) -> Result<(), Failure> {
        undo.updates
            .iter()
            .rev()
            .try_for_each(|update| self.write(update))
    }

    fn before(&mut self, update: &Update, array_cells: &mut u64) -> Result<Vec<Update>, Failure> {
        // An update without an object is refused; a query without one would read all.
        let Some(entity) = update.entity.as_ref().filter(|entity| names_object(entity)) else {
            return Ok(Vec::new());
        };
        let inverse = match Type::try_from(update.r#type) {
            Ok(Type::Insert) => return Ok(vec![with(Type::Delete, entity.clone())]),
            Ok(Type::Modify) => Type::Modify,
            Ok(Type::Delete) => Type::Insert,
            Ok(Type::Unspecified) | Err(_) => return Ok(Vec::new()),
        };
        let found = self.present(entity, array_cells)?.into_iter();
        Ok(found.map(|entity| with(inverse, entity)).collect())
    }

    /// The entity with this key as it is now, with everything that a write could change; for a whole array, each cell.
    fn present(&mut self, entity: &Entity, array_cells: &mut u64) -> Result<Vec<Entity>, Failure> {
        let query = query_of(entity)?;
        let mut plan = self.plan(&query, EmptyMatch::Exactly)?;
        *array_cells += cells_of_array(&plan);
        if *array_cells > MAX_ARRAY_CELLS {
            return Err(Failure::new(
                Code::Unimplemented,
                format!(
                    "an update without an index changes all cells of an array; in a batch that can be rolled back at most \
                     {MAX_ARRAY_CELLS} cells in all are valid so, and this one makes it {array_cells}; name single cells, \
                     or write with CONTINUE_ON_ERROR"
                ),
            ));
        }
        let mut found = self.read_some(&mut plan, usize::MAX)?;
        for entity in &mut found {
            writable(entity);
        }
        Ok(found)
    }
}

/// Cells that the plan reads, if it reads more than one of an array.
fn cells_of_array(plan: &ReadPlan) -> u64 {
    let cells = plan.steps.iter().map(|step| match step {
        Step::Meter { cells, .. } | Step::Counter { cells, .. } | Step::Register { cells, .. } => {
            cells.end - cells.start
        }
        Step::Entries { .. } | Step::Default { .. } | Step::Ready(_) => 0,
    });
    cells.filter(|cells| *cells > 1).sum()
}

/// Whether the entity has the id of a table, array or other object of the program.
fn names_object(entity: &Entity) -> bool {
    let of_table = |entry: &Option<v1::TableEntry>| entry.as_ref().is_some_and(|e| e.table_id != 0);
    match &entity.entity {
        None => false,
        Some(Kind::TableEntry(entry)) => entry.table_id != 0,
        Some(Kind::DirectMeterEntry(meter)) => of_table(&meter.table_entry),
        Some(Kind::DirectCounterEntry(counter)) => of_table(&counter.table_entry),
        Some(Kind::MeterEntry(meter)) => meter.meter_id != 0,
        Some(Kind::CounterEntry(counter)) => counter.counter_id != 0,
        Some(Kind::RegisterEntry(register)) => register.register_id != 0,
        Some(Kind::ActionProfileMember(member)) => {
            member.action_profile_id != 0 && member.member_id != 0
        }
        Some(Kind::ActionProfileGroup(group)) => {
            group.action_profile_id != 0 && group.group_id != 0
        }
        Some(Kind::ValueSetEntry(set)) => set.value_set_id != 0,
        Some(Kind::DigestEntry(digest)) => digest.digest_id != 0,
        Some(Kind::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
            Some(ReplicationEntry::MulticastGroupEntry(group)) => group.multicast_group_id != 0,
            Some(ReplicationEntry::CloneSessionEntry(session)) => session.session_id != 0,
            None => false,
        },
        Some(Kind::ExternEntry(_)) => false,
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
