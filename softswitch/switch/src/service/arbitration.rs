// SPDX-License-Identifier: Apache-2.0
//! Determines the primary controller of each role (specification chapter "Client Arbitration and Controller
//! Replication").
//!
//! No I/O: updates and disconnections come in, notifications go out.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};
use weir_p4runtime::google::rpc;
use weir_p4runtime::p4::v1::{MasterArbitrationUpdate, Role, Uint128};

use super::role::{self, Access};

/// One open stream.
pub type ClientId = u64;

/// A notification and the stream to send it on.
pub type Notification = (ClientId, MasterArbitrationUpdate);

/// Roles that may exist at once; a client that makes up names must not exhaust the memory.
const MAX_ROLES: usize = 256;
/// Longest role: each notification repeats it.
const MAX_ROLE_BYTES: usize = 64 << 10;

/// The state of arbitration of the one device.
#[derive(Debug)]
pub struct Arbitration {
    device_id: u64,
    /// Always contains the default role; others while they have controllers, or a primary's election id is remembered.
    roles: BTreeMap<String, RoleState>,
    /// The role of each live controller.
    clients: BTreeMap<ClientId, String>,
    /// Streams that were closed so far.
    disconnections: u64,
    /// Whether an unset election id is 0, and requests without one are served while no controller is live.
    as_pi: bool,
}

/// The controllers of one role.
#[derive(Debug, Default)]
struct RoleState {
    /// As the controller wrote it, for notifications.
    role: Option<Role>,
    /// Live controllers with their election id; None never becomes primary.
    live: BTreeMap<ClientId, Option<u128>>,
    highest: Option<u128>,
    primary: Option<ClientId>,
    config: Option<Any>,
    access: Access,
    /// The count of closed streams when the last controller went.
    left_at: u64,
}

