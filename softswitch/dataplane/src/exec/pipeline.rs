// SPDX-License-Identifier: Apache-2.0
//! Ingress and egress in the interpreter: steps and tables until the end of the pipeline.

use super::action;
use super::calc;
use super::expr::View;
use super::logged;
use super::prefetch;
use crate::context::Cx;
use crate::ir::{Expr, Gress, Ir, ProfileUse, Slot, Step, Table, TableNext};
use crate::packet::phv::{self, get, load_opt, low_mask, put, put_const, store_opt};
use crate::packet::{EgressMetadata, EgressResult, IngressMetadata, IngressResult, Packet};
use crate::tables::profile::{Call, Pointer};
use crate::tables::{Direct, TableState};

/// Runs ingress to its end or to `exit`; no step of it after a false `assert` of the parser.
#[inline(never)]
pub(crate) fn ingress(
    cx: &mut Cx<'_>,
    tables: &mut [TableState],
    packet: &mut Packet,
) -> IngressResult {
    run(cx, tables, packet, Gress::Ingress);
    let (phv, intrinsics) = (&packet.phv, &cx.ir.intrinsics);
    IngressResult {
        mcast_grp: load_opt(phv, intrinsics.mcast_grp),
        egress_spec: load_opt(phv, intrinsics.egress_spec),
        priority: load_opt(phv, intrinsics.priority),
        instance_type: load_opt(phv, intrinsics.instance_type),
    }
}

/// Writes the metadata of egress and runs egress to its end or to `exit`.
#[inline(never)]
pub(crate) fn egress(
    cx: &mut Cx<'_>,
    tables: &mut [TableState],
    packet: &mut Packet,
    metadata: EgressMetadata,
) -> EgressResult {
    write_egress_metadata(cx.ir, &mut packet.phv, &metadata);
    run(cx, tables, packet, Gress::Egress);
    EgressResult {
        egress_spec: load_opt(&packet.phv, cx.ir.intrinsics.egress_spec),
        update_checksums: true,
        deparsed: false,
    }
}

/// Resets all fields and writes the metadata of a received packet.
pub(crate) fn write_ingress_metadata(ir: &Ir, packet: &mut Packet, metadata: IngressMetadata) {
    let length = u64::from(packet.length);
    let (phv, intrinsics) = (&mut packet.phv, &ir.intrinsics);
    phv::reset(ir, phv);
    store_opt(phv, intrinsics.ingress_port, metadata.port);
    store_opt(phv, intrinsics.packet_length, length);
    store_opt(phv, intrinsics.ingress_timestamp, metadata.time_us);
}

fn write_egress_metadata(ir: &Ir, phv: &mut [u8], metadata: &EgressMetadata) {
    let intrinsics = &ir.intrinsics;
    store_opt(phv, intrinsics.enq_timestamp, metadata.enqueued_us);
    store_opt(phv, intrinsics.enq_qdepth, metadata.enq_qdepth);
    store_opt(phv, intrinsics.egress_timestamp, metadata.time_us);
    store_opt(phv, intrinsics.egress_port, metadata.port);
    store_opt(phv, intrinsics.qid, metadata.priority);
    store_opt(phv, intrinsics.packet_length, metadata.length);
    if !metadata.deflected {
        store_opt(phv, intrinsics.deq_timedelta, metadata.queued_us);
        store_opt(phv, intrinsics.deq_qdepth, metadata.deq_qdepth);
        store_opt(phv, intrinsics.egress_spec, metadata.egress_spec);
    }
}

#[inline(never)]
fn run(cx: &mut Cx<'_>, tables: &mut [TableState], packet: &mut Packet, gress: Gress) {
    if cx.externs.path_log.is_some() {
        return logged::run(cx, tables, packet, gress);
    }
    if packet.exit {
        return;
    }
    let mut at = cx.ir.flat.start(gress);
    while let Some(index) = run_steps::<false>(cx, packet, at, &[]) {
        let index = usize::from(index);
        let Some(table) = tables.get_mut(index) else {
            break;
        };
        match apply::<false>(cx, table, packet, index) {
            Some(next) if !packet.exit => at = next,
            _ => break,
        }
    }
}

/// Runs one step that the machine code leaves to the interpreter. Returns the value of a condition, and for every other
/// step whether the packet leaves the pipeline.
pub(crate) fn run_step(cx: &mut Cx<'_>, packet: &mut Packet, index: usize, args: &[u64]) -> bool {
    let ir = cx.ir;
    match ir.flat.steps.get(index) {
        Some(Step::IfFalse { value, .. }) => return view(ir, packet, args).is_true(*value),
        Some(Step::Set { to, value }) => set(ir, packet, (*to, *value), args),
        Some(Step::Slow(index) | Step::Assert(index)) => run_slow(cx, packet, *index, args),
        // The machine code runs these itself.
        Some(
            Step::SetConst { .. }
            | Step::Copy { .. }
            | Step::AddConst { .. }
            | Step::Concat { .. }
            | Step::SetArg { .. }
            | Step::Count { .. }
            | Step::Meter { .. }
            | Step::ReadRegister { .. }
            | Step::WriteRegister { .. }
            | Step::Hash { .. }
            | Step::IfZero { .. }
            | Step::IfNotEqual { .. }
            | Step::Jump(_)
            | Step::Prefetch(_)
            | Step::Table(_)
            | Step::Return
            | Step::StopIfExit
            | Step::End,
        )
        | None => {}
    }
    packet.exit
}

