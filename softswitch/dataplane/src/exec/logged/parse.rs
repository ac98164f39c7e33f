// SPDX-License-Identifier: Apache-2.0
//! The parser in the interpreter, with a line of the log for each step, and the checksums that are verified after it.

use super::{name, place, say};
use crate::context::Cx;
use crate::exec::{calc, log, parser};
use crate::info::{ParserStepText, ProgramInfo};
use crate::ir::{AnyField, HeaderOrNext, MAX_PARSER_STATES, ParseState, ParserOp, Target};
use crate::packet::Packet;
use crate::packet::phv::{byte, load_wide_at};
use crate::path_log::{LogLevel, hex};
use crate::wide::Wide;
use std::fmt::Write;

/// As the parser without a log.
pub(in crate::exec) fn run_states(cx: &mut Cx<'_>, packet: &mut Packet) -> u32 {
    say(cx, LogLevel::Debug, packet, |info, out| {
        let _ = write!(out, "Parser '{}': start", info.log_names.parser);
    });
    let error = states(cx, packet);
    if error != cx.ir.errors.no_error {
        say(cx, LogLevel::Error, packet, |info, out| {
            let mut errors = info.log_names.errors.iter();
            let found = errors.find(|(code, _)| *code == error);
            let _ = match found {
                Some((_, name)) => write!(out, "Exception while parsing: {name}"),
                None => write!(out, "Exception while parsing: error {error}"),
            };
        });
    }
    say(cx, LogLevel::Debug, packet, |info, out| {
        let _ = write!(out, "Parser '{}': end", info.log_names.parser);
    });
    error
}

/// Verifies the checksums as without a log.
#[cold]
#[inline(never)]
pub(crate) fn verify_checksums(cx: &mut Cx<'_>, packet: &mut Packet) {
    let ir = cx.ir;
    let mut wrong = false;
    for (index, checksum) in ir.verify.iter().enumerate() {
        let skipped = if !calc::has_target(packet, checksum) {
            Some("target field invalid")
        } else if !calc::condition_holds(ir, packet, checksum) {
            Some("condition not met")
        } else {
            None
        };
        if let Some(reason) = skipped {
            say(cx, LogLevel::Trace, packet, |info, out| {
                let name = name(&info.log_names.verified, index);
                let _ = write!(
                    out,
                    "Skipping checksum '{name}' verification because {reason}"
                );
            });
            continue;
        }
        let computed = calc::compute(ir, cx.externs, packet, checksum.calculation);
        let actual = calc::in_packet(packet, checksum);
        say(cx, LogLevel::Debug, packet, |info, out| {
            let name = name(&info.log_names.verified, index);
            let _ = write!(
                out,
                "Checksum '{name}': computed {computed:#x} - actual {actual:#x}"
            );
        });
        let right = calc::has_value(packet, checksum, computed);
        wrong |= !right;
        say(cx, LogLevel::Debug, packet, |info, out| {
            let name = name(&info.log_names.verified, index);
            let result = if right { "passed" } else { "failed" };
            let _ = write!(out, "Verified checksum '{name}': {result}");
        });
        if !right {
            say(cx, LogLevel::Error, packet, |info, out| {
                let name = name(&info.log_names.verified, index);
                let _ = write!(out, "Checksum '{name}' is not correct");
            });
        }
    }
    parser::set_checksum_error(ir, packet, wrong);
}

fn states(cx: &mut Cx<'_>, packet: &mut Packet) -> u32 {
    let ir = cx.ir;
    let mut next = ir.start;
    let mut visited = 0;
    while let Some((at, state)) = next.and_then(|s| Some((s, ir.states.get(usize::from(s))?))) {
        visited += 1;
        if visited > MAX_PARSER_STATES {
            return ir.errors.timeout;
        }
        say(cx, LogLevel::Debug, packet, |info, out| {
            let names = &info.log_names;
            let state = name(&names.states, usize::from(at));
            let _ = write!(out, "Parser '{}' entering state '{state}'", names.parser);
        });
        match one_state(cx, packet, state, at) {
            Ok(state) => next = state,
            Err(code) => return code,
        }
        say(cx, LogLevel::Trace, packet, |_, out| {
            let _ = write!(out, "Bytes parsed: {}", packet.parsed_bytes());
        });
    }
    ir.errors.no_error
}

