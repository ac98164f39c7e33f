// SPDX-License-Identifier: Apache-2.0
//! The stages in the interpreter, with a line of the log for each step.

mod parse;

pub(super) use parse::run_states;
pub(crate) use parse::verify_checksums;

use super::{calc, pipeline};
use crate::KeyMatch;
use crate::context::Cx;
use crate::info::{ActionInfo, KeyFieldInfo, MatchKind, ProgramInfo, TableInfo};
use crate::ir::{AnyField, Gress, Origin, Table};
use crate::packet::Packet;
use crate::packet::phv::{byte, load_wide_at};
use crate::path_log::{LogLevel, hex};
use crate::tables::profile::{Call, Pointer};
use crate::tables::{TableState, is_valid, key};
use std::fmt::Write;
use weir_program::value::value_bytes;

/// Columns of a field's name, as in bmv2.
const NAME_WIDTH: usize = 20;

fn say(
    cx: &mut Cx<'_>,
    level: LogLevel,
    packet: &Packet,
    write: impl FnOnce(&ProgramInfo, &mut String),
) {
    if let Some(log) = &mut cx.externs.path_log {
        log.packet(level, packet, write);
    }
}

fn name(names: &[String], index: usize) -> &str {
    names.get(index).map_or("", String::as_str)
}

/// As a pipeline without a log.
pub(super) fn run(cx: &mut Cx<'_>, tables: &mut [TableState], packet: &mut Packet, gress: Gress) {
    let which = usize::from(gress == Gress::Egress);
    let ends = |cx: &mut Cx<'_>, packet: &Packet, word: &str| {
        say(cx, LogLevel::Debug, packet, |info, out| {
            let pipeline = info
                .log_names
                .pipelines
                .get(which)
                .map_or("", String::as_str);
            let _ = write!(out, "Pipeline '{pipeline}': {word}");
        });
    };
    ends(cx, packet, "start");
    let mut at = cx.ir.flat.start(gress);
    while !packet.exit
        && let Some(index) = pipeline::run_steps::<true>(cx, packet, at, &[])
    {
        let index = usize::from(index);
        let Some(table) = tables.get_mut(index) else {
            break;
        };
        lookup(cx, table, packet, index);
        let before = cx.externs.stats.index_out_of_range;
        let next = pipeline::apply::<true>(cx, table, packet, index);
        if cx.externs.stats.index_out_of_range != before {
            say(cx, LogLevel::Error, packet, |info, out| {
                let table = table_name(info, index);
                let _ = write!(
                    out,
                    "Table '{table}': its action used a counter, meter or register at an out-of-bounds index; \
                     nothing was changed"
                );
            });
        }
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    if packet.exit {
        say(cx, LogLevel::Debug, packet, |_, out| {
            out.push_str("Packet is marked for exit, interrupting pipeline");
        });
    }
    ends(cx, packet, "end");
}

/// Logs what the next step begins: a condition with its value, a primitive, a table that is a call.
#[cold]
#[inline(never)]
pub(super) fn origins(cx: &mut Cx<'_>, packet: &Packet, step: usize, args: &[u64]) {
    let ir = cx.ir;
    let at = u32::try_from(step).unwrap_or(u32::MAX);
    for origin in ir.flat.origins(at) {
        match origin {
            Origin::Condition(index) => {
                let next = ir.flat.steps.get(step);
                let condition = ir.conditions.get(usize::from(index));
                if let (Some(condition), Some(step)) = (condition, next) {
                    let value = pipeline::condition(ir, packet, step, args);
                    // `a && b` is two conditions here, and one in the log.
                    if condition.last || !value {
                        say(cx, LogLevel::Trace, packet, |info, out| {
                            let texts = &info.log_names.conditions;
                            let text = name(texts, usize::from(condition.named));
                            let _ = write!(out, "{text} is {value}");
                        });
                    }
                }
            }
            Origin::Primitive { action, number } => {
                say(cx, LogLevel::Trace, packet, |info, out| {
                    let texts = info.log_names.primitives.get(usize::from(action));
                    out.push_str(texts.map_or("", |texts| name(texts, usize::from(number))));
                });
            }
            Origin::Table { table, action } => keyless(cx, packet, table, action),
        }
    }
}

