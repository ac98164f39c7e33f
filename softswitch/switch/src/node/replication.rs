// SPDX-License-Identifier: Apache-2.0
//! `PacketReplicationEngineEntry`: multicast groups and clone sessions.

use std::collections::BTreeSet;

use weir_dataplane::{CloneSession, Replica};
use weir_p4runtime::p4::v1;
use weir_p4runtime::p4::v1::replica::PortKind;

use super::bytestring::{canonical, to_u32};
use super::failure::Failure;
use super::write::Operation;
use super::{Node, parts};

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
        let replicas = self.replicas(&entry.replicas, &place)?;
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
        if entry.class_of_service != 0 {
            return Err(Failure::unimplemented(format!(
                "{place}: class_of_service {}",
                entry.class_of_service
            )));
        }
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
        let session = CloneSession {
            replicas: self.replicas(&entry.replicas, &place)?,
            truncate_bytes,
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

    fn replicas(&self, given: &[v1::Replica], place: &str) -> Result<Vec<Replica>, Failure> {
        let mut seen = BTreeSet::new();
        let mut convert = |replica: &v1::Replica| {
            if !replica.backup_replicas.is_empty() {
                return Err(Failure::unimplemented(format!("{place}: backup_replicas")));
            }
            let port = match &replica.port_kind {
                Some(PortKind::Port(bytes)) => {
                    to_u32(bytes, || format!("{place}: the port of a replica"))?
                }
                Some(PortKind::EgressPort(port)) => *port,
                None => return Err(Failure::invalid(format!("{place}: a replica has no port"))),
            };
            if !self.has_port(port) {
                let ports: Vec<String> =
                    self.config.ports.keys().map(ToString::to_string).collect();
                return Err(Failure::invalid(format!(
                    "{place}: this switch has no port {port}; its ports are {} and the CPU port {}",
                    ports.join(", "),
                    self.config.cpu_port
                )));
            }
            let instance = u16::try_from(replica.instance).map_err(|_| {
                Failure::invalid(format!(
                    "{place}: instance {} is above {}",
                    replica.instance,
                    u16::MAX
                ))
            })?;
            if !seen.insert((port, instance)) {
                let message =
                    format!("{place}: port {port} with instance {instance} is given twice");
                return Err(Failure::invalid(message));
            }
            Ok(Replica { port, instance })
        };
        given.iter().map(&mut convert).collect()
    }
}

/// Ports are read back as they were written, in their shortest form.
fn canonical_ports(replicas: &mut [v1::Replica]) {
    for replica in replicas {
        if let Some(PortKind::Port(bytes)) = &mut replica.port_kind {
            *bytes = canonical(bytes);
        }
    }
}
