// SPDX-License-Identifier: Apache-2.0
//! Actions: the primitives of v1model over the PHV and the externs.

use super::expr::View;
use super::headers::{add_header, copy_header, copy_union, copy_varbit, remove_header};
use super::stack::{copy_stack, copy_union_stack, shift_stack, shift_unions};
use super::{calc, log};
use crate::context::Cx;
use crate::ir::{AnyField, DigestField, Expr, HeaderRef, Ir, Prim, Target};
use crate::packet::Packet;
use crate::packet::phv::{append_bytes, byte, copy_bits, store, store_opt, store_wide};
use crate::wide::Wide;
use weir_program::LogKind;

fn view<'a>(cx: &'a Cx<'_>, packet: &'a Packet, args: &'a [u64]) -> View<'a> {
    View {
        ir: cx.ir,
        phv: &packet.phv,
        args,
        packet,
    }
}

/// Runs a list of primitives with the given arguments.
#[expect(clippy::too_many_lines, reason = "one arm per primitive")]
pub(crate) fn run(cx: &mut Cx<'_>, packet: &mut Packet, prims: &[Prim], args: &[u64]) {
    let mut next = 0;
    while let Some(prim) = prims.get(next) {
        next += 1;
        match prim {
            Prim::Assign { target, value } => {
                let value = view(cx, packet, args).eval_low(*value);
                store(&mut packet.phv, *target, value);
            }
            Prim::AssignAny { target, value } => assign(cx, packet, *target, *value, args),
            Prim::CopyBits { from, to } => copy_bits(&mut packet.phv, *from, *to),
            Prim::AddHeader(header) => {
                if let Some(header) = resolve(cx, packet, *header, args) {
                    add_header(cx.ir, packet, header);
                }
            }
            Prim::RemoveHeader(header) => {
                if let Some(header) = resolve(cx, packet, *header, args) {
                    remove_header(cx.ir, packet, header);
                }
            }
            Prim::CopyHeader { to, from } => {
                if let (Some(to), Some(from)) = (
                    resolve(cx, packet, *to, args),
                    resolve(cx, packet, *from, args),
                ) {
                    copy_header(cx.ir, packet, to, from);
                }
            }
            Prim::CopyStack { to, from } => copy_stack(cx.ir, packet, *to, *from),
            Prim::CopyUnion { to, from } => copy_union(cx.ir, packet, *to, *from),
            Prim::CopyUnionStack { to, from } => copy_union_stack(cx.ir, packet, *to, *from),
            Prim::ShiftUnions { stack, count, push } => {
                let count = view(cx, packet, args).eval(*count);
                shift_unions(cx.ir, packet, *stack, count, *push);
            }
            Prim::CopyVarbit { to, from } => copy_varbit(cx.ir, packet, *to, *from),
            Prim::Push { stack, count } => {
                let count = view(cx, packet, args).eval(*count);
                shift_stack(cx.ir, packet, *stack, count, true);
            }
            Prim::Pop { stack, count } => {
                let count = view(cx, packet, args).eval(*count);
                shift_stack(cx.ir, packet, *stack, count, false);
            }
            Prim::MarkToDrop => {
                store_opt(
                    &mut packet.phv,
                    cx.ir.intrinsics.egress_spec,
                    u64::from(cx.drop_port),
                );
                store_opt(&mut packet.phv, cx.ir.intrinsics.mcast_grp, 0);
            }
            Prim::Digest(list) => packet.request().digest = Some(*list),
            Prim::Clone {
                session,
                field_list,
            } => {
                // 15 bits of session id, as simple_switch keeps them.
                let session = view(cx, packet, args).eval(*session) & 0x7fff;
                packet.request().clone = Some((u32::try_from(session).unwrap_or(0), *field_list));
            }
            Prim::Resubmit(list) => packet.request().resubmit = Some(*list),
            Prim::Recirculate(list) => packet.request().recirculate = Some(*list),
            Prim::Hash {
                target,
                base,
                calculation,
                size,
            } => {
                let value = calc::compute(cx.ir, cx.externs, packet, *calculation);
                let view = view(cx, packet, args);
                let (base, size) = (view.eval(*base), view.eval(*size));
                let value = base.wrapping_add(value % size.max(1));
                assign(cx, packet, *target, Expr::Const(value), args);
            }
            Prim::Random { target, low, high } => {
                let view = view(cx, packet, args);
                let (low, high) = (view.eval(*low), view.eval(*high));
                if low <= high {
                    let value = cx.externs.random.between(low, high);
                    assign(cx, packet, *target, Expr::Const(value), args);
                }
            }
            Prim::Meter {
                meter,
                index,
                target,
            } => {
                let index = view(cx, packet, args).eval(*index);
                if let Some(colour) = execute_meter(cx, packet, *meter, index) {
                    assign(cx, packet, *target, Expr::Const(colour), args);
                }
            }
            Prim::Count { counter, index } => {
                let index = view(cx, packet, args).eval(*index);
                let array = cx.externs.counters.get_mut(usize::from(*counter));
                if let Some(cell) = array
                    .and_then(|array| usize::try_from(index).ok().and_then(|i| array.get_mut(i)))
                {
                    cell.count(u64::from(packet.ingress_length));
                } else {
                    cx.externs.stats.index_out_of_range += 1;
                }
            }
            Prim::RegisterRead {
                target,
                register,
                index,
            } => register_read(cx, packet, args, *target, *register, *index),
            Prim::RegisterWrite {
                register,
                index,
                value,
            } => {
                register_write(cx, packet, args, *register, *index, *value);
            }
            Prim::Truncate(bytes) => {
                let bytes = view(cx, packet, args).eval(*bytes);
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                let truncate = &mut packet.request().truncate;
                *truncate = Some(truncate.map_or(bytes, |before| before.min(bytes)));
            }
            Prim::Jump(to) => next = *to as usize,
            Prim::JumpIfZero { condition, to } => {
                if !view(cx, packet, args).is_true(*condition) {
                    next = *to as usize;
                }
            }
            Prim::Exit => packet.exit = true,
            Prim::Log(message) => log::log(cx, packet, LogKind::Message, *message, args),
            Prim::Assert {
                condition,
                kind,
                message,
            } => {
                if !view(cx, packet, args).is_true(*condition) {
                    log::fail(cx, packet, *kind, *message, args);
                    return;
                }
            }
        }
    }
}

