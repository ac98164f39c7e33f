// SPDX-License-Identifier: Apache-2.0
//! Updates of entities.

use weir_p4runtime::p4::v1::entity::Entity;
use weir_p4runtime::p4::v1::packet_replication_engine_entry::Type as ReplicationEntry;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::{PacketReplicationEngineEntry, Update};

use super::Node;
use super::failure::Failure;

/// The kind of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates.
    Insert,
    /// Replaces.
    Modify,
    /// Removes.
    Delete,
}

impl Operation {
    /// Refuses everything but `MODIFY`, for entities that always exist.
    pub fn only_modify(self, entity: &str) -> Result<(), Failure> {
        match self {
            Self::Modify => Ok(()),
            Self::Insert | Self::Delete => Err(Failure::invalid(format!(
                "a {entity} can only be MODIFY'ed, not inserted or deleted"
            ))),
        }
    }
}

impl Node {
    /// Carries out one update of a `WriteRequest`. A failed update changes nothing.
    ///
    /// # Errors
    /// The canonical code of the specification, and a text that names object, field and valid values.
    pub fn write(&mut self, update: &Update) -> Result<(), Failure> {
        let operation = match Type::try_from(update.r#type) {
            Ok(Type::Insert) => Operation::Insert,
            Ok(Type::Modify) => Operation::Modify,
            Ok(Type::Delete) => Operation::Delete,
            Ok(Type::Unspecified) | Err(_) => {
                let message = format!(
                    "update type {} is none of INSERT, MODIFY, DELETE",
                    update.r#type
                );
                return Err(Failure::invalid(message));
            }
        };
        let Some(entity) = update.entity.as_ref().and_then(|e| e.entity.as_ref()) else {
            return Err(Failure::invalid("the update has no entity"));
        };
        match entity {
            Entity::TableEntry(entry) => self.write_table_entry(operation, entry),
            Entity::MeterEntry(entry) => self.write_meter(operation, entry),
            Entity::DirectMeterEntry(entry) => self.write_direct_meter(operation, entry),
            Entity::CounterEntry(entry) => self.write_counter(operation, entry),
            Entity::DirectCounterEntry(entry) => self.write_direct_counter(operation, entry),
            Entity::RegisterEntry(entry) => self.write_register(operation, entry),
            Entity::DigestEntry(entry) => self.write_digest(operation, entry),
            Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type }) => {
                match r#type {
                    Some(ReplicationEntry::MulticastGroupEntry(group)) => {
                        self.write_group(operation, group)
                    }
                    Some(ReplicationEntry::CloneSessionEntry(session)) => {
                        self.write_session(operation, session)
                    }
                    None => Err(Failure::invalid(
                        "PacketReplicationEngineEntry: its type is not set",
                    )),
                }
            }
            Entity::ActionProfileMember(member) => self.write_member(operation, member),
            Entity::ActionProfileGroup(group) => self.write_member_group(operation, group),
            Entity::ValueSetEntry(set) => self.write_value_set(operation, set),
            Entity::ExternEntry(_) => Err(Failure::unimplemented("ExternEntry")),
        }
    }
}

/// An index into an array of `size` cells; None stands for all cells.
///
/// # Errors
/// `INVALID_ARGUMENT` when negative, `OUT_OF_RANGE` when beyond the array.
pub fn cells(
    index: Option<&weir_p4runtime::p4::v1::Index>,
    size: u64,
    place: &str,
) -> Result<std::ops::Range<u64>, Failure> {
    let Some(index) = index else {
        return Ok(0..size);
    };
    match u64::try_from(index.index) {
        Err(_) => Err(Failure::invalid(format!(
            "{place}: index {} is negative",
            index.index
        ))),
        Ok(cell) if cell < size => Ok(cell..cell + 1),
        Ok(cell) => Err(Failure::new(
            tonic::Code::OutOfRange,
            format!("{place}: index {cell} is out of range, the array has {size} cells"),
        )),
    }
}