/// Runs steps until a table comes next (its index), or the pipeline or action ends (None).
pub(super) fn run_steps<const LOG: bool>(
    cx: &mut Cx<'_>,
    packet: &mut Packet,
    start: u32,
    args: &[u64],
) -> Option<u16> {
    let ir = cx.ir;
    let steps = ir.flat.steps.as_slice();
    let mut at = start as usize;
    while let Some(step) = steps.get(at) {
        if LOG {
            logged::origins(cx, packet, at, args);
        }
        at += 1;
        match step {
            Step::SetConst { offset, keep, bits } => {
                put_const(&mut packet.phv, *offset, *keep, *bits);
            }
            Step::Copy { to, from } => {
                let value = get(&packet.phv, *from);
                put(&mut packet.phv, *to, value);
            }
            Step::AddConst { to, from, value } => {
                let value = get(&packet.phv, *from).wrapping_add(*value);
                put(&mut packet.phv, *to, value);
            }
            Step::Concat { to, high, by, low } => {
                let high = get(&packet.phv, *high) << (by & 63);
                let value = high | get(&packet.phv, *low);
                put(&mut packet.phv, *to, value);
            }
            Step::SetArg { to, word } => {
                let value = args.get(usize::from(*word)).copied().unwrap_or(0);
                put(&mut packet.phv, *to, value);
            }
            Step::Set { to, value } => set(ir, packet, (*to, *value), args),
            Step::Count { counter, index } => count(cx, packet, *counter, get(&packet.phv, *index)),
            Step::Meter { meter, index, to } => {
                let index = get(&packet.phv, *index);
                if let Some(colour) = action::execute_meter(cx, packet, *meter, index) {
                    put(&mut packet.phv, *to, colour);
                }
            }
            Step::ReadRegister {
                register,
                index,
                to,
            } => {
                if let Some(word) = read_register(cx, *register, get(&packet.phv, *index)) {
                    put(&mut packet.phv, *to, word);
                }
            }
            Step::WriteRegister {
                register,
                index,
                value,
            } => write_register(
                cx,
                *register,
                get(&packet.phv, *index),
                get(&packet.phv, *value),
            ),
            Step::Hash {
                calculation,
                to,
                mask,
            } => {
                let value = calc::compute(ir, cx.externs, packet, *calculation);
                put(&mut packet.phv, *to, value & mask);
            }
            Step::IfZero { field, to } => {
                if get(&packet.phv, *field) == 0 {
                    at = *to as usize;
                }
            }
            Step::IfNotEqual { field, value, to } => {
                if get(&packet.phv, *field) != *value {
                    at = *to as usize;
                }
            }
            Step::IfFalse { value, to } => {
                if !view(ir, packet, args).is_true(*value) {
                    at = *to as usize;
                }
            }
            Step::Prefetch(index) => {
                if let Some(prefetch) = ir.flat.prefetches.get(*index as usize) {
                    prefetch::run(cx.externs, &packet.phv, prefetch);
                }
            }
            Step::Jump(to) => at = *to as usize,
            Step::Table(index) => return Some(*index),
            Step::Return | Step::End => return None,
            Step::Assert(index) => {
                run_slow(cx, packet, *index, args);
                if packet.exit {
                    return None;
                }
            }
            Step::StopIfExit => {
                if packet.exit {
                    return None;
                }
            }
            Step::Slow(index) => run_slow(cx, packet, *index, args),
        }
    }
    None
}

/// The value of a condition that a step tests.
pub(super) fn condition(ir: &Ir, packet: &Packet, step: &Step, args: &[u64]) -> bool {
    match step {
        Step::IfZero { field, .. } => get(&packet.phv, *field) != 0,
        Step::IfNotEqual { field, value, .. } => get(&packet.phv, *field) == *value,
        Step::IfFalse { value, .. } => view(ir, packet, args).is_true(*value),
        _ => false,
    }
}

#[inline(always)]
fn view<'a>(ir: &'a Ir, packet: &'a Packet, args: &'a [u64]) -> View<'a> {
    View {
        ir,
        phv: &packet.phv,
        args,
        packet,
    }
}

#[inline(always)]
fn set(ir: &Ir, packet: &mut Packet, (to, value): (Slot, Expr), args: &[u64]) {
    let value = view(ir, packet, args).eval_low(value);
    put(&mut packet.phv, to, value);
}

