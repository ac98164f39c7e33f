// SPDX-License-Identifier: Apache-2.0
//! `log_msg`, and the report of a false `assert` or `assume`.

use super::expr::View;
use crate::context::Cx;
use crate::ir::{Expr, LogMessage};
use crate::packet::Packet;
use crate::packet::phv::store_opt;
use crate::path_log::LogLevel;
use crate::wide::Wide;
use std::fmt::Write;
use weir_program::LogKind;

/// Queues a message of the program, or counts it as lost.
pub(super) fn log(cx: &mut Cx<'_>, packet: &Packet, kind: LogKind, message: u16, args: &[u64]) {
    let Some(message) = cx.ir.log_messages.get(usize::from(message)) else {
        return;
    };
    let view = View {
        ir: cx.ir,
        phv: &packet.phv,
        args,
        packet,
    };
    if let Some(log) = &mut cx.externs.path_log {
        let (level, prefix) = match kind {
            LogKind::Message => (LogLevel::Info, ""),
            LogKind::Assert => (LogLevel::Error, "Assert error: "),
            LogKind::Assume => (LogLevel::Error, "Assume error: "),
        };
        log.line(level, |_, text| {
            text.push_str(prefix);
            fill(message, &view, text);
        });
        return;
    }
    let queued = cx
        .externs
        .log
        .push(kind, cx.now_ns, |text| fill(message, &view, text));
    if !queued {
        cx.externs.stats.log_lost += 1;
    }
}

/// Drops a packet whose `assert` or `assume` was false, with all copies that it requested.
pub(super) fn fail(
    cx: &mut Cx<'_>,
    packet: &mut Packet,
    kind: LogKind,
    message: u16,
    args: &[u64],
) {
    cx.externs.stats.assertions_failed += 1;
    log(cx, packet, kind, message, args);
    packet.clear_requests();
    packet.exit = true;
    let intrinsics = cx.ir.intrinsics;
    let drop_port = u64::from(cx.drop_port);
    store_opt(&mut packet.phv, intrinsics.egress_spec, drop_port);
    store_opt(&mut packet.phv, intrinsics.mcast_grp, 0);
}

fn fill(message: &LogMessage, view: &View<'_>, out: &mut String) {
    let mut values = message.values.iter();
    for (number, piece) in message.pieces.iter().enumerate() {
        if number > 0 {
            match values.next() {
                Some(value) => write_value(view, *value, out),
                None => out.push_str("{}"),
            }
        }
        out.push_str(piece);
    }
}

/// In decimal, or in hexadecimal if the value does not fit 64 bits.
fn write_value(view: &View<'_>, value: Expr, out: &mut String) {
    write_number(out, view.eval_wide::<33>(value));
}

/// In decimal, or in hexadecimal if the number does not fit 64 bits.
pub(super) fn write_number(out: &mut String, mut value: Wide<33>) {
    if value.is_negative() {
        out.push('-');
        value = Wide::ZERO.sub(&value);
    }
    let highest = value.0.iter().rposition(|word| *word != 0).unwrap_or(0);
    // Writing to a string does not fail.
    let _ = if highest == 0 {
        write!(out, "{}", value.low())
    } else {
        write!(out, "{:#x}", value.0[highest])
    };
    for word in value.0[..highest].iter().rev() {
        let _ = write!(out, "{word:016x}");
    }
}
