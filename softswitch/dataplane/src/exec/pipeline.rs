// SPDX-License-Identifier: Apache-2.0
//! Control flow: tables, conditions and calls until the end of a pipeline.

use super::action;
use super::expr::View;
use super::packet::Packet;
use crate::ir::{Expr, Ir, Node};
use crate::ports::Port;
use crate::state::Externs;
use crate::tables::TableState;

/// What a step of the packet path works with, beside the packet and the tables.
pub(crate) struct Cx<'a> {
    pub ir: &'a Ir,
    pub externs: &'a mut Externs,
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
    if let Some(entry) = found.and_then(|slot| table.entry_mut(slot)) {
        if spec.direct_counter {
            entry.counter.packets = entry.counter.packets.wrapping_add(1);
            entry.counter.bytes = entry
                .counter
                .bytes
                .wrapping_add(u64::from(packet.ingress_length));
        }
        if let (Some(target), Some(meter)) = (spec.direct_meter, entry.meter.as_deref_mut()) {
            let units = if spec.meter_bytes {
                u64::from(packet.ingress_length)
            } else {
                1
            };
            let colour = meter.execute(units, cx.now_ns);
            action::assign(cx, packet, target, Expr::Const(colour as u64), &[]);
        }
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
