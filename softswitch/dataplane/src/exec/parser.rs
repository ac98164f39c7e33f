// SPDX-License-Identifier: Apache-2.0
//! The parser: from a packet's bytes to valid headers in the PHV.

use super::expr::View;
use super::headers::set_valid;
use super::value_set::{self, transition_key};
use super::{action, logged};
use crate::context::Cx;
use crate::ir::{
    FastState, Header, HeaderOrNext, Ir, MAX_PARSER_STATES, ParseState, ParserOp, Varbit,
};
use crate::packet::Packet;
use crate::packet::phv::{byte, get, set_byte, store_opt, store_u32};
use crate::value_set::masked_equal;
use weir_program::value::value_bytes;

/// Parses the packet; the error, which `parser_error` gets too.
pub(crate) fn run(cx: &mut Cx<'_>, packet: &mut Packet) -> u32 {
    let error = if cx.externs.path_log.is_some() {
        logged::run_states(cx, packet)
    } else {
        run_states(cx, packet)
    };
    let slot = cx.ir.intrinsics.parser_error;
    store_opt(&mut packet.phv, slot, u64::from(error));
    error
}

/// Writes to `checksum_error` whether a checksum is wrong.
pub(crate) fn verify_checksums(cx: &mut Cx<'_>, packet: &mut Packet) {
    let ir = cx.ir;
    let mut checksums = ir.verify.iter();
    let wrong = checksums.any(|checksum| !super::calc::verify(ir, cx.externs, packet, checksum));
    set_checksum_error(ir, packet, wrong);
}

pub(super) fn set_checksum_error(ir: &Ir, packet: &mut Packet, wrong: bool) {
    store_opt(
        &mut packet.phv,
        ir.intrinsics.checksum_error,
        u64::from(wrong),
    );
}

/// Runs states until `accept` or an error.
fn run_states(cx: &mut Cx<'_>, packet: &mut Packet) -> u32 {
    let ir = cx.ir;
    let mut next = ir.start;
    let mut visited = 0;
    while let Some(state) = next.and_then(|s| ir.states.get(usize::from(s))) {
        visited += 1;
        if visited > MAX_PARSER_STATES {
            return ir.errors.timeout;
        }
        let outcome = match &state.fast {
            Some(fast) => run_fast(ir, packet, fast, state.default),
            None => run_state(cx, packet, state),
        };
        match outcome {
            Ok(state) => next = state,
            Err(code) => return code,
        }
    }
    ir.errors.no_error
}

/// Runs one state that the machine code leaves to the interpreter; the next state, or the error.
pub(crate) fn run_one(
    cx: &mut Cx<'_>,
    packet: &mut Packet,
    state: usize,
) -> Result<Option<u16>, u32> {
    let ir = cx.ir;
    let Some(state) = ir.states.get(state) else {
        return Ok(None);
    };
    run_state(cx, packet, state)
}

pub(super) fn view<'a>(cx: &'a Cx<'_>, packet: &'a Packet) -> View<'a> {
    View {
        ir: cx.ir,
        phv: &packet.phv,
        args: &[],
        packet,
    }
}

#[inline(always)]
fn run_fast(
    ir: &Ir,
    packet: &mut Packet,
    state: &FastState,
    default: Option<Option<u16>>,
) -> Result<Option<u16>, u32> {
    for header in &state.extracts {
        if !packet.extract(header.offset as usize, header.bytes as usize) {
            return Err(ir.errors.packet_too_short);
        }
        set_byte(&mut packet.phv, header.valid, 1);
    }
    let mut key = 0;
    for (slot, width) in &state.key {
        key = key << (width & 63) | get(&packet.phv, *slot);
    }
    for (value, mask, next) in &state.cases {
        if (key ^ value) & mask == 0 {
            return Ok(*next);
        }
    }
    default.ok_or(ir.errors.no_match)
}

fn run_state(cx: &mut Cx<'_>, packet: &mut Packet, state: &ParseState) -> Result<Option<u16>, u32> {
    for op in &state.ops {
        run_op(cx, packet, op)?;
        if packet.exit {
            // A false `assert` or `assume`: the packet is dropped, whatever follows it.
            return Ok(None);
        }
    }
    look_ahead(cx, packet, state)?;
    select(cx, packet, state)
}

/// Requires that many bits beyond the cursor.
#[inline(always)]
fn has(cx: &Cx<'_>, packet: &Packet, bits: u32) -> Result<(), u32> {
    if packet.payload().len() * 8 < bits as usize {
        Err(cx.ir.errors.packet_too_short)
    } else {
        Ok(())
    }
}

/// Requires the bits beyond the cursor that a state's transition reads.
#[inline(always)]
pub(super) fn look_ahead(cx: &Cx<'_>, packet: &Packet, state: &ParseState) -> Result<(), u32> {
    if state.lookahead_bits > 0 {
        has(cx, packet, state.lookahead_bits)?;
    }
    Ok(())
}

/// The transition key's bytes, each part padded to whole bytes.
pub(super) fn key_bytes(cx: &Cx<'_>, packet: &Packet, state: &ParseState) -> Vec<u8> {
    let key = transition_key(&view(cx, packet), state);
    value_bytes(&key.0, state.key_bits)
}