#[inline(always)]
fn run_slow(cx: &mut Cx<'_>, packet: &mut Packet, index: u32, args: &[u64]) {
    if let Some(prim) = cx.ir.flat.slow.get(index as usize) {
        action::run(cx, packet, std::slice::from_ref(prim), args);
    }
}

/// Counts the packet; an index out of range is counted instead.
#[inline(always)]
fn count(cx: &mut Cx<'_>, packet: &Packet, counter: u16, index: u64) {
    let array = cx.externs.counters.get_mut(usize::from(counter));
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    if let Some(cell) = array.and_then(|array| array.get_mut(index)) {
        cell.count(u64::from(packet.ingress_length));
    } else {
        cx.externs.stats.index_out_of_range += 1;
    }
}

/// The first word of a register's cell; an index out of range is counted.
#[inline(always)]
pub(crate) fn read_register(cx: &mut Cx<'_>, register: u16, index: u64) -> Option<u64> {
    let array = cx.externs.registers.get(usize::from(register));
    let cell = array.and_then(|array| array.cell(index));
    let word = cell.and_then(|cell| cell.first()).copied();
    if word.is_none() {
        cx.externs.stats.index_out_of_range += 1;
    }
    word
}

/// Writes a value of at most 64 bits to a register's cell; an index out of range is counted.
#[inline(always)]
pub(crate) fn write_register(cx: &mut Cx<'_>, register: u16, index: u64, value: u64) {
    let Some(array) = cx.externs.registers.get_mut(usize::from(register)) else {
        return;
    };
    let width = array.width;
    match array.cell_mut(index) {
        None => cx.externs.stats.index_out_of_range += 1,
        Some([]) => {}
        Some([word]) => *word = value & low_mask(width),
        Some([word, rest @ ..]) => {
            *word = value;
            rest.fill(0);
        }
    }
}

/// Looks the packet up; a hit or miss updates direct counter, direct meter and idle timer.
pub(crate) fn find(
    cx: &mut Cx<'_>,
    table: &mut TableState,
    packet: &mut Packet,
    index: usize,
) -> Option<u32> {
    let spec = cx.ir.tables.get(index)?;
    let found = table.lookup(spec, &packet.phv);
    update_direct(cx, table, packet, (spec, found));
    found
}

/// Updates direct counter, direct meter and idle timer of the entry that was found, or of the default entry.
#[inline(always)]
pub(crate) fn update_direct(
    cx: &mut Cx<'_>,
    table: &mut TableState,
    packet: &mut Packet,
    (spec, found): (&Table, Option<u32>),
) {
    if (spec.direct_counter || spec.direct_meter.is_some())
        && let Some(direct) = table.direct_mut(found)
    {
        run_direct(cx, spec, direct, found.is_some(), packet);
    }
    if let (true, Some(slot)) = (spec.support_timeout, found) {
        table.touch(slot, cx.now_ns);
    }
}

/// Looks up, counts, runs the action; returns the step that follows the table.
pub(crate) fn apply<const LOG: bool>(
    cx: &mut Cx<'_>,
    table: &mut TableState,
    packet: &mut Packet,
    index: usize,
) -> Option<u32> {
    let ir = cx.ir;
    let spec = ir.tables.get(index)?;
    let next = ir.flat.tables.get(index)?;
    let found = find(cx, table, packet, index);
    let hit = found.is_some();
    if let (Some(used), Some(slot)) = (spec.profile, found) {
        let word = table
            .entry(slot)
            .and_then(|entry| entry.action.args().first())
            .copied();
        return Some(apply_indirect::<LOG>(
            cx,
            (spec, next),
            used,
            word.unwrap_or(u64::MAX),
            packet,
        ));
    }
    let by_hit = if hit { next.hit } else { next.miss };
    let Some(bound) = table.action_of(found) else {
        return Some(by_hit.unwrap_or(next.base));
    };
    let local = usize::from(bound.local());
    if let Some(action) = spec
        .actions
        .get(local)
        .and_then(|a| ir.flat.actions.get(usize::from(*a)))
    {
        run_steps::<LOG>(cx, packet, *action, bound.args());
    }
    Some(
        by_hit
            .or_else(|| next.next.get(local).copied())
            .unwrap_or(next.base),
    )
}

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

/// Runs the actions of the profile member or group that an entry points to, and returns the next step.
fn apply_indirect<const LOG: bool>(
    cx: &mut Cx<'_>,
    (spec, next): (&Table, &TableNext),
    used: ProfileUse,
    word: u64,
    packet: &mut Packet,
) -> u32 {
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
        let action = ir.flat.actions.get(usize::from(*action))?;
        if !packet.exit {
            run_steps::<LOG>(cx, packet, *action, &call.args);
        }
        next.next.get(usize::from(local)).copied()
    };
    first.and_then(&mut run);
    let by_action = member.and_then(&mut run);
    next.hit.or(by_action).unwrap_or(next.base)
}
