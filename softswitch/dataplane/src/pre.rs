// SPDX-License-Identifier: Apache-2.0
//! The packet replication engine: multicast groups and clone sessions.

use crate::control::{CloneSession, Replica};
use crate::error::ControlError;
use std::collections::BTreeMap;

/// Groups and sessions by id; looked up by number only.
#[derive(Debug, Default)]
pub(crate) struct Replication {
    pub groups: BTreeMap<u32, Vec<Replica>>,
    pub sessions: BTreeMap<u32, CloneSession>,
}

/// `mcast_grp` has 16 bits, and 0 means none.
const MAX_GROUP: u32 = 65_535;
/// simple_switch keeps 15 bits of a session id.
const MAX_SESSION: u32 = 32_767;

fn distinct(what: &str, replicas: &[Replica]) -> Result<(), ControlError> {
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(ControlError::InvalidValue {
            what: what.to_owned(),
            reason: format!(
                "port {} with instance {} stands twice; give each copy its own instance",
                pair[0].port, pair[0].instance
            ),
        }),
    }
}

impl Replication {
    /// Creates (`exists` false) or replaces (`exists` true) a group.
    pub(crate) fn put_group(
        &mut self,
        id: u32,
        replicas: &[Replica],
        exists: bool,
    ) -> Result<(), ControlError> {
        let what = format!("multicast group {id}");
        if !(1..=MAX_GROUP).contains(&id) {
            let reason = format!("the id is out of range; 1 to {MAX_GROUP} are valid");
            return Err(ControlError::InvalidValue { what, reason });
        }
        check_presence(&what, self.groups.contains_key(&id), exists)?;
        distinct(&what, replicas)?;
        self.groups.insert(id, replicas.to_vec());
        Ok(())
    }

    pub(crate) fn delete_group(&mut self, id: u32) -> Result<(), ControlError> {
        let found = self.groups.remove(&id).map(|_| ());
        found.ok_or_else(|| ControlError::NotFound {
            what: format!("multicast group {id}"),
        })
    }

    /// Creates (`exists` false) or replaces (`exists` true) a session.
    pub(crate) fn put_session(
        &mut self,
        id: u32,
        session: &CloneSession,
        exists: bool,
    ) -> Result<(), ControlError> {
        let what = format!("clone session {id}");
        if id > MAX_SESSION {
            let reason = format!("the id is out of range; 0 to {MAX_SESSION} are valid");
            return Err(ControlError::InvalidValue { what, reason });
        }
        check_presence(&what, self.sessions.contains_key(&id), exists)?;
        distinct(&what, &session.replicas)?;
        self.sessions.insert(id, session.clone());
        Ok(())
    }

    pub(crate) fn delete_session(&mut self, id: u32) -> Result<(), ControlError> {
        let found = self.sessions.remove(&id).map(|_| ());
        found.ok_or_else(|| ControlError::NotFound {
            what: format!("clone session {id}"),
        })
    }
}

fn check_presence(what: &str, present: bool, wanted: bool) -> Result<(), ControlError> {
    match (present, wanted) {
        (true, false) => Err(ControlError::Exists {
            what: what.to_owned(),
        }),
        (false, true) => Err(ControlError::NotFound {
            what: what.to_owned(),
        }),
        _ => Ok(()),
    }
}
