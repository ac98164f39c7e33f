// SPDX-License-Identifier: Apache-2.0
//! The state that the service's requests and streams share.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, RwLock};
use tonic::Status;
use weir_p4runtime::p4::v1::Uint128;

use super::admission::{Admission, Limits};
use super::arbitration::{self, Arbitration, ClientId};
use super::outbox::Outbox;
use super::role::Access;
use super::target::{SavedConfig, Target};
use weir_engine::engine::Handle;

/// The state of the service, shared by its requests and streams.
pub struct Shared {
    pub(super) device_id: u64,
    pub(super) engine: Handle,
    pub(super) admission: Admission,
    pub(super) clients: Mutex<Clients>,
    /// Locked for writing by requests that change state, for reading by reads: a read sees all of a write or nothing of it.
    pub(super) control: RwLock<Control>,
}

/// The controllers and their streams.
pub struct Clients {
    pub(super) arbitration: Arbitration,
    pub(super) streams: HashMap<ClientId, ClientStream>,
    pub(super) next_id: ClientId,
    /// Bytes of the messages that wait in all streams.
    pub(super) queued_bytes: Arc<AtomicUsize>,
}

/// State that requests change.
#[derive(Default)]
pub struct Control {
    /// Saved by `VERIFY_AND_SAVE` and not yet committed.
    pub(super) saved: Option<SavedConfig>,
}

impl Control {
    /// The program that reads and writes apply to.
    pub fn target<'a>(&'a self, engine: &'a Handle) -> Target<'a> {
        match &self.saved {
            Some(saved) => Target::Saved(&saved.shadow),
            None => Target::Live(engine),
        }
    }
}

/// The sending side of one controller's stream.
pub struct ClientStream {
    pub(super) messages: Outbox,
    /// Ends the stream of a controller that reads no messages.
    pub(super) stalled: Arc<Notify>,
}

impl Shared {
    /// No clients yet, and nothing saved.
    pub fn new(device_id: u64, engine: Handle, limits: Limits) -> Self {
        Self {
            device_id,
            engine,
            admission: Admission::new(limits),
            clients: Mutex::new(Clients {
                arbitration: Arbitration::new(device_id),
                streams: HashMap::new(),
                next_id: 0,
                queued_bytes: Arc::default(),
            }),
            control: RwLock::new(Control::default()),
        }
    }

    /// The controllers, locked.
    pub fn clients(&self) -> MutexGuard<'_, Clients> {
        // A panic under this lock leaves at worst a notification unsent, so a poisoned lock is still usable.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requires this device's id.
    ///
    /// # Errors
    /// `NOT_FOUND` for another one.
    pub fn check_device(&self, device_id: u64) -> Result<(), Status> {
        if device_id == self.device_id {
            return Ok(());
        }
        Err(Status::not_found(format!(
            "no device has id {device_id}; this switch is device {}",
            self.device_id
        )))
    }

    /// The access of a client that claims to be the primary of a role.
    ///
    /// # Errors
    /// As [`Arbitration::access_of`].
    pub fn check_primary(
        &self,
        role: &str,
        election_id: Option<Uint128>,
    ) -> Result<Access, Status> {
        let election_id = election_id.map(arbitration::number);
        let clients = self.clients();
        clients.arbitration.access_of(role, election_id).cloned()
    }
}