/// Meters the packet with a cell of an indirect meter; None (and counted) if the index is out of range.
#[inline(always)]
pub(crate) fn execute_meter(
    cx: &mut Cx<'_>,
    packet: &Packet,
    meter: u16,
    index: u64,
) -> Option<u64> {
    let array = cx.externs.meters.get_mut(usize::from(meter));
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let colour = array.and_then(|array| {
        let units = if array.bytes {
            u64::from(packet.ingress_length)
        } else {
            1
        };
        let cell = array.cells.get_mut(index)?;
        Some(cell.execute(units, u64::from(packet.ingress_length), cx.now_ns) as u64)
    });
    if colour.is_none() {
        cx.externs.stats.index_out_of_range += 1;
    }
    colour
}

/// Evaluates `value` and writes it to any kind of target.
#[inline(always)]
pub(crate) fn assign(cx: &Cx<'_>, packet: &mut Packet, target: Target, value: Expr, args: &[u64]) {
    if let Target::Field(AnyField::Narrow(field)) = target {
        let value = view(cx, packet, args).eval_low(value);
        store(&mut packet.phv, field, value);
    } else {
        assign_any(cx, packet, target, value, args);
    }
}

#[inline(never)]
fn assign_any(cx: &Cx<'_>, packet: &mut Packet, target: Target, value: Expr, args: &[u64]) {
    let view = view(cx, packet, args);
    match target_field(cx, packet, target, args) {
        None => {}
        Some(AnyField::Narrow(field)) => {
            let value = view.eval_low(value);
            store(&mut packet.phv, field, value);
        }
        Some(AnyField::Wide(field)) => {
            if field.width <= 128 && !matches!(value, Expr::Wide33(_)) {
                let value = view.eval_wide::<3>(value);
                store_wide(&mut packet.phv, field, &value);
            } else {
                let value = view.eval_wide::<33>(value);
                store_wide(&mut packet.phv, field, &value);
            }
        }
    }
}

