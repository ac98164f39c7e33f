// SPDX-License-Identifier: Apache-2.0
//! Operations on whole stacks of headers and of header unions, which keep the packet's length up to date.

use super::headers::{copy_header, copy_union, remove_header};
use crate::ir::{Ir, Stack};
use crate::packet::Packet;
use crate::packet::phv::{byte, set_byte};

/// Assignment of a whole stack.
pub(super) fn copy_stack(ir: &Ir, packet: &mut Packet, to: u16, from: u16) {
    let (Some(to), Some(from)) = (
        ir.stacks.get(usize::from(to)),
        ir.stacks.get(usize::from(from)),
    ) else {
        return;
    };
    for i in 0..to.size.min(from.size) {
        copy_header(ir, packet, to.header(i), from.header(i));
    }
    let next = byte(&packet.phv, from.next_at);
    set_byte(&mut packet.phv, to.next_at, next);
}

/// Assignment of a whole stack of unions.
pub(super) fn copy_union_stack(ir: &Ir, packet: &mut Packet, to: u16, from: u16) {
    let (Some(to), Some(from)) = (
        ir.union_stacks.get(usize::from(to)),
        ir.union_stacks.get(usize::from(from)),
    ) else {
        return;
    };
    for (to, from) in to.unions.iter().zip(&from.unions) {
        copy_union(ir, packet, *to, *from);
    }
    let counter = |members: &[u16]| {
        let stack = members.first().and_then(|s| ir.stacks.get(usize::from(*s)));
        stack.map(|stack| stack.next_at)
    };
    if let (Some(to), Some(from)) = (counter(&to.members), counter(&from.members)) {
        let next = byte(&packet.phv, from);
        set_byte(&mut packet.phv, to, next);
    }
}

/// `push_front` and `pop_front`.
pub(super) fn shift_stack(ir: &Ir, packet: &mut Packet, stack: u16, count: u64, push: bool) {
    let Some(stack) = ir.stacks.get(usize::from(stack)) else {
        return;
    };
    let count = u16::try_from(count).unwrap_or(u16::MAX).min(stack.size);
    shift_elements(stack.size, count, push, |to, from| match from {
        Some(from) => copy_header(ir, packet, stack.header(to), stack.header(from)),
        None => remove_header(ir, packet, stack.header(to)),
    });
    shift_counter(packet, *stack, count, push);
}

/// `push_front` and `pop_front` of a stack of unions.
pub(super) fn shift_unions(ir: &Ir, packet: &mut Packet, stack: u16, count: u64, push: bool) {
    let Some(unions) = ir.union_stacks.get(usize::from(stack)) else {
        return;
    };
    let Some(stack) = unions
        .members
        .first()
        .and_then(|s| ir.stacks.get(usize::from(*s)))
    else {
        return;
    };
    let count = u16::try_from(count).unwrap_or(u16::MAX).min(stack.size);
    let union = |index: u16| unions.unions.get(usize::from(index)).copied();
    shift_elements(stack.size, count, push, |to, from| {
        let Some(to) = union(to) else { return };
        match from.and_then(union) {
            Some(from) => copy_union(ir, packet, to, from),
            None => {
                for header in ir.unions.get(usize::from(to)).into_iter().flatten() {
                    remove_header(ir, packet, *header);
                }
            }
        }
    });
    shift_counter(packet, *stack, count, push);
}

/// Calls `set(to, from)` for each element, in an order that reads every element before it is overwritten. Without
/// `from` the element becomes invalid.
fn shift_elements(size: u16, count: u16, push: bool, mut set: impl FnMut(u16, Option<u16>)) {
    for i in 0..size {
        let to = if push { size - 1 - i } else { i };
        let from = if push {
            to.checked_sub(count)
        } else {
            to.checked_add(count).filter(|from| *from < size)
        };
        set(to, from);
    }
}

fn shift_counter(packet: &mut Packet, stack: Stack, count: u16, push: bool) {
    let next = u16::from(byte(&packet.phv, stack.next_at));
    let next = if push {
        (next + count).min(stack.size)
    } else {
        next.saturating_sub(count)
    };
    let next = u8::try_from(next).unwrap_or(u8::MAX);
    set_byte(&mut packet.phv, stack.next_at, next);
}
