// SPDX-License-Identifier: Apache-2.0
//! Control flow: tables, conditions and calls until the end of a pipeline.

use super::action;
use super::calc;
use super::expr::View;
use super::packet::Packet;
use crate::ir::{Expr, Ir, Node, ProfileUse, Table};
use crate::ports::Port;
use crate::state::Externs;
use crate::tables::profile::{Call, Pointer, ProfileState};
use crate::tables::{Direct, TableState};

/// What a step of the packet path works with, beside the packet and the tables.
pub(crate) struct Cx<'a> {
    pub ir: &'a Ir,
    pub externs: &'a mut Externs,
    pub profiles: &'a [ProfileState],
    pub now_ns: u64,
    pub drop_port: Port,
}

/// Runs a pipeline from `node` to its end or to `exit`.
pub(crate) fn run(
    cx: &mut Cx<'_>,
    tables: &mut [TableState],
    packet: &mut Packet,
    node: Option<Node>,
) {
    let ir = cx.ir;
    let mut node = node.unwrap_or(Node::End);
    while !packet.exit {
        node = match node {
            Node::End => break,
            Node::Condition(index) => {
                let Some(condition) = ir.conditions.get(usize::from(index)) else {
                    break;
                };
                let view = View {
                    ir,
                    phv: &packet.phv,
                    args: &[],
                    data: packet.payload(),
                };
                if view.is_true(condition.value) {
                    condition.if_true
                } else {
                    condition.if_false
                }
            }
            Node::Call(index) => {
                let Some(call) = ir.calls.get(usize::from(index)) else {
                    break;
                };
                if let Some(action) = ir.actions.get(usize::from(call.action)) {
                    action::run(cx, packet, &action.prims, &[]);
                }
                call.next
            }
            Node::Table(index) => {
                let Some(table) = tables.get_mut(usize::from(index)) else {
                    break;
                };
                apply(cx, table, packet, usize::from(index))
            }
        };
    }
}

fn apply(cx: &mut Cx<'_>, table: &mut TableState, packet: &mut Packet, index: usize) -> Node {
    let ir = cx.ir;
    let Some(spec) = ir.tables.get(index) else {
        return Node::End;
    };
    let found = table.lookup(spec, &packet.phv);
    let hit = found.is_some();
    if (spec.direct_counter || spec.direct_meter.is_some())
        && let Some(direct) = table.direct_mut(found)
    {
        run_direct(cx, spec, direct, hit, packet);
    }
    if let (true, Some(slot)) = (spec.support_timeout, found) {
        table.touch(slot, cx.now_ns);
    }
    if let (Some(used), Some(slot)) = (spec.profile, found) {
        let word = table.entry(slot).and_then(|e| e.args.first()).copied();
        return apply_indirect(cx, spec, used, word.unwrap_or(u64::MAX), packet);
    }
    let Some((local, args)) = table.action_of(found) else {
        return if hit { spec.hit } else { spec.miss }.unwrap_or(spec.base_next);
    };
    let local = usize::from(local);
    if let Some(action) = spec
        .actions
        .get(local)
        .and_then(|a| ir.actions.get(usize::from(*a)))
    {
        action::run(cx, packet, &action.prims, args);
    }
    let by_hit = if hit { spec.hit } else { spec.miss };
    by_hit
        .or_else(|| spec.next.get(local).copied())
        .unwrap_or(spec.base_next)
}

/// The direct counter and meter of the entry that was found, or of the default entry.
fn run_direct(cx: &mut Cx<'_>, spec: &Table, direct: &mut Direct, hit: bool, packet: &mut Packet) {
    let bytes = u64::from(packet.ingress_length);
    if spec.direct_counter {
        direct.counter.count(bytes);
    }
    // A miss leaves the colour as it is, as simple_switch does, unless the default entry's meter was configured.
    if let (Some(target), Some(meter)) = (spec.direct_meter, direct.meter.as_deref_mut())
        && (hit || meter.meter.config().is_some())
    {
        let units = if spec.meter_bytes { bytes } else { 1 };
        let colour = meter.execute(units, bytes, cx.now_ns);
        action::assign(cx, packet, target, Expr::Const(colour as u64), &[]);
    }
}

/// Runs what an entry of an indirect table points to.
fn apply_indirect(
    cx: &mut Cx<'_>,
    spec: &Table,
    used: ProfileUse,
    word: u64,
    packet: &mut Packet,
) -> Node {
    let ir = cx.ir;
    let profiles = cx.profiles;
    let calculation = ir
        .profiles
        .get(usize::from(used.profile))
        .and_then(|p| p.calculation);
    let (first, member) = match profiles.get(usize::from(used.profile)) {
        Some(profile) => profile.resolve(Pointer::from_word(word), |random| match calculation {
            _ if random => cx.externs.random.next(),
            Some(calculation) => calc::compute(ir, cx.externs, packet, calculation),
            None => 0,
        }),
        None => (None, None),
    };
    let mut run = |call: &Call| {
        let local = call.actions.get(usize::from(used.user)).copied()?;
        let action = spec.actions.get(usize::from(local))?;
        let action = ir.actions.get(usize::from(*action))?;
        if !packet.exit {
            action::run(cx, packet, &action.prims, &call.args);
        }
        spec.next.get(usize::from(local)).copied()
    };
    first.and_then(&mut run);
    let next = member.and_then(&mut run);
    spec.hit.or(next).unwrap_or(spec.base_next)
}
