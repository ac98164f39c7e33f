// SPDX-License-Identifier: Apache-2.0
//! The state that controllers wrote, as updates: a new program with the same objects can take it over.

use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::packet_replication_engine_entry::Type as ReplicationEntry;
use weir_p4runtime::p4::v1::update::Type;
use weir_p4runtime::p4::v1::{self, Entity, PacketReplicationEngineEntry, Update};

/// Queries for the whole state, in an order in which it can be written again.
pub fn queries() -> Vec<Entity> {
    let entry = |is_default_action| {
        Kind::TableEntry(v1::TableEntry {
            is_default_action,
            meter_config: Some(v1::MeterConfig::default()),
            counter_data: Some(v1::CounterData::default()),
            ..v1::TableEntry::default()
        })
    };
    let replication = |entry| {
        Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
            r#type: Some(entry),
        })
    };
    let kinds = [
        Kind::ActionProfileMember(v1::ActionProfileMember::default()),
        Kind::ActionProfileGroup(v1::ActionProfileGroup::default()),
        entry(false),
        entry(true),
        Kind::ValueSetEntry(v1::ValueSetEntry::default()),
        Kind::MeterEntry(v1::MeterEntry::default()),
        Kind::CounterEntry(v1::CounterEntry::default()),
        Kind::RegisterEntry(v1::RegisterEntry::default()),
        Kind::DigestEntry(v1::DigestEntry::default()),
        replication(ReplicationEntry::MulticastGroupEntry(
            v1::MulticastGroupEntry::default(),
        )),
        replication(ReplicationEntry::CloneSessionEntry(
            v1::CloneSessionEntry::default(),
        )),
    ];
    let entity = |kind| Entity { entity: Some(kind) };
    kinds.into_iter().map(entity).collect()
}

/// The update that writes an entity that was read; None for the initial value of an object.
pub fn update_of(entity: Entity) -> Option<Update> {
    let (operation, kind) = match entity.entity? {
        Kind::TableEntry(mut entry) => {
            if entry.is_const {
                entry.is_const = false;
                entry.action = None;
                (Type::Modify, Kind::TableEntry(entry))
            } else if entry.is_default_action {
                (Type::Modify, Kind::TableEntry(entry))
            } else {
                (Type::Insert, Kind::TableEntry(entry))
            }
        }
        Kind::ValueSetEntry(set) if set.members.is_empty() => return None,
        Kind::MeterEntry(meter) if meter.config.is_none() => return None,
        Kind::CounterEntry(counter) if counter.data == Some(v1::CounterData::default()) => {
            return None;
        }
        kind @ (Kind::ValueSetEntry(_)
        | Kind::MeterEntry(_)
        | Kind::CounterEntry(_)
        | Kind::RegisterEntry(_)) => (Type::Modify, kind),
        kind => (Type::Insert, kind),
    };
    Some(Update {
        r#type: operation as i32,
        entity: Some(Entity { entity: Some(kind) }),
    })
}
