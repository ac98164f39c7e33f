// SPDX-License-Identifier: Apache-2.0
//! Operations on whole headers, which keep the packet's length up to date.

use crate::ir::{Header, Ir};
use crate::packet::Packet;
use crate::packet::phv::{byte, load_u32, set_byte, store_u32};

/// `setValid`: a header that was not valid is all zero.
pub(super) fn add_header(ir: &Ir, packet: &mut Packet, header: u16) {
    let Some(info) = ir.headers.get(usize::from(header)) else {
        return;
    };
    if info.metadata || byte(&packet.phv, info.valid) != 0 {
        return;
    }
    // A new header is zero, so that no bytes of an earlier packet or header leak out.
    let bytes = (info.fixed_bytes + info.varbit.map_or(0, |v| v.max_bytes)) as usize;
    let offset = info.offset as usize;
    if let Some(bytes) = packet.phv.get_mut(offset..offset + bytes) {
        bytes.fill(0);
    }
    if let Some(varbit) = info.varbit {
        store_u32(&mut packet.phv, varbit.length_at, 0);
    }
    for sibling in siblings(ir, info) {
        remove_header(ir, packet, *sibling);
    }
    set_valid(ir, &mut packet.phv, header);
    packet.length += info.fixed_bytes;
}

/// The members of the header's union, itself included.
fn siblings<'a>(ir: &'a Ir, info: &Header) -> &'a [u16] {
    info.union
        .and_then(|union| ir.unions.get(usize::from(union)))
        .map_or(&[], Vec::as_slice)
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
    for sibling in siblings(ir, to_info) {
        remove_header(ir, packet, *sibling);
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
    let counts = !to.metadata && byte(&packet.phv, to.valid) != 0;
    let before = wire_bytes(to, &packet.phv);
    let start = (from.offset + from_bits.prefix_bytes) as usize;
    let length = load_u32(&packet.phv, from_bits.length_at)
        .min(to_bits.max_bytes)
        .min(from_bits.max_bytes);
    packet.phv.copy_within(
        start..start + length as usize,
        (to.offset + to_bits.prefix_bytes) as usize,
    );
    store_u32(&mut packet.phv, to_bits.length_at, length);
    if counts {
        let after = wire_bytes(to, &packet.phv);
        packet.length = packet.length.saturating_sub(before).saturating_add(after);
    }
}

/// Whether two varbit fields have the same length and bits.
pub(super) fn varbit_equal(ir: &Ir, phv: &[u8], left: u16, right: u16) -> bool {
    let bits = |header: u16| {
        let info = ir.headers.get(usize::from(header))?;
        let varbit = info.varbit?;
        let start = (info.offset + varbit.prefix_bytes) as usize;
        let length = load_u32(phv, varbit.length_at).min(varbit.max_bytes) as usize;
        phv.get(start..start + length)
    };
    bits(left) == bits(right)
}

/// Assignment of a header union: at most one of its members is valid.
pub(super) fn copy_union(ir: &Ir, packet: &mut Packet, to: u16, from: u16) {
    let (Some(to), Some(from)) = (
        ir.unions.get(usize::from(to)),
        ir.unions.get(usize::from(from)),
    ) else {
        return;
    };
    for (to, from) in to.iter().zip(from) {
        copy_header(ir, packet, *to, *from);
    }
}

/// Marks a header valid; the other members of its union become invalid.
#[inline]
pub(super) fn set_valid(ir: &Ir, phv: &mut [u8], header: u16) {
    let Some(info) = ir.headers.get(usize::from(header)) else {
        return;
    };
    if let Some(members) = info.union.and_then(|u| ir.unions.get(usize::from(u))) {
        for member in members {
            if let Some(member) = ir.headers.get(usize::from(*member)) {
                set_byte(phv, member.valid, 0);
            }
        }
    }
    set_byte(phv, info.valid, 1);
}

/// Bytes of a valid header on the wire.
fn wire_bytes(info: &Header, phv: &[u8]) -> u32 {
    info.fixed_bytes
        + info
            .varbit
            .map_or(0, |v| load_u32(phv, v.length_at).min(v.max_bytes))
}
