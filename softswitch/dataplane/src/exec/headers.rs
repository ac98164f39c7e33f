// SPDX-License-Identifier: Apache-2.0
//! What actions do to whole headers and stacks; the packet's length follows.

use super::packet::Packet;
use super::parser::{set_valid, wire_bytes};
use super::phv::{byte, load_u32, set_byte, store_u32};
use crate::ir::{Ir, PHV_PADDING};

/// `setValid`: a header that was not valid is all zero.
pub(super) fn add_header(ir: &Ir, packet: &mut Packet, header: u16) {
    let Some(info) = ir.headers.get(usize::from(header)) else {
        return;
    };
    if info.metadata || byte(&packet.phv, info.valid) != 0 {
        return;
    }
    // Fresh headers are zero, so that nothing of an earlier packet or header leaks out.
    let bytes = (info.fixed_bytes + info.varbit.map_or(0, |v| v.max_bytes)) as usize;
    let offset = info.offset as usize;
    if let Some(bytes) = packet.phv.get_mut(offset..offset + bytes) {
        bytes.fill(0);
    }
    if let Some(varbit) = info.varbit {
        store_u32(&mut packet.phv, varbit.length_at, 0);
    }
    if let Some(members) = info.union.and_then(|u| ir.unions.get(usize::from(u))) {
        for member in members {
            remove_header(ir, packet, *member);
        }
    }
    set_valid(ir, &mut packet.phv, header);
    packet.length += info.fixed_bytes;
}

/// `setInvalid`.
pub(super) fn remove_header(ir: &Ir, packet: &mut Packet, header: u16) {
    let Some(info) = ir.headers.get(usize::from(header)) else {
        return;
    };
    if !info.metadata && byte(&packet.phv, info.valid) != 0 {
        packet.length = packet.length.saturating_sub(wire_bytes(info, &packet.phv));
        set_byte(&mut packet.phv, info.valid, 0);
    }
}

/// Header assignment, validity included.
pub(super) fn copy_header(ir: &Ir, packet: &mut Packet, to: u16, from: u16) {
    let (Some(to_info), Some(from_info)) = (
        ir.headers.get(usize::from(to)),
        ir.headers.get(usize::from(from)),
    ) else {
        return;
    };
    if to == from {
        return;
    }
    if to_info.metadata || from_info.metadata {
        let bytes = to_info.fixed_bytes.min(from_info.fixed_bytes);
        let (start, end) = (
            from_info.offset as usize,
            (from_info.offset + bytes) as usize,
        );
        packet.phv.copy_within(start..end, to_info.offset as usize);
        return;
    }
    if byte(&packet.phv, from_info.valid) == 0 {
        remove_header(ir, packet, to);
        return;
    }
    remove_header(ir, packet, to);
    let whole =
        |info: &crate::ir::Header| info.fixed_bytes + info.varbit.map_or(0, |v| v.max_bytes);
    let bytes = whole(from_info).min(whole(to_info));
    let (start, end) = (
        from_info.offset as usize,
        (from_info.offset + bytes) as usize,
    );
    packet.phv.copy_within(start..end, to_info.offset as usize);
    if let (Some(to), Some(from)) = (to_info.varbit, from_info.varbit) {
        let length = load_u32(&packet.phv, from.length_at);
        store_u32(&mut packet.phv, to.length_at, length);
    }
    set_valid(ir, &mut packet.phv, to);
    packet.length = packet
        .length
        .saturating_add(wire_bytes(to_info, &packet.phv));
}

/// Assignment of a varbit field.
pub(super) fn copy_varbit(ir: &Ir, packet: &mut Packet, to: u16, from: u16) {
    let (Some(to), Some(from)) = (
        ir.headers.get(usize::from(to)),
        ir.headers.get(usize::from(from)),
    ) else {
        return;
    };
    let (Some(to_bits), Some(from_bits)) = (to.varbit, from.varbit) else {
        return;
    };
    let start = (from.offset + from_bits.prefix_bytes) as usize;
    let length = load_u32(&packet.phv, from_bits.length_at)
        .min(to_bits.max_bytes)
        .min(from_bits.max_bytes);
    packet.phv.copy_within(
        start..start + length as usize,
        (to.offset + to_bits.prefix_bytes) as usize,
    );
    store_u32(&mut packet.phv, to_bits.length_at, length);
}

/// Assignment of a whole stack.
pub(super) fn copy_stack(ir: &Ir, packet: &mut Packet, to: u16, from: u16) {
    let (Some(to), Some(from)) = (
        ir.stacks.get(usize::from(to)),
        ir.stacks.get(usize::from(from)),
    ) else {
        return;
    };
    for i in 0..to.size.min(from.size) {
        copy_header(ir, packet, to.first_header + i, from.first_header + i);
    }
    let next = byte(&packet.phv, from.next_at);
    set_byte(&mut packet.phv, to.next_at, next);
}

/// `push_front` and `pop_front`.
pub(super) fn shift_stack(ir: &Ir, packet: &mut Packet, stack: u16, count: u64, push: bool) {
    let Some(stack) = ir.stacks.get(usize::from(stack)) else {
        return;
    };
    let count = u16::try_from(count).unwrap_or(u16::MAX).min(stack.size);
    let kept = stack.size - count;
    let before: u32 = stack_bytes(ir, packet, *stack);
    let header = |i: u16| ir.headers.get(usize::from(stack.first_header + i));
    let (Some(first), Some(shifted)) = (header(0), header(count.min(stack.size - 1))) else {
        return;
    };
    let (low, high) = (first.offset as usize, shifted.offset as usize);
    let (low_valid, high_valid) = (first.valid as usize, shifted.valid as usize);
    let bytes = usize::from(kept) * stack.stride as usize;
    let next = u16::from(byte(&packet.phv, stack.next_at));
    if kept > 0 && packet.phv.len() >= high + bytes + PHV_PADDING {
        if push {
            packet.phv.copy_within(low..low + bytes, high);
            packet
                .phv
                .copy_within(low_valid..low_valid + usize::from(kept), high_valid);
        } else {
            packet.phv.copy_within(high..high + bytes, low);
            packet
                .phv
                .copy_within(high_valid..high_valid + usize::from(kept), low_valid);
        }
    }
    let cleared = if push { 0..count } else { kept..stack.size };
    for i in cleared {
        if let Some(info) = header(i) {
            set_byte(&mut packet.phv, info.valid, 0);
        }
    }
    let next = if push {
        (next + count).min(stack.size)
    } else {
        next.saturating_sub(count)
    };
    set_byte(
        &mut packet.phv,
        stack.next_at,
        u8::try_from(next).unwrap_or(u8::MAX),
    );
    packet.length =
        (packet.length.saturating_sub(before)).saturating_add(stack_bytes(ir, packet, *stack));
}

fn stack_bytes(ir: &Ir, packet: &Packet, stack: crate::ir::Stack) -> u32 {
    (0..stack.size)
        .filter_map(|i| ir.headers.get(usize::from(stack.first_header + i)))
        .filter(|info| byte(&packet.phv, info.valid) != 0)
        .map(|info| info.fixed_bytes)
        .sum()
}
