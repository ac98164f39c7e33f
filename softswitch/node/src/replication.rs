// SPDX-License-Identifier: Apache-2.0
//! `PacketReplicationEngineEntry`: multicast groups and clone sessions.

use std::collections::BTreeSet;

use weir_dataplane::{CloneSession, Replica};
use weir_p4runtime::p4::v1;
use weir_p4runtime::p4::v1::replica::PortKind;

use super::bytestring::{canonical, number, to_u32};
use super::failure::Failure;
use super::write::Operation;
use super::{MAX_PORT, Node, parts};

/// Highest priority: simple_switch has 0 to 7.
const MAX_CLASS_OF_SERVICE: u8 = 7;

impl Node {
    pub(super) fn write_group(
        &mut self,
        operation: Operation,
        entry: &v1::MulticastGroupEntry,
    ) -> Result<(), Failure> {
        parts(&self.pipeline, &mut self.switch)?;
        let id = entry.multicast_group_id;
        if id == 0 {
            return Err(Failure::invalid(
                "MulticastGroupEntry: multicast_group_id must not be 0",
            ));
        }
        let place = format!("multicast group {id}");
        if operation == Operation::Delete {
            let (_, switch) = parts(&self.pipeline, &mut self.switch)?;
            switch.delete_multicast_group(id)?;
            self.groups.remove(&id);
            return Ok(());
        }
        self.check_replicas(&entry.replicas, &place)?;
        let replicas = self.live_replicas(&entry.replicas);
        let (_, switch) = parts(&self.pipeline, &mut self.switch)?;
        if operation == Operation::Insert {
            switch.insert_multicast_group(id, &replicas)?;
        } else {
            switch.modify_multicast_group(id, &replicas)?;
        }
        let mut written = entry.clone();
        canonical_ports(&mut written.replicas);
        self.groups.insert(id, written);
        Ok(())
    }

    pub(super) fn write_session(
        &mut self,
        operation: Operation,
        entry: &v1::CloneSessionEntry,
    ) -> Result<(), Failure> {
        parts(&self.pipeline, &mut self.switch)?;
        let id = entry.session_id;
        if id == 0 {
            return Err(Failure::invalid(
                "CloneSessionEntry: session_id must not be 0",
            ));
        }
        let place = format!("clone session {id}");
        if operation == Operation::Delete {
            let (_, switch) = parts(&self.pipeline, &mut self.switch)?;
            switch.delete_clone_session(id)?;
            self.sessions.remove(&id);
            return Ok(());
        }
        let class_of_service = u8::try_from(entry.class_of_service)
            .ok()
            .filter(|class| *class <= MAX_CLASS_OF_SERVICE)
            .ok_or_else(|| {
                Failure::invalid(format!(
                    "{place}: class_of_service {} is above {MAX_CLASS_OF_SERVICE}, the highest priority",
                    entry.class_of_service
                ))
            })?;
        let truncate_bytes = match usize::try_from(entry.packet_length_bytes) {
            Ok(0) => None,
            Ok(bytes) => Some(bytes),
            Err(_) => {
                let bytes = entry.packet_length_bytes;
                return Err(Failure::invalid(format!(
                    "{place}: packet_length_bytes {bytes} is negative"
                )));
            }
        };
        self.check_replicas(&entry.replicas, &place)?;
        let session = CloneSession {
            replicas: self.live_replicas(&entry.replicas),
            truncate_bytes,
            class_of_service,
        };
        let (_, switch) = parts(&self.pipeline, &mut self.switch)?;
        if operation == Operation::Insert {
            switch.insert_clone_session(id, &session)?;
        } else {
            switch.modify_clone_session(id, &session)?;
        }
        let mut written = entry.clone();
        canonical_ports(&mut written.replicas);
        self.sessions.insert(id, written);
        Ok(())
    }