/// Runs one step of a state.
#[inline(always)]
pub(super) fn run_op(cx: &mut Cx<'_>, packet: &mut Packet, op: &ParserOp) -> Result<(), u32> {
    let errors = cx.ir.errors;
    match op {
        ParserOp::Extract(header) => extract(cx, packet, *header, None)?,
        ParserOp::ExtractNext(stack) => extract_next(cx, packet, *stack, None)?,
        ParserOp::ExtractVarbit {
            header,
            length_bits,
        } => {
            let bits = view(cx, packet).eval(*length_bits);
            match header {
                HeaderOrNext::Header(header) => extract(cx, packet, *header, Some(bits))?,
                HeaderOrNext::Next(stack) => extract_next(cx, packet, *stack, Some(bits))?,
            }
        }
        ParserOp::Set {
            target,
            value,
            lookahead_bits,
        } => {
            has(cx, packet, *lookahead_bits)?;
            action::assign(cx, packet, *target, *value, &[]);
        }
        ParserOp::Verify {
            condition,
            error,
            lookahead_bits,
        } => {
            has(cx, packet, *lookahead_bits)?;
            let view = view(cx, packet);
            if !view.is_true(*condition) {
                return Err(u32::try_from(view.eval(*error)).unwrap_or(u32::MAX));
            }
        }
        ParserOp::Advance {
            bits,
            lookahead_bits,
        } => {
            has(cx, packet, *lookahead_bits)?;
            let bits = view(cx, packet).eval(*bits);
            if !bits.is_multiple_of(8) {
                return Err(errors.invalid_argument);
            }
            if !packet.advance(usize::try_from(bits / 8).unwrap_or(usize::MAX)) {
                return Err(errors.packet_too_short);
            }
        }
        ParserOp::Prim(prim) => action::run(cx, packet, std::slice::from_ref(prim), &[]),
    }
    Ok(())
}

pub(super) fn select(cx: &Cx<'_>, packet: &Packet, state: &ParseState) -> Result<Option<u16>, u32> {
    if !state.set_cases.is_empty() {
        return value_set::select(cx, &view(cx, packet), state);
    }
    if !state.cases.is_empty() {
        let view = view(cx, packet);
        if state.key_bits <= 64 {
            let mut key = 0_u64;
            for part in &state.key {
                let padded = part.width.div_ceil(8) * 8;
                let value = view.eval_low(part.value);
                key = if padded >= 64 {
                    value
                } else {
                    (key << padded) | (value & !(u64::MAX << padded))
                };
            }
            for case in &state.cases {
                if (key ^ case.value[0]) & case.mask[0] == 0 {
                    return Ok(case.next);
                }
            }
        } else {
            let key = transition_key(&view, state);
            for case in &state.cases {
                if masked_equal(&key, &case.value, &case.mask) {
                    return Ok(case.next);
                }
            }
        }
    }
    state.default.ok_or(cx.ir.errors.no_match)
}

fn extract_next(
    cx: &Cx<'_>,
    packet: &mut Packet,
    stack: u16,
    varbit_bits: Option<u64>,
) -> Result<(), u32> {
    let errors = cx.ir.errors;
    let stack = cx
        .ir
        .stacks
        .get(usize::from(stack))
        .ok_or(errors.stack_out_of_bounds)?;
    let next = byte(&packet.phv, stack.next_at);
    if u16::from(next) >= stack.size {
        return Err(errors.stack_out_of_bounds);
    }
    extract(cx, packet, stack.header(u16::from(next)), varbit_bits)?;
    set_byte(&mut packet.phv, stack.next_at, next + 1);
    Ok(())
}

fn extract(
    cx: &Cx<'_>,
    packet: &mut Packet,
    header: u16,
    varbit_bits: Option<u64>,
) -> Result<(), u32> {
    let errors = cx.ir.errors;
    let Some(info) = cx.ir.headers.get(usize::from(header)) else {
        return Ok(());
    };
    let varbit_bytes = match (info.varbit, varbit_bits) {
        (Some(varbit), Some(bits)) => {
            if !bits.is_multiple_of(8) {
                return Err(errors.invalid_argument);
            }
            let wanted = u64::from(info.fixed_bytes).saturating_add(bits / 8);
            if wanted > packet.payload().len() as u64 {
                return Err(errors.packet_too_short);
            }
            let bytes = u32::try_from(bits / 8)
                .ok()
                .filter(|b| *b <= varbit.max_bytes);
            bytes.ok_or(errors.header_too_short)?
        }
        _ => 0,
    };
    let total = (info.fixed_bytes + varbit_bytes) as usize;
    let at = packet.cursor;
    if !packet.advance(total) {
        return Err(errors.packet_too_short);
    }
    let (data, phv) = packet.extracted(at, total);
    copy_in(info, data, phv, varbit_bytes);
    set_valid(cx.ir, &mut packet.phv, header);
    Ok(())
}

fn copy_in(info: &Header, data: &[u8], phv: &mut [u8], varbit_bytes: u32) {
    let offset = info.offset as usize;
    match info.varbit {
        None => copy(phv, offset, data),
        Some(Varbit {
            prefix_bytes,
            max_bytes,
            length_at,
        }) => {
            let (prefix, length) = (prefix_bytes as usize, varbit_bytes as usize);
            let (head, rest) = data.split_at(prefix.min(data.len()));
            let (body, tail) = rest.split_at(length.min(rest.len()));
            copy(phv, offset, head);
            copy(phv, offset + prefix, body);
            copy(phv, offset + prefix + max_bytes as usize, tail);
            store_u32(phv, length_at, varbit_bytes);
        }
    }
}

#[inline]
fn copy(phv: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = phv.get_mut(at..at + bytes.len()) {
        to.copy_from_slice(bytes);
    }
}
