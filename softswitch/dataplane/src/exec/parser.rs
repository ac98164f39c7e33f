// SPDX-License-Identifier: Apache-2.0
//! The parser: from a packet's bytes to valid headers in the PHV.

use super::action;
use super::expr::View;
use super::packet::Packet;
use super::phv::{byte, get, load_u32, set_byte, store_opt, store_u32};
use super::pipeline::Cx;
use super::wide::Wide;
use crate::ir::{FastState, Header, HeaderOrNext, Ir, ParseState, ParserOp, SELECT_WORDS, Varbit};

/// A parser may loop over a header stack, but one that takes nothing must end.
pub(crate) const MAX_STATES: u32 = 1024;

/// Parses the packet into its (cleared) PHV and verifies checksums; errors are left in `parser_error` and
/// `checksum_error`. Returns false when parsing ended with an error.
pub(crate) fn parse(cx: &mut Cx<'_>, packet: &mut Packet) -> bool {
    let ir = cx.ir;
    packet.rewind();
    let error = match cx.native.and_then(|native| native.parse(cx, packet)) {
        Some(error) => error,
        None => {
            let error = walk(cx, packet);
            let slot = ir.intrinsics.parser_error;
            store_opt(&mut packet.phv, slot, u64::from(error));
            error
        }
    };
    verify_checksums(cx, packet);
    error == ir.errors.no_error
}

/// Leaves in `checksum_error` whether a checksum is wrong.
pub(crate) fn verify_checksums(cx: &mut Cx<'_>, packet: &mut Packet) {
    let ir = cx.ir;
    let wrong = ir
        .verify
        .iter()
        .any(|checksum| !super::calc::verify(ir, cx.externs, packet, checksum));
    store_opt(
        &mut packet.phv,
        ir.intrinsics.checksum_error,
        u64::from(wrong),
    );
}

/// Goes from state to state; the error.
fn walk(cx: &mut Cx<'_>, packet: &mut Packet) -> u32 {
    let ir = cx.ir;
    let mut next = ir.start;
    let mut visited = 0;
    while let Some(state) = next.and_then(|s| ir.states.get(usize::from(s))) {
        visited += 1;
        if visited > MAX_STATES {
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

/// One state for code that leaves it to the interpreter: the next, or the error.
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

fn view<'a>(cx: &'a Cx<'_>, packet: &'a Packet) -> View<'a> {
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
    for (slot, padded) in &state.key {
        key = key << (padded & 63) | get(&packet.phv, *slot);
    }
    for (value, mask, next) in &state.cases {
        if (key ^ value) & mask == 0 {
            return Ok(*next);
        }
    }
    default.ok_or(ir.errors.no_match)
}

fn run_state(cx: &mut Cx<'_>, packet: &mut Packet, state: &ParseState) -> Result<Option<u16>, u32> {
    let errors = cx.ir.errors;
    let has = |packet: &Packet, bits: u32| {
        if packet.payload().len() * 8 < bits as usize {
            Err(errors.packet_too_short)
        } else {
            Ok(())
        }
    };
    for op in &state.ops {
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
                has(packet, *lookahead_bits)?;
                action::assign(cx, packet, *target, *value, &[]);
            }
            ParserOp::Verify {
                condition,
                error,
                lookahead_bits,
            } => {
                has(packet, *lookahead_bits)?;
                let view = view(cx, packet);
                if !view.is_true(*condition) {
                    return Err(u32::try_from(view.eval(*error)).unwrap_or(u32::MAX));
                }
            }
            ParserOp::Advance {
                bits,
                lookahead_bits,
            } => {
                has(packet, *lookahead_bits)?;
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
    }
    if state.lookahead_bits > 0 {
        has(packet, state.lookahead_bits)?;
    }
    select(cx, packet, state)
}

fn select(cx: &Cx<'_>, packet: &Packet, state: &ParseState) -> Result<Option<u16>, u32> {
    if !state.set_cases.is_empty() {
        return super::value_set::select(cx, &view(cx, packet), state);
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
            let key = wide_key(&view, state);
            for case in &state.cases {
                if masked_equal(&key, &case.value, &case.mask) {
                    return Ok(case.next);
                }
            }
        }
    }
    state.default.ok_or(cx.ir.errors.no_match)
}

/// The transition key of any width: each part padded to whole bytes.
pub(super) fn wide_key(view: &View<'_>, state: &ParseState) -> Wide<SELECT_WORDS> {
    state.key.iter().fold(Wide::ZERO, |key, part| {
        let padded = part.width.div_ceil(8) * 8;
        let value = view.eval_wide::<SELECT_WORDS>(part.value);
        key.shl(u64::from(padded)).zip(&value, |a, b| a | b)
    })
}

/// Whether key and value agree where the mask has ones.
pub(crate) fn masked_equal(
    key: &Wide<SELECT_WORDS>,
    value: &[u64; SELECT_WORDS],
    mask: &[u64; SELECT_WORDS],
) -> bool {
    let words = key.0.iter().zip(value).zip(mask);
    words.fold(0, |differ, ((k, v), m)| differ | ((k ^ v) & m)) == 0
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

/// Marks a header valid; the other members of its union become invalid.
#[inline]
pub(crate) fn set_valid(ir: &crate::ir::Ir, phv: &mut [u8], header: u16) {
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
pub(crate) fn wire_bytes(info: &Header, phv: &[u8]) -> u32 {
    info.fixed_bytes
        + info
            .varbit
            .map_or(0, |v| load_u32(phv, v.length_at).min(v.max_bytes))
}
