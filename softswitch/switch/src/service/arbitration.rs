// SPDX-License-Identifier: Apache-2.0
//! Which controller is the primary (specification chapter "Client Arbitration and Controller Replication").
//!
//! Streams and messages stay outside: updates and disconnections come in, notifications go out.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tonic::{Code, Status};
use weir_p4runtime::google::rpc;
use weir_p4runtime::p4::v1::{MasterArbitrationUpdate, Uint128};

/// One open stream.
pub type ClientId = u64;

/// A notification and the stream that it is for.
pub type Notification = (ClientId, MasterArbitrationUpdate);

/// The state of arbitration of the one device, for the default role.
#[derive(Debug)]
pub struct Arbitration {
    device_id: u64,
    /// Live controllers with their election id; None never becomes primary.
    live: BTreeMap<ClientId, Option<u128>>,
    highest: Option<u128>,
    primary: Option<ClientId>,
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

impl Arbitration {
    /// No controller yet.
    pub fn new(device_id: u64) -> Self {
        Self {
            device_id,
            live: BTreeMap::new(),
            highest: None,
            primary: None,
        }
    }

    /// The primary, if there is one.
    pub fn primary(&self) -> Option<ClientId> {
        self.primary
    }

    /// The client is live, i.e. has had a successful update.
    pub fn is_live(&self, client: ClientId) -> bool {
        self.live.contains_key(&client)
    }

    /// `election_id` is the primary's.
    pub fn is_primary(&self, election_id: Option<u128>) -> bool {
        self.primary
            .and_then(|primary| self.live.get(&primary))
            .is_some_and(|of_primary| of_primary.is_some() && *of_primary == election_id)
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
        self.check(client, update)?;
        let election_id = update.election_id.map(number);
        self.live.insert(client, election_id);
        let was_primary = self.primary == Some(client);
        if election_id.is_some() && election_id >= self.highest {
            self.highest = election_id;
            self.primary = Some(client);
            return Ok(self.notify_all());
        }
        if was_primary {
            self.primary = None;
            return Ok(self.notify_all());
        }
        Ok(vec![(client, self.notification(client))])
    }

    fn check(&self, client: ClientId, update: &MasterArbitrationUpdate) -> Result<(), Status> {
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
        if let Some(role) = &update.role {
            super::check_role(&role.name, role.id)?;
            if role.config.is_some() {
                return Err(Status::invalid_argument(
                    "role.config must be unset for the default role",
                ));
            }
        }
        let election_id = update.election_id.map(number);
        let taken =
            |(other, id): (&ClientId, &Option<u128>)| *other != client && *id == election_id;
        if let Some(id) = election_id
            && self.live.iter().any(taken)
        {
            return Err(Status::invalid_argument(format!(
                "election id {id} is another live controller's"
            )));
        }
        Ok(())
    }

    /// A stream was closed.
    pub fn disconnect(&mut self, client: ClientId) -> Vec<Notification> {
        self.live.remove(&client);
        if self.primary != Some(client) {
            return Vec::new();
        }
        self.primary = None;
        self.notify_all()
    }

    fn notify_all(&self) -> Vec<Notification> {
        let others = self
            .live
            .keys()
            .filter(|client| Some(**client) != self.primary);
        let clients = others.copied().chain(self.primary);
        clients
            .map(|client| (client, self.notification(client)))
            .collect()
    }

    fn notification(&self, client: ClientId) -> MasterArbitrationUpdate {
        let (code, text) = match self.primary {
            Some(primary) if primary == client => (Code::Ok, "you are the primary"),
            Some(_) => (Code::AlreadyExists, "another controller is the primary"),
            None => (Code::NotFound, "there is no primary"),
        };
        MasterArbitrationUpdate {
            device_id: self.device_id,
            role: None,
            election_id: self.highest.map(message),
            status: Some(rpc::Status {
                code: code as i32,
                message: text.to_owned(),
                details: Vec::new(),
            }),
        }
    }
}
