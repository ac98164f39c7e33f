// SPDX-License-Identifier: Apache-2.0
//! Calls on the packet replication engine (service `simple_pre_lag`) and on mirroring sessions.
//!
//! bmv2 composes a group of nodes, each of a replication id, ports and link aggregation groups; the dataplane has a flat
//! list of copies for each group, which is written again when a node or an aggregation group changes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use weir_dataplane::{CloneSession, Replica, Switch};

use crate::args::{Args, text};
use crate::dispatch::Answer;
use crate::refusal::{Multicast as Code, Refusal};
use crate::state::Context;
use crate::wire::{Struct, Value};

/// A node of a group.
#[derive(Debug)]
struct Node {
    rid: u16,
    ports: Vec<u32>,
    lags: Vec<u32>,
    group: Option<u32>,
}

/// A mirroring session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Session {
    port: Option<i32>,
    group: Option<i32>,
}

/// Groups, nodes, link aggregation groups and mirroring sessions.
#[derive(Debug, Default)]
pub struct Multicast {
    /// The nodes of each group, in the order in which they were associated.
    groups: BTreeMap<u32, Vec<u32>>,
    nodes: BTreeMap<u32, Node>,
    lags: BTreeMap<u32, Vec<u32>>,
    sessions: BTreeMap<u32, Session>,
}

/// bmv2's limit of nodes; a port map is as long as its highest port.
const MAX_NODES: usize = 4096;
const MAX_MAP: usize = 512;
const MAX_LAG: u32 = 256;
/// simple_switch keeps 15 bits of a session's number.
const MAX_SESSION: u32 = 32_767;
/// Code `SESSION_NOT_FOUND` of `InvalidMirroringOperation`.
const SESSION_NOT_FOUND: Refusal = Refusal::Declared(1);

/// The numbers in a map of zeros and ones, the last of which is number 0.
fn numbers(map: &str) -> Result<Vec<u32>, Refusal> {
    if map.len() > MAX_MAP || !map.bytes().all(|digit| matches!(digit, b'0' | b'1')) {
        return Err(Code::Error.into());
    }
    let digits = (0..).zip(map.bytes().rev());
    let set = digits.filter(|(_, digit)| *digit == b'1');
    Ok(set.map(|(number, _)| number).collect())
}

impl Multicast {
    fn node(&mut self, handle: i32) -> Result<(u32, &mut Node), Code> {
        let handle = u32::try_from(handle).map_err(|_| Code::InvalidNode)?;
        let node = self.nodes.get_mut(&handle).ok_or(Code::InvalidNode)?;
        Ok((handle, node))
    }

    /// The copies that a group makes, in bmv2's order.
    fn replicas(&self, group: u32) -> Vec<Replica> {
        let handles = self.groups.get(&group).into_iter().flatten();
        let nodes = handles.filter_map(|handle| self.nodes.get(handle));
        let copies = nodes.flat_map(|node| {
            let of_lags = node.lags.iter().filter_map(|lag| self.chosen(*lag));
            let ports = node.ports.iter().copied().chain(of_lags);
            ports.map(|port| Replica {
                port,
                instance: node.rid,
            })
        });
        copies.collect()
    }

    /// The port of an aggregation group that gets the copies: bmv2's hash is the constant 255.
    fn chosen(&self, lag: u32) -> Option<u32> {
        let ports = self.lags.get(&lag)?;
        ports.get(0xff_usize.checked_rem(ports.len())?).copied()
    }

    /// Writes a group, and the sessions that mirror to it, to the dataplane.
    fn write(&self, switch: &mut Switch, group: u32) -> Result<(), Refusal> {
        let replicas = self.replicas(group);
        let written = switch.modify_multicast_group(group, &replicas);
        written.map_err(|_| Code::Error)?;
        let to_group = i32::try_from(group).ok();
        for (number, session) in &self.sessions {
            if session.group.is_some() && session.group == to_group {
                self.write_session(switch, *number, *session)?;
            }
        }
        Ok(())
    }