/// Logs a table without a key, whose only action runs next.
fn keyless(cx: &mut Cx<'_>, packet: &Packet, table: u16, action: u16) {
    let table = usize::from(table);
    let action = |info: &ProgramInfo| {
        let action = info.actions.get(usize::from(action));
        action.map_or(String::new(), |action| action.name.clone())
    };
    say(cx, LogLevel::Trace, packet, |info, out| {
        let _ = write!(out, "Applying table '{}'", table_name(info, table));
    });
    say(cx, LogLevel::Debug, packet, |_, out| {
        out.push_str("Looking up key:\n");
    });
    say(cx, LogLevel::Debug, packet, |info, out| {
        let _ = write!(out, "Table '{}': miss", table_name(info, table));
    });
    say(cx, LogLevel::Debug, packet, |info, out| {
        let _ = write!(out, "Action entry is {} - ", action(info));
    });
    say(cx, LogLevel::Trace, packet, |info, out| {
        let _ = write!(out, "Action {}", action(info));
    });
}

/// Logs what a table finds for a packet, which it is applied to next.
fn lookup(cx: &mut Cx<'_>, table: &mut TableState, packet: &Packet, index: usize) {
    let ir = cx.ir;
    let Some(spec) = ir.tables.get(index) else {
        return;
    };
    say(cx, LogLevel::Trace, packet, |info, out| {
        let _ = write!(out, "Applying table '{}'", table_name(info, index));
    });
    say(cx, LogLevel::Debug, packet, |info, out| {
        out.push_str("Looking up key:\n");
        let fields = info.tables.get(index).map_or(&[][..], |table| &table.key);
        for (field, part) in fields.iter().zip(&spec.key) {
            field_name(out, field, fields);
            let mut bytes = field_bytes(&packet.phv, part.field);
            if !is_valid(part, &packet.phv) {
                bytes.fill(0);
            }
            hex(out, bytes.iter());
            out.push('\n');
        }
    });
    let found = table.lookup(spec, &packet.phv);
    say(cx, LogLevel::Debug, packet, |info, out| {
        let table = table_name(info, index);
        let _ = match found {
            Some(slot) => write!(out, "Table '{table}': hit with handle {slot}"),
            None => write!(out, "Table '{table}': miss"),
        };
    });
    if let Some(slot) = found {
        say(cx, LogLevel::Debug, packet, |info, out| {
            if let Some(info) = info.tables.get(index) {
                dump(out, info, (spec, table), slot);
            }
        });
    }
    match (spec.profile, found.and_then(|slot| table.entry(slot))) {
        (Some(used), Some(entry)) => {
            let pointer =
                Pointer::from_word(entry.action.args().first().copied().unwrap_or(u64::MAX));
            let profile = cx.profiles.get(usize::from(used.profile));
            let calculation = ir.profiles.get(usize::from(used.profile));
            let calculation = calculation.and_then(|profile| profile.calculation);
            let mut random = false;
            let (first, member) = profile.map_or((None, None), |profile| {
                profile.resolve(pointer, |by_chance| {
                    random = by_chance;
                    calculation.map_or(0, |c| calc::compute(ir, cx.externs, packet, c))
                })
            });
            let member = member.filter(|_| !random);
            for Call { actions, args } in first.into_iter().chain(member) {
                if let Some(local) = actions.get(usize::from(used.user)) {
                    action(cx, packet, (spec, *local), args);
                }
            }
        }
        _ => match table.action_of(found) {
            Some(bound) => action(cx, packet, (spec, bound.local()), bound.args()),
            None => say(cx, LogLevel::Debug, packet, |_, out| {
                out.push_str("Action entry is NULL");
            }),
        },
    }
}

/// Logs an action that runs next.
fn action(cx: &mut Cx<'_>, packet: &Packet, (spec, local): (&Table, u16), args: &[u64]) {
    let ir = cx.ir;
    let Some(global) = spec.actions.get(usize::from(local)).copied() else {
        return;
    };
    let params = ir.actions.get(usize::from(global));
    let params = params.map_or(&[][..], |action| action.params.as_slice());
    let name = |info: &ProgramInfo| {
        let action = info.actions.get(usize::from(global));
        action.map_or(String::new(), |action: &ActionInfo| action.name.clone())
    };
    say(cx, LogLevel::Debug, packet, |info, out| {
        let _ = write!(out, "Action entry is {} - ", name(info));
        for (word, width) in params {
            let words = args.get(usize::from(*word)..).unwrap_or_default();
            number(out, &value_bytes(words, *width));
            out.push(',');
        }
    });
    say(cx, LogLevel::Trace, packet, |info, out| {
        let _ = write!(out, "Action {}", name(info));
    });
}

/// A number in hexadecimal without leading zeros, as bmv2 prints arguments.
fn number(out: &mut String, bytes: &[u8]) {
    let mut digits = String::new();
    hex(&mut digits, bytes.iter());
    let short = digits.trim_start_matches('0');
    out.push_str(if short.is_empty() { "0" } else { short });
}