/// The field of a target at this moment; None for an index outside its stack.
fn target_field(cx: &Cx<'_>, packet: &Packet, target: Target, args: &[u64]) -> Option<AnyField> {
    match target {
        Target::Field(field) => Some(field),
        Target::Element {
            stack,
            field,
            index,
        } => {
            let index = view(cx, packet, args).eval(index);
            element(cx.ir, stack, index, field)
        }
        Target::Last { stack, field } => cx.ir.stacks.get(usize::from(stack)).and_then(|s| {
            let index = u64::from(byte(&packet.phv, s.next_at)).checked_sub(1)?;
            element(cx.ir, stack, index, field)
        }),
    }
}

fn element(ir: &Ir, stack: u16, index: u64, field: AnyField) -> Option<AnyField> {
    let stack = ir.stacks.get(usize::from(stack))?;
    let index = u32::try_from(index)
        .ok()
        .filter(|i| *i < u32::from(stack.size))?;
    Some(field.moved(index * stack.stride))
}

fn resolve(cx: &Cx<'_>, packet: &Packet, header: HeaderRef, args: &[u64]) -> Option<u16> {
    match header {
        HeaderRef::Fixed(header) => Some(header),
        HeaderRef::Element { stack, index } => {
            let index = view(cx, packet, args).eval(index);
            let stack = cx.ir.stacks.get(usize::from(stack))?;
            let index = u16::try_from(index).ok().filter(|i| *i < stack.size)?;
            Some(stack.header(index))
        }
    }
}

fn register_read(
    cx: &mut Cx<'_>,
    packet: &mut Packet,
    args: &[u64],
    target: Target,
    register: u16,
    index: Expr,
) {
    let index = view(cx, packet, args).eval(index);
    let Some(cell) = cx
        .externs
        .registers
        .get(usize::from(register))
        .and_then(|r| r.cell(index))
    else {
        cx.externs.stats.index_out_of_range += 1;
        return;
    };
    match cell {
        [word] => {
            let word = *word;
            assign(cx, packet, target, Expr::Const(word), args);
        }
        words => {
            let value = Wide::<33>::from_words(words, false);
            match target_field(cx, packet, target, args) {
                Some(AnyField::Wide(field)) => store_wide(&mut packet.phv, field, &value),
                Some(AnyField::Narrow(field)) => store(&mut packet.phv, field, value.low()),
                None => {}
            }
        }
    }
}

fn register_write(
    cx: &mut Cx<'_>,
    packet: &Packet,
    args: &[u64],
    register: u16,
    index: Expr,
    value: Expr,
) {
    let view = View {
        ir: cx.ir,
        phv: &packet.phv,
        args,
        packet,
    };
    let index = view.eval(index);
    let Some(array) = cx.externs.registers.get_mut(usize::from(register)) else {
        return;
    };
    let width = array.width;
    match array.cell_mut(index) {
        None => cx.externs.stats.index_out_of_range += 1,
        Some([word]) => *word = view.eval_low(value) & crate::packet::phv::low_mask(width),
        Some(words) => {
            let value = view.eval_wide::<33>(value);
            for (word, from) in words.iter_mut().zip(value.0) {
                *word = from;
            }
            if width % 64 != 0
                && let Some(last) = words.last_mut()
            {
                *last &= crate::packet::phv::low_mask(width % 64);
            }
        }
    }
}

/// Queues a digest with the packet's fields.
pub(crate) fn emit_digest(cx: &mut Cx<'_>, packet: &Packet, list: u16) {
    let Some(source) = cx.ir.digests.get(usize::from(list)) else {
        return;
    };
    let queued = cx.externs.digests.push(source.digest, cx.now_ns, |out| {
        for field in &source.fields {
            match field {
                DigestField::Field(field) => append_bytes(&packet.phv, *field, out),
                DigestField::Const { value, width } => {
                    let bytes = (*width as usize).div_ceil(8);
                    for i in (0..bytes).rev() {
                        let word = value.get(i / 8).copied().unwrap_or(0);
                        out.push(word.to_le_bytes()[i % 8]);
                    }
                }
            }
        }
    });
    if queued {
        cx.externs.stats.digests += 1;
    } else {
        cx.externs.stats.digests_lost += 1;
    }
}
