// SPDX-License-Identifier: Apache-2.0
//! Control of multicast groups and clone sessions.

use super::Switch;
use crate::control::{CloneSession, Replica};
use crate::error::ControlError;

impl Switch {
    /// Creates a multicast group.
    ///
    /// # Errors
    /// `Exists`; `InvalidValue` for id 0 or above 65535 and for a replica given twice.
    pub fn insert_multicast_group(
        &mut self,
        id: u32,
        replicas: &[Replica],
    ) -> Result<(), ControlError> {
        self.replication.put_group(id, replicas, false)
    }

    /// Replaces the replicas of a group.
    ///
    /// # Errors
    /// `NotFound`, `InvalidValue`.
    pub fn modify_multicast_group(
        &mut self,
        id: u32,
        replicas: &[Replica],
    ) -> Result<(), ControlError> {
        self.replication.put_group(id, replicas, true)
    }

    /// Removes a group.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn delete_multicast_group(&mut self, id: u32) -> Result<(), ControlError> {
        self.replication.delete_group(id)
    }

    /// The groups, ascending by id.
    pub fn multicast_groups(&self) -> impl Iterator<Item = (u32, &[Replica])> + '_ {
        self.replication
            .groups
            .iter()
            .map(|(id, replicas)| (*id, replicas.as_slice()))
    }

    /// Creates a clone session.
    ///
    /// # Errors
    /// `Exists`; `InvalidValue` for an id above 32767 and for a replica given twice.
    pub fn insert_clone_session(
        &mut self,
        id: u32,
        session: &CloneSession,
    ) -> Result<(), ControlError> {
        self.replication.put_session(id, session, false)
    }

    /// Replaces a clone session.
    ///
    /// # Errors
    /// `NotFound`, `InvalidValue`.
    pub fn modify_clone_session(
        &mut self,
        id: u32,
        session: &CloneSession,
    ) -> Result<(), ControlError> {
        self.replication.put_session(id, session, true)
    }

    /// Removes a clone session.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn delete_clone_session(&mut self, id: u32) -> Result<(), ControlError> {
        self.replication.delete_session(id)
    }

    /// The clone sessions, ascending by id.
    pub fn clone_sessions(&self) -> impl Iterator<Item = (u32, &CloneSession)> + '_ {
        self.replication
            .sessions
            .iter()
            .map(|(id, session)| (*id, session))
    }
}