    fn write_session(
        &self,
        switch: &mut Switch,
        number: u32,
        session: Session,
    ) -> Result<(), Refusal> {
        let group = session.group.and_then(|group| u32::try_from(group).ok());
        let to_port = session.port.and_then(|port| u32::try_from(port).ok());
        let to_port = to_port.map(|port| Replica { port, instance: 0 });
        let of_group = group.map(|group| self.replicas(group)).unwrap_or_default();
        let mut replicas: Vec<Replica> = to_port.into_iter().chain(of_group).collect();
        let mut seen = BTreeSet::new();
        replicas.retain(|replica| seen.insert(*replica));
        let session = CloneSession {
            replicas,
            ..CloneSession::default()
        };
        let exists = switch
            .clone_sessions()
            .any(|(existing, _)| existing == number);
        let written = if exists {
            switch.modify_clone_session(number, &session)
        } else {
            switch.insert_clone_session(number, &session)
        };
        written.map_err(|error| Refusal::unsupported(error.to_string()))
    }

    /// Forgets everything that `bm_reset_state` empties.
    pub fn reset(&mut self) {
        *self = Self {
            sessions: std::mem::take(&mut self.sessions),
            ..Self::default()
        };
    }

    /// Writes all sessions again, whose groups are gone.
    pub fn rewrite_sessions(&self, switch: &mut Switch) -> Result<(), Refusal> {
        let mut sessions = self.sessions.iter();
        sessions.try_for_each(|(number, session)| self.write_session(switch, *number, *session))
    }
}

fn with_switch<'a>(
    context: &'a mut Context<'_>,
) -> Result<(&'a mut Switch, &'a mut Multicast), Refusal> {
    let switch = context.core.node.switch_mut();
    let switch = switch.ok_or(Refusal::from(Code::Error))?;
    Ok((switch, &mut context.state.multicast))
}

/// The group that argument `id` names.
fn group(multicast: &Multicast, args: Args<'_>, id: i16) -> Result<u32, Refusal> {
    let group = u32::try_from(args.i32(id)?).ok();
    let group = group.filter(|group| multicast.groups.contains_key(group));
    group.ok_or_else(|| Code::InvalidGroup.into())
}

pub(crate) fn create_group(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (switch, multicast) = with_switch(context)?;
    let given = args.i32(2)?;
    let group = u32::try_from(given).map_err(|_| Code::InvalidMgid)?;
    if let Entry::Vacant(vacant) = multicast.groups.entry(group) {
        let created = switch.insert_multicast_group(group, &[]);
        created.map_err(|error| match error {
            weir_dataplane::ControlError::InvalidValue { .. } => Code::InvalidMgid,
            _ => Code::Error,
        })?;
        vacant.insert(Vec::new());
    }
    Ok(Some(Value::I32(given)))
}

pub(crate) fn destroy_group(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (switch, multicast) = with_switch(context)?;
    // bmv2 does not mind when there is none.
    let Ok(group) = group(multicast, args, 2) else {
        return Ok(None);
    };
    for node in multicast.groups.remove(&group).unwrap_or_default() {
        if let Some(node) = multicast.nodes.get_mut(&node) {
            node.group = None;
        }
    }
    multicast.rewrite_sessions(switch)?;
    let deleted = switch.delete_multicast_group(group);
    deleted.map_err(|_| Code::Error)?;
    Ok(None)
}

pub(crate) fn create_node(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (_, multicast) = with_switch(context)?;
    if multicast.nodes.len() >= MAX_NODES {
        return Err(Code::TableFull.into());
    }
    let node = Node {
        rid: u16::try_from(args.i32(2)?).map_err(|_| Code::Error)?,
        ports: numbers(args.text(3)?)?,
        lags: numbers(args.text(4)?)?,
        group: None,
    };
    let taken = (0..).zip(multicast.nodes.keys());
    let gap = taken.take_while(|(at, handle)| at == *handle).count();
    let handle = u32::try_from(gap).map_err(|_| Code::TableFull)?;
    multicast.nodes.insert(handle, node);
    Ok(Some(Value::I32(handle.cast_signed())))
}