fn one_state(
    cx: &mut Cx<'_>,
    packet: &mut Packet,
    state: &ParseState,
    at: u16,
) -> Result<Option<u16>, u32> {
    for (step, op) in state.ops.iter().enumerate() {
        before_step(cx, packet, op, (at, step));
        parser::run_op(cx, packet, op)?;
        after_step(cx, packet, op, (at, step));
        if packet.exit {
            return Ok(None);
        }
    }
    parser::look_ahead(cx, packet, state)?;
    let key = parser::key_bytes(cx, packet, state);
    say(cx, LogLevel::Debug, packet, |info, out| {
        let state = name(&info.log_names.states, usize::from(at));
        let _ = write!(out, "Parser state '{state}'");
        if key.is_empty() {
            out.push_str(" has no switch, going to default next state");
        } else {
            out.push_str(": key is ");
            hex(out, key.iter());
        }
    });
    parser::select(cx, packet, state)
}

fn step_text(info: &ProgramInfo, (state, step): (u16, usize)) -> &ParserStepText {
    let steps = info.log_names.parser_steps.get(usize::from(state));
    steps
        .and_then(|steps| steps.get(step))
        .unwrap_or(&ParserStepText::None)
}

/// Logs a step of the parser that runs next: an extracted header, an advance, a primitive.
fn before_step(cx: &mut Cx<'_>, packet: &Packet, op: &ParserOp, at: (u16, usize)) {
    if let Some(header) = extracted(cx, packet, op) {
        say(cx, LogLevel::Debug, packet, |info, out| {
            let header = name(&info.log_names.headers, usize::from(header));
            let _ = write!(out, "Extracting header '{header}'");
        });
    }
    match op {
        ParserOp::Advance {
            bits,
            lookahead_bits,
        } => {
            if packet.payload().len() * 8 < *lookahead_bits as usize {
                return;
            }
            let bits = parser::view(cx, packet).eval(*bits);
            if bits.is_multiple_of(8) {
                say(cx, LogLevel::Debug, packet, |_, out| {
                    let _ = write!(out, "Advancing by {} bytes", bits / 8);
                });
            } else {
                say(cx, LogLevel::Error, packet, |_, out| {
                    let _ = write!(out, "advance bits amount {bits} must be a multiple of 8");
                });
            }
        }
        ParserOp::Prim(_) => {
            say(cx, LogLevel::Debug, packet, |info, out| {
                if let ParserStepText::Call { name, .. } = step_text(info, at) {
                    let _ = write!(out, "Executing method {name}");
                }
            });
            say(cx, LogLevel::Trace, packet, |info, out| {
                if let ParserStepText::Call { text, .. } = step_text(info, at) {
                    out.push_str(text);
                }
            });
        }
        _ => {}
    }
}

/// Logs the value that a step of the parser gave a field.
fn after_step(cx: &mut Cx<'_>, packet: &Packet, op: &ParserOp, at: (u16, usize)) {
    let ParserOp::Set {
        target: Target::Field(field),
        ..
    } = op
    else {
        return;
    };
    say(cx, LogLevel::Debug, packet, |info, out| {
        if let ParserStepText::Set { before, after } = step_text(info, at) {
            out.push_str(before);
            log::write_number(out, field_value(&packet.phv, *field));
            out.push_str(after);
        }
    });
}

/// The header that a step of the parser extracts.
fn extracted(cx: &Cx<'_>, packet: &Packet, op: &ParserOp) -> Option<u16> {
    let next = |stack: u16| {
        let stack = cx.ir.stacks.get(usize::from(stack))?;
        let next = u16::from(byte(&packet.phv, stack.next_at));
        (next < stack.size).then(|| stack.header(next))
    };
    match op {
        ParserOp::Extract(header) => Some(*header),
        ParserOp::ExtractNext(stack) => next(*stack),
        ParserOp::ExtractVarbit { header, .. } => match header {
            HeaderOrNext::Header(header) => Some(*header),
            HeaderOrNext::Next(stack) => next(*stack),
        },
        _ => None,
    }
}

/// A field's number, with its sign if it has one.
fn field_value(phv: &[u8], field: AnyField) -> Wide<33> {
    let (bit, width) = place(field);
    let value = load_wide_at::<33>(phv, bit, width);
    let signed = match field {
        AnyField::Narrow(field) => field.signed,
        AnyField::Wide(field) => field.signed,
    };
    if signed {
        value.two_comp_mod(width)
    } else {
        value
    }
}