/// An election id as a number.
pub fn number(id: Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

fn message(number: u128) -> Uint128 {
    // The two halves of the number.
    Uint128 {
        high: (number >> 64) as u64,
        low: number as u64,
    }
}

/// The role that an update is for.
fn role_of(update: &MasterArbitrationUpdate) -> String {
    let role = update.role.as_ref();
    role.map_or_else(String::new, |role| role::name(&role.name, role.id))
}

impl Arbitration {
    /// No controller yet.
    pub fn new(device_id: u64) -> Self {
        Self {
            device_id,
            roles: BTreeMap::from([(String::new(), RoleState::default())]),
            clients: BTreeMap::new(),
            disconnections: 0,
            as_pi: false,
        }
    }

    /// From now on an unset election id is 0, and requests without one are served while no controller is live, as by PI:
    /// some tools open no stream, or have no election id.
    pub fn arbitrate_as_pi(&mut self) {
        self.as_pi = true;
    }

    fn own_or_zero(&self, election_id: Option<u128>) -> Option<u128> {
        election_id.or(self.as_pi.then_some(0))
    }

    /// Whether the client is live, i.e. has had a successful update.
    pub fn is_live(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    /// The client's access as the primary of its role; None when it is not the primary.
    pub fn access_as_primary(&self, client: ClientId) -> Option<&Access> {
        let role = self.roles.get(self.clients.get(&client)?)?;
        (role.primary == Some(client)).then_some(&role.access)
    }

    /// The access of a role.
    ///
    /// # Errors
    /// `NOT_FOUND` for a role that no controller has named.
    pub fn access(&self, role: &str) -> Result<&Access, Status> {
        self.role(role).map(|role| &role.access)
    }

    /// The access of the primary of a role, which must have this election id.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown role, `PERMISSION_DENIED` for another election id than the primary's.
    pub fn access_of(&self, role: &str, election_id: Option<u128>) -> Result<&Access, Status> {
        let state = self.role(role)?;
        let primary = state.primary.and_then(|primary| state.live.get(&primary));
        let its_id = self.own_or_zero(election_id);
        let is_primary = primary.is_some_and(|id| id.is_some() && *id == its_id);
        let is_alone = self.as_pi && self.clients.is_empty() && election_id.is_none();
        if is_primary || is_alone {
            return Ok(&state.access);
        }
        let who = match election_id {
            Some(id) => format!("the client with election id {id}"),
            None => "a client without an election id".to_owned(),
        };
        let of_role = match role {
            "" => String::new(),
            role => format!(" of role {role}"),
        };
        Err(Status::permission_denied(format!(
            "{who} is not the primary{of_role}"
        )))
    }

    /// The primaries with their access.
    pub fn primaries(&self) -> impl Iterator<Item = (ClientId, &Access)> {
        let roles = self.roles.values();
        roles.filter_map(|role| Some((role.primary?, &role.access)))
    }

    fn role(&self, role: &str) -> Result<&RoleState, Status> {
        self.roles
            .get(role)
            .ok_or_else(|| Status::not_found(format!("no controller has role {role}")))
    }

    /// Handles a `MasterArbitrationUpdate`; the notification for a new primary comes last.
    ///
    /// # Errors
    /// The status with which the client's stream must be terminated.
    pub fn update(
        &mut self,
        client: ClientId,
        update: &MasterArbitrationUpdate,
    ) -> Result<Vec<Notification>, Status> {
        let name = role_of(update);
        let access = self.check(client, update, &name)?;
        let device_id = self.device_id;
        let election_id = self.own_or_zero(update.election_id.map(number));
        if self.has_no_room_for(&name) {
            self.forget_longest_left();
        }
        self.clients.insert(client, name.clone());
        let role = self.roles.entry(name).or_default();
        role.role = update.role.clone();
        role.live.insert(client, election_id);
        let was_primary = role.primary == Some(client);
        if election_id.is_some() && election_id >= role.highest {
            role.highest = election_id;
            role.primary = Some(client);
            role.config = update.role.as_ref().and_then(|role| role.config.clone());
            role.access = access;
            return Ok(role.notify_all(device_id));
        }
        if was_primary {
            role.primary = None;
            return Ok(role.notify_all(device_id));
        }
        Ok(vec![(client, role.notification(device_id, client))])
    }

    fn check(
        &self,
        client: ClientId,
        update: &MasterArbitrationUpdate,
        name: &str,
    ) -> Result<Access, Status> {
        if update.device_id != self.device_id {
            let text = format!(
                "no device has id {}; this switch is device {}",
                update.device_id, self.device_id
            );
            let code = if self.is_live(client) {
                Code::FailedPrecondition
            } else {
                Code::NotFound
            };
            return Err(Status::new(code, text));
        }
        if let Some(role) = self.clients.get(&client)
            && role != name
        {
            return Err(Status::failed_precondition(format!(
                "the stream is of role {role:?}; open another one for role {name:?}"
            )));
        }
        if let Some(role) = &update.role
            && role.encoded_len() > MAX_ROLE_BYTES
        {
            return Err(Status::invalid_argument(format!(
                "the role, with its role.config, has {} bytes; at most {MAX_ROLE_BYTES} are valid: list only ids, as the switch \
                 has the rest from the pipeline",
                role.encoded_len()
            )));
        }
        let config = update.role.as_ref().and_then(|role| role.config.as_ref());
        if name.is_empty() && config.is_some() {
            return Err(Status::invalid_argument(
                "role.config must be unset for the default role",
            ));
        }
        let access = Access::of(config)?;
        if self.has_no_room_for(name) && self.longest_left().is_none() {
            return Err(Status::resource_exhausted(format!(
                "{MAX_ROLES} roles have controllers already, and the switch serves no more; close the stream of one of them"
            )));
        }
        let election_id = self.own_or_zero(update.election_id.map(number));
        let taken =
            |(other, id): (&ClientId, &Option<u128>)| *other != client && *id == election_id;
        if let (Some(id), Some(role)) = (election_id, self.roles.get(name))
            && role.live.iter().any(taken)
        {
            return Err(Status::invalid_argument(format!(
                "election id {id} is another live controller's"
            )));
        }
        Ok(access)
    }

    fn has_no_room_for(&self, name: &str) -> bool {
        !self.roles.contains_key(name) && self.roles.len() >= MAX_ROLES
    }

    /// The role without controllers that has been so for longest.
    fn longest_left(&self) -> Option<&String> {
        let roles = self.roles.iter();
        roles
            .filter(|(name, role)| !name.is_empty() && role.live.is_empty())
            .min_by_key(|(_, role)| role.left_at)
            .map(|(name, _)| name)
    }

    /// The specification has a role's highest election id remembered for ever ("Client Arbitration and Controller
    /// Replication"), which takes memory for ever: only the last roles that were left are remembered.
    fn forget_longest_left(&mut self) {
        if let Some(name) = self.longest_left().cloned() {
            self.roles.remove(&name);
        }
    }

    /// Handles a closed stream.
    pub fn disconnect(&mut self, client: ClientId) -> Vec<Notification> {
        let Some(name) = self.clients.remove(&client) else {
            return Vec::new();
        };
        let Some(role) = self.roles.get_mut(&name) else {
            return Vec::new();
        };
        role.live.remove(&client);
        self.disconnections += 1;
        role.left_at = self.disconnections;
        if role.live.is_empty() && role.highest.is_none() && !name.is_empty() {
            // It never had a primary, so there is nothing to remember.
            self.roles.remove(&name);
            return Vec::new();
        }
        if role.primary != Some(client) {
            return Vec::new();
        }
        role.primary = None;
        role.notify_all(self.device_id)
    }
}

impl RoleState {
    fn notify_all(&self, device_id: u64) -> Vec<Notification> {
        let others = self
            .live
            .keys()
            .filter(|client| Some(**client) != self.primary);
        let clients = others.copied().chain(self.primary);
        clients
            .map(|client| (client, self.notification(device_id, client)))
            .collect()
    }

    fn notification(&self, device_id: u64, client: ClientId) -> MasterArbitrationUpdate {
        let (code, text) = match self.primary {
            Some(primary) if primary == client => (Code::Ok, "you are the primary"),
            Some(_) => (Code::AlreadyExists, "another controller is the primary"),
            None => (Code::NotFound, "there is no primary"),
        };
        MasterArbitrationUpdate {
            device_id,
            role: self.role.as_ref().map(|role| Role {
                config: self.config.clone(),
                ..role.clone()
            }),
            election_id: self.highest.map(message),
            status: Some(rpc::Status {
                code: code as i32,
                message: text.to_owned(),
                details: Vec::new(),
            }),
        }
    }
}