fn table_name(info: &ProgramInfo, index: usize) -> &str {
    info.tables
        .get(index)
        .map_or("", |table| table.name.as_str())
}

fn field_name(out: &mut String, field: &KeyFieldInfo, all: &[KeyFieldInfo]) {
    let longest = all.iter().map(|field| field.name.len()).max().unwrap_or(0);
    let width = longest.max(NAME_WIDTH);
    let _ = write!(out, "* {:width$}: ", field.name);
}

/// A field's first bit in the PHV, and its width.
fn place(field: AnyField) -> (u32, u32) {
    match field {
        AnyField::Narrow(field) => {
            let window = u32::from(field.shift) + u32::from(field.width);
            (field.offset * 8 + 64 - window, u32::from(field.width))
        }
        AnyField::Wide(field) => (field.bit_offset, field.width),
    }
}

fn field_bytes(phv: &[u8], field: AnyField) -> Vec<u8> {
    let (bit, width) = place(field);
    value_bytes(&load_wide_at::<33>(phv, bit, width).0, width)
}

/// Writes an entry as bmv2 does.
fn dump(out: &mut String, info: &TableInfo, (spec, table): (&Table, &TableState), slot: u32) {
    let _ = writeln!(out, "Dumping entry {slot}\nMatch key:");
    let values = key::decode(info, spec, &table.key(slot));
    for (field, value) in info.key.iter().zip(&values) {
        field_name(out, field, &info.key);
        let bytes = (field.width_bits as usize).div_ceil(8);
        match (field.kind, value) {
            (_, KeyMatch::Exact(value)) => {
                out.push_str("EXACT     ");
                hex(out, value.iter());
            }
            (_, KeyMatch::Lpm { value, prefix_len }) => {
                out.push_str("LPM       ");
                hex(out, value.iter());
                let _ = write!(out, "/{prefix_len}");
            }
            (_, KeyMatch::Ternary { value, mask }) => {
                out.push_str("TERNARY   ");
                hex(out, value.iter());
                out.push_str(" &&& ");
                hex(out, mask.iter());
            }
            (_, KeyMatch::Range { low, high }) => {
                out.push_str("RANGE     ");
                hex(out, low.iter());
                out.push_str(" -> ");
                hex(out, high.iter());
            }
            (MatchKind::Lpm, KeyMatch::Any) => {
                let _ = write!(out, "LPM       {}/0", "00".repeat(bytes));
            }
            (_, KeyMatch::Any) => {
                let zeros = "00".repeat(bytes);
                let _ = write!(out, "TERNARY   {zeros} &&& {zeros}");
            }
        }
        out.push('\n');
    }
    if let Some(entry) = table.entry(slot).filter(|_| info.needs_priority) {
        let _ = writeln!(out, "Priority: {}", entry.priority);
    }
}

/// Logs that the deparser starts, and what it does before it emits headers.
#[cold]
#[inline(never)]
pub(crate) fn start_deparser(cx: &mut Cx<'_>, packet: &Packet, update_checksums: bool) {
    say(cx, LogLevel::Debug, packet, |info, out| {
        let _ = write!(out, "Deparser '{}': start", info.log_names.deparser);
    });
    if update_checksums {
        updated_checksums(cx, packet);
    }
}

/// Logs the checksums that are updated next.
fn updated_checksums(cx: &mut Cx<'_>, packet: &Packet) {
    let ir = cx.ir;
    for (index, checksum) in ir.update.iter().enumerate() {
        let (level, before, after) = if calc::condition_holds(ir, packet, checksum) {
            (LogLevel::Debug, "Updating checksum '", "'")
        } else {
            (
                LogLevel::Trace,
                "Skipping checksum '",
                "' update because condition not met",
            )
        };
        say(cx, level, packet, |info, out| {
            let name = name(&info.log_names.updated, index);
            let _ = write!(out, "{before}{name}{after}");
        });
    }
}

/// Logs the headers that are emitted next.
pub(crate) fn deparse(cx: &mut Cx<'_>, packet: &Packet) {
    let ir = cx.ir;
    for header in &ir.deparse {
        let info = ir.headers.get(usize::from(*header));
        if info.is_some_and(|info| byte(&packet.phv, info.valid) != 0) {
            say(cx, LogLevel::Debug, packet, |info, out| {
                let header = name(&info.log_names.headers, usize::from(*header));
                let _ = write!(out, "Deparsing header '{header}'");
            });
        }
    }
    say(cx, LogLevel::Debug, packet, |info, out| {
        let _ = write!(out, "Deparser '{}': end", info.log_names.deparser);
    });
}