    /// Requires that each pair of port and instance occurs once, backups included, and that a backup has another port than
    /// its replica.
    fn check_replicas(&self, given: &[v1::Replica], place: &str) -> Result<(), Failure> {
        let mut seen = BTreeSet::new();
        let mut check = |port: u32, instance: u32| {
            if !self.absent_replicas || port > MAX_PORT {
                self.require_port(port, place)?;
            }
            if u16::try_from(instance).is_err() {
                return Err(Failure::invalid(format!(
                    "{place}: instance {instance} is above {}",
                    u16::MAX
                )));
            }
            if !seen.insert((port, instance)) {
                let message =
                    format!("{place}: port {port} with instance {instance} is given twice");
                return Err(Failure::invalid(message));
            }
            Ok(())
        };
        for replica in given {
            let port = match &replica.port_kind {
                Some(PortKind::Port(bytes)) => {
                    to_u32(bytes, || format!("{place}: the port of a replica"))?
                }
                Some(PortKind::EgressPort(port)) => *port,
                None => return Err(Failure::invalid(format!("{place}: a replica has no port"))),
            };
            check(port, replica.instance)?;
            for backup in &replica.backup_replicas {
                let place = || format!("{place}: the port of a backup replica");
                let backup_port = to_u32(&backup.port, place)?;
                if backup_port == port {
                    return Err(Failure::invalid(format!(
                        "{} is {port}, its replica's own",
                        place()
                    )));
                }
                check(backup_port, backup.instance)?;
            }
        }
        Ok(())
    }

    /// The replicas for the dataplane: each, or its first backup whose port is up, or none when all ports are down. A replica
    /// without backups keeps its port in any case. `given` must have passed [`Node::check_replicas`].
    fn live_replicas(&self, given: &[v1::Replica]) -> Vec<Replica> {
        let mut replicas = Vec::with_capacity(given.len());
        for replica in given {
            let port = match &replica.port_kind {
                Some(PortKind::Port(bytes)) => number(bytes),
                Some(PortKind::EgressPort(port)) => *port,
                None => continue,
            };
            let backups = replica.backup_replicas.iter();
            let backups = backups.map(|backup| (number(&backup.port), backup.instance));
            let mut choices = std::iter::once((port, replica.instance)).chain(backups);
            let chosen = if replica.backup_replicas.is_empty() {
                choices.next()
            } else {
                choices.find(|(port, _)| !self.profiles.ports_down.contains(port))
            };
            if let Some((port, instance)) = chosen {
                // At most 16 bits, as checked.
                let instance = u16::try_from(instance).unwrap_or(u16::MAX);
                replicas.push(Replica { port, instance });
            }
        }
        replicas
    }

    /// The ports that a multicast group currently copies to.
    pub fn multicast_ports(&self, id: u32) -> Vec<u32> {
        let mut groups = self
            .switch
            .iter()
            .flat_map(|switch| switch.multicast_groups());
        let found = groups.find(|(known, _)| *known == id);
        found.map_or_else(Vec::new, |(_, replicas)| {
            replicas.iter().map(|replica| replica.port).collect()
        })
    }

    /// Updates the groups and sessions with backups after `port` came up or went down.
    pub(super) fn refresh_backups(&mut self, port: u32) -> Result<(), Failure> {
        let affected = |replicas: &[v1::Replica]| {
            replicas.iter().any(|replica| {
                !replica.backup_replicas.is_empty()
                    && (matches!(&replica.port_kind, Some(PortKind::Port(p)) if number(p) == port)
                        || matches!(&replica.port_kind, Some(PortKind::EgressPort(p)) if *p == port)
                        || replica
                            .backup_replicas
                            .iter()
                            .any(|backup| number(&backup.port) == port))
            })
        };
        let mut groups = Vec::new();
        for (id, group) in &self.groups {
            if affected(&group.replicas) {
                groups.push((*id, self.live_replicas(&group.replicas)));
            }
        }
        let mut sessions = Vec::new();
        for (id, session) in &self.sessions {
            if affected(&session.replicas) {
                sessions.push((*id, self.live_replicas(&session.replicas)));
            }
        }
        let (_, switch) = parts(&self.pipeline, &mut self.switch)?;
        for (id, replicas) in groups {
            switch.modify_multicast_group(id, &replicas)?;
        }
        for (id, replicas) in sessions {
            let found = switch.clone_sessions().find(|(known, _)| *known == id);
            if let Some((_, session)) = found {
                let session = CloneSession {
                    replicas,
                    ..session.clone()
                };
                switch.modify_clone_session(id, &session)?;
            }
        }
        Ok(())
    }
}

/// Makes ports canonical, the form in which they are read back.
fn canonical_ports(replicas: &mut [v1::Replica]) {
    for replica in replicas {
        if let Some(PortKind::Port(bytes)) = &mut replica.port_kind {
            *bytes = canonical(bytes);
        }
        for backup in &mut replica.backup_replicas {
            backup.port = canonical(&backup.port);
        }
    }
}