pub(crate) fn associate(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (switch, multicast) = with_switch(context)?;
    let (handle, _) = multicast.node(args.i32(3)?)?;
    let group = group(multicast, args, 2)?;
    let (_, node) = multicast.node(args.i32(3)?)?;
    if node.group.is_some() {
        return Err(Code::Error.into());
    }
    node.group = Some(group);
    multicast.groups.entry(group).or_default().push(handle);
    let written = multicast.write(switch, group);
    if written.is_err() {
        unlink(multicast, group, handle);
    }
    written.map(|()| None)
}

fn unlink(multicast: &mut Multicast, group: u32, handle: u32) {
    if let Some(nodes) = multicast.groups.get_mut(&group) {
        nodes.retain(|node| *node != handle);
    }
    if let Some(node) = multicast.nodes.get_mut(&handle) {
        node.group = None;
    }
}

pub(crate) fn dissociate(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (switch, multicast) = with_switch(context)?;
    multicast.node(args.i32(3)?)?;
    let group = group(multicast, args, 2)?;
    let (handle, node) = multicast.node(args.i32(3)?)?;
    if node.group != Some(group) {
        return Err(Code::Error.into());
    }
    unlink(multicast, group, handle);
    multicast.write(switch, group)?;
    Ok(None)
}

pub(crate) fn destroy_node(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (switch, multicast) = with_switch(context)?;
    let (handle, node) = multicast.node(args.i32(2)?)?;
    if let Some(group) = node.group {
        unlink(multicast, group, handle);
        multicast.write(switch, group)?;
    }
    multicast.nodes.remove(&handle);
    Ok(None)
}

pub(crate) fn update_node(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (switch, multicast) = with_switch(context)?;
    let (ports, lags) = (numbers(args.text(3)?)?, numbers(args.text(4)?)?);
    let (handle, node) = multicast.node(args.i32(2)?)?;
    let before = (
        std::mem::replace(&mut node.ports, ports),
        std::mem::replace(&mut node.lags, lags),
    );
    let Some(group) = node.group else {
        return Ok(None);
    };
    let written = multicast.write(switch, group);
    if written.is_err()
        && let Some(node) = multicast.nodes.get_mut(&handle)
    {
        (node.ports, node.lags) = before;
    }
    written.map(|()| None)
}

pub(crate) fn set_lag(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (switch, multicast) = with_switch(context)?;
    let lag = u32::try_from(args.i16(2)?)
        .ok()
        .filter(|lag| *lag <= MAX_LAG);
    let lag = lag.ok_or(Code::Error)?;
    multicast.lags.insert(lag, numbers(args.text(3)?)?);
    let users = multicast
        .nodes
        .values()
        .filter(|node| node.lags.contains(&lag));
    let groups: BTreeSet<u32> = users.filter_map(|node| node.group).collect();
    for group in groups {
        multicast.write(switch, group)?;
    }
    Ok(None)
}

pub(crate) fn get_entries(context: &mut Context<'_>, _: Args<'_>) -> Answer {
    let multicast = &context.state.multicast;
    let groups = multicast.groups.iter();
    let groups = groups.map(|(id, nodes)| json!({"id": id, "l1_handles": nodes}));
    let nodes = multicast.nodes.iter();
    let l1 = nodes
        .clone()
        .map(|(handle, node)| json!({"handle": handle, "rid": node.rid, "l2_handle": handle}));
    let l2 = nodes
        .map(|(handle, node)| json!({"handle": handle, "ports": node.ports, "lags": node.lags}));
    let lags = multicast.lags.iter();
    let lags = lags.map(|(id, ports)| json!({"id": id, "ports": ports}));
    let all = json!({
        "mgrps": groups.collect::<Vec<_>>(),
        "l1_handles": l1.collect::<Vec<_>>(),
        "l2_handles": l2.collect::<Vec<_>>(),
        "lags": lags.collect::<Vec<_>>(),
    });
    Ok(Some(text(&all.to_string())))
}

