// SPDX-License-Identifier: Apache-2.0
//! Roles: the access of their controllers (specification sections "Default Role" and "Role Config").
//!
//! The specification leaves the scheme of `role.config` open. Here it is a `p4.config.v1.P4Info` in the `Any`: the part of
//! the pipeline's P4Info that belongs to the role. The role's controllers may write the objects in it, get its digests and
//! idle notifications, and receive and send packets when it has the `packet_in` and `packet_out` metadata. Without a config
//! a role has full access, as the default role has. Only roles with full access may write multicast groups, clone sessions
//! and the pipeline itself.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};
use weir_p4runtime::p4::config::v1::{P4Info, Preamble};
use weir_p4runtime::p4::v1::entity::Entity as Kind;
use weir_p4runtime::p4::v1::{Entity, TableEntry};

use weir_engine::node::Notification;
use weir_engine::node::failure::Failure;

const CONFIG_TYPE: &str = "p4.config.v1.P4Info";

/// Name of a role; empty for the default role.
pub fn name(name: &str, id: u64) -> String {
    // Older clients give an id instead of a name.
    if name.is_empty() && id != 0 {
        format!("#{id}")
    } else {
        name.to_owned()
    }
}

/// The access of a role.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Access {
    /// Everything.
    #[default]
    Full,
    /// To the objects of a P4Info.
    Part(Part),
}

/// The part of a pipeline that belongs to a role.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Part {
    objects: BTreeSet<u32>,
    packet_in: bool,
    packet_out: bool,
}

impl Access {
    /// Reads a role's config.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a config of another scheme.
    pub fn of(config: Option<&Any>) -> Result<Self, Status> {
        let Some(config) = config else {
            return Ok(Self::Full);
        };
        if config.type_url.rsplit('/').next() != Some(CONFIG_TYPE) {
            return Err(Status::invalid_argument(format!(
                "role.config is a {}; this switch takes a {CONFIG_TYPE} with the objects of the role",
                config.type_url
            )));
        }
        let p4info = P4Info::decode(&*config.value).map_err(|error| {
            Status::invalid_argument(format!("role.config is no {CONFIG_TYPE}: {error}"))
        })?;
        let has = |kind: &str| {
            let mut headers = p4info.controller_packet_metadata.iter();
            headers.any(|m| m.preamble.as_ref().is_some_and(|p| p.name == kind))
        };
        Ok(Self::Part(Part {
            packet_in: has("packet_in"),
            packet_out: has("packet_out"),
            objects: preambles(&p4info).map(|p| p.id).collect(),
        }))
    }

    fn lists(&self, id: u32) -> bool {
        match self {
            Self::Full => true,
            Self::Part(part) => part.objects.contains(&id),
        }
    }

    /// Whether the role may access the entity.
    pub fn covers(&self, entity: &Entity) -> bool {
        let direct = |key: &Option<TableEntry>| key.as_ref().map_or(0, |key| key.table_id);
        let id = match &entity.entity {
            Some(Kind::TableEntry(entry)) => entry.table_id,
            Some(Kind::ActionProfileMember(member)) => member.action_profile_id,
            Some(Kind::ActionProfileGroup(group)) => group.action_profile_id,
            Some(Kind::MeterEntry(meter)) => meter.meter_id,
            Some(Kind::DirectMeterEntry(meter)) => direct(&meter.table_entry),
            Some(Kind::CounterEntry(counter)) => counter.counter_id,
            Some(Kind::DirectCounterEntry(counter)) => direct(&counter.table_entry),
            Some(Kind::RegisterEntry(register)) => register.register_id,
            Some(Kind::DigestEntry(digest)) => digest.digest_id,
            Some(Kind::ValueSetEntry(set)) => set.value_set_id,
            Some(Kind::PacketReplicationEngineEntry(_) | Kind::ExternEntry(_)) | None => {
                return *self == Self::Full;
            }
        };
        self.lists(id)
    }

    /// Whether the role gets the notification.
    pub fn receives(&self, notification: &Notification) -> bool {
        match (self, notification) {
            (Self::Full, _) => true,
            (Self::Part(part), Notification::PacketIn(_)) => part.packet_in,
            (Self::Part(_), Notification::DigestList(list)) => self.lists(list.digest_id),
            (Self::Part(_), Notification::IdleTimeout(idle)) => idle
                .table_entry
                .iter()
                .all(|entry| self.lists(entry.table_id)),
        }
    }

    /// Whether the role may send packets.
    pub fn sends_packets(&self) -> bool {
        match self {
            Self::Full => true,
            Self::Part(part) => part.packet_out,
        }
    }

    /// Whether the role may acknowledge lists of this digest.
    pub fn acknowledges(&self, digest: u32) -> bool {
        self.lists(digest)
    }
}

/// The refusal of an object outside the role.
pub fn forbidden(role: &str) -> Failure {
    Failure::new(
        Code::PermissionDenied,
        format!("role {role}: the object is not among those of its role.config"),
    )
}

fn preambles(p4info: &P4Info) -> impl Iterator<Item = &Preamble> {
    let tables = p4info.tables.iter().map(|o| &o.preamble);
    let profiles = p4info.action_profiles.iter().map(|o| &o.preamble);
    let meters = p4info.meters.iter().map(|o| &o.preamble);
    let counters = p4info.counters.iter().map(|o| &o.preamble);
    let registers = p4info.registers.iter().map(|o| &o.preamble);
    let digests = p4info.digests.iter().map(|o| &o.preamble);
    let value_sets = p4info.value_sets.iter().map(|o| &o.preamble);
    let all = tables.chain(profiles).chain(meters).chain(counters);
    all.chain(registers)
        .chain(digests)
        .chain(value_sets)
        .flatten()
}