/// The number of a session; one that simple_switch cannot have is not found.
fn session_number(args: Args<'_>) -> Result<u32, Refusal> {
    let number = u32::try_from(args.i32(1)?).ok();
    number
        .filter(|number| *number <= MAX_SESSION)
        .ok_or(SESSION_NOT_FOUND)
}

fn add_session(context: &mut Context<'_>, number: u32, session: Session) -> Result<(), Refusal> {
    let switch = context.core.node.switch_mut();
    let switch = switch.ok_or_else(|| Refusal::unsupported("the switch has no program yet"))?;
    let multicast = &mut context.state.multicast;
    multicast.write_session(switch, number, session)?;
    multicast.sessions.insert(number, session);
    Ok(())
}

pub(crate) fn session_add(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let (number, config) = (session_number(args)?, args.fields(2)?);
    let session = Session {
        port: config.optional_i32(1)?,
        group: config.optional_i32(2)?,
    };
    add_session(context, number, session)?;
    Ok(None)
}

fn remove_session(context: &mut Context<'_>, number: u32) -> Result<(), Refusal> {
    let removed = context.state.multicast.sessions.remove(&number);
    removed.ok_or(SESSION_NOT_FOUND)?;
    if let Some(switch) = context.core.node.switch_mut() {
        let deleted = switch.delete_clone_session(number);
        deleted.map_err(|_| SESSION_NOT_FOUND)?;
    }
    Ok(())
}

pub(crate) fn session_delete(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    remove_session(context, session_number(args)?)?;
    Ok(None)
}

pub(crate) fn session_get(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let number = session_number(args)?;
    let session = context.state.multicast.sessions.get(&number);
    let session = session.ok_or(SESSION_NOT_FOUND)?;
    let port = session.port.map(|port| (1, Value::I32(port)));
    let group = session.group.map(|group| (2, Value::I32(group)));
    Ok(Some(Value::Struct(Struct(
        port.into_iter().chain(group).collect(),
    ))))
}

/// The deprecated calls return 1 for done and 0 for not.
pub(crate) fn mapping_add(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let session = Session {
        port: Some(args.i32(2)?),
        group: None,
    };
    let added = session_number(args).and_then(|number| add_session(context, number, session));
    Ok(Some(Value::I32(i32::from(added.is_ok()))))
}

pub(crate) fn mapping_delete(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let removed = session_number(args).and_then(|number| remove_session(context, number));
    Ok(Some(Value::I32(i32::from(removed.is_ok()))))
}

pub(crate) fn mapping_get_port(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let number = session_number(args).ok();
    let session = number.and_then(|number| context.state.multicast.sessions.get(&number));
    Ok(Some(Value::I32(fields_port(session))))
}

fn fields_port(session: Option<&Session>) -> i32 {
    session.and_then(|session| session.port).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_digit_of_a_map_is_number_0() {
        assert_eq!(numbers("0101"), Ok(vec![0, 2]));
        assert_eq!(numbers(""), Ok(vec![]));
        assert_eq!(numbers("12"), Err(Code::Error.into()));
        assert_eq!(numbers(&"0".repeat(513)), Err(Code::Error.into()));
    }

    #[test]
    fn a_group_copies_to_the_ports_of_its_nodes_and_one_port_of_each_aggregation_group() {
        let node = |rid, ports: &[u32], lags: &[u32]| Node {
            rid,
            ports: ports.to_vec(),
            lags: lags.to_vec(),
            group: Some(7),
        };
        let multicast = Multicast {
            groups: [(7, vec![1, 0])].into(),
            nodes: [(0, node(5, &[1, 2], &[])), (1, node(6, &[1], &[3, 4]))].into(),
            // 255 mod 2 = 1, the second port; group 4 has no members.
            lags: [(3, vec![8, 9]), (4, vec![])].into(),
            sessions: BTreeMap::new(),
        };
        let copies: Vec<(u32, u16)> = multicast
            .replicas(7)
            .iter()
            .map(|r| (r.port, r.instance))
            .collect();
        assert_eq!(copies, [(1, 6), (9, 6), (1, 5), (2, 5)]);
    }
}
