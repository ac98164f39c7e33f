// SPDX-License-Identifier: Apache-2.0
//! The stages of the packet path: parse, ingress, egress, deparse. Each runs as machine code (`native`) where the
//! program has any, else in the interpreter (`exec`).

use crate::context::Cx;
use crate::exec::{deparser, logged, parser, pipeline};
use crate::ir::Ir;
use crate::native::Native;
use crate::packet::{
    EgressMetadata, EgressResult, IngressMetadata, IngressResult, Packet, Progress, Through,
};
use crate::tables::TableState;

/// Machine code of the program, if it is to be used.
pub(crate) type Code<'a> = Option<&'a Native>;

/// Writes the metadata of a received packet, parses it and starts ingress; false for a parser error.
///
/// Machine code runs ingress to its end or, if `may_pause`, to the first step that depends on other packets. The
/// interpreter leaves all of ingress to [`through`]. The packet keeps how far it came.
#[inline(always)]
pub(crate) fn start(
    code: Code<'_>,
    cx: &mut Cx<'_>,
    tables: &mut [TableState],
    packet: &mut Packet,
    (metadata, may_pause): (IngressMetadata, bool),
) -> bool {
    let parsed = match code {
        Some(code) => code.start(cx, tables, packet, (metadata, may_pause)),
        None => None,
    };
    parsed.unwrap_or_else(|| {
        packet.progress = Progress::Start;
        start_with_parser(code, cx, packet, metadata)
    })
}

#[inline(never)]
fn start_with_parser(
    code: Code<'_>,
    cx: &mut Cx<'_>,
    packet: &mut Packet,
    metadata: IngressMetadata,
) -> bool {
    if let Some(log) = &mut cx.externs.path_log {
        log.received(packet);
    }
    pipeline::write_ingress_metadata(cx.ir, packet, metadata);
    parse(code, cx, packet)
}

/// Whether there is a log, with which no program runs as machine code.
#[inline(always)]
fn is_logged(code: Code<'_>, cx: &Cx<'_>) -> bool {
    code.is_none() && cx.externs.path_log.is_some()
}

/// Parses the packet into its (reset) PHV and verifies checksums; errors are left in `parser_error` and
/// `checksum_error`. Returns false when parsing ended with an error.
pub(crate) fn parse(code: Code<'_>, cx: &mut Cx<'_>, packet: &mut Packet) -> bool {
    packet.rewind();
    let error = match code.and_then(|code| code.parse(cx, packet)) {
        Some(error) => error,
        None => parser::run(cx, packet),
    };
    if is_logged(code, cx) {
        logged::verify_checksums(cx, packet);
    } else {
        parser::verify_checksums(cx, packet);
    }
    error == cx.ir.errors.no_error
}

/// Runs ingress from its start to its end or to `exit`.
#[inline]
pub(crate) fn ingress(
    code: Code<'_>,
    cx: &mut Cx<'_>,
    tables: &mut [TableState],
    packet: &mut Packet,
) -> IngressResult {
    let result = code.and_then(|code| code.ingress(cx, tables, packet));
    result.unwrap_or_else(|| pipeline::ingress(cx, tables, packet))
}

/// Runs the part of ingress that [`start`] left. Machine code runs egress too, if `between` returns its metadata.
#[inline(always)]
pub(crate) fn through(
    code: Code<'_>,
    cx: &mut Cx<'_>,
    tables: &mut [TableState],
    packet: &mut Packet,
    between: impl FnOnce(&mut Cx<'_>, &mut Packet, &IngressResult) -> Option<EgressMetadata>,
) -> Through {
    if packet.progress == Progress::Start {
        return Through::Ingress(ingress(code, cx, tables, packet));
    }
    // Not a closure, which would not be compiled in line.
    let through = match code {
        Some(code) => code.through(cx, tables, packet, between),
        None => None,
    };
    through.unwrap_or(Through::Ingress(IngressResult::default()))
}

/// Writes the metadata of egress and runs egress to its end or to `exit`.
#[inline(always)]
pub(crate) fn egress(
    code: Code<'_>,
    cx: &mut Cx<'_>,
    tables: &mut [TableState],
    packet: &mut Packet,
    metadata: EgressMetadata,
) -> EgressResult {
    let result = code.and_then(|code| code.egress(cx, tables, packet, &metadata));
    result.unwrap_or_else(|| pipeline::egress(cx, tables, packet, metadata))
}

/// Writes the valid headers before the payload, if only machine code has to run for it; else false, and nothing is done.
#[inline(always)]
pub(crate) fn deparse_at_once(
    code: Code<'_>,
    ir: &Ir,
    packet: &mut Packet,
    update_checksums: bool,
) -> bool {
    let alone = !update_checksums && ir.deparse_prims.is_empty();
    alone && code.is_some_and(|code| code.deparse(packet))
}

/// Updates checksums if one of them may need it, and writes the valid headers before the payload.
#[inline(never)]
pub(crate) fn deparse(
    code: Code<'_>,
    cx: &mut Cx<'_>,
    packet: &mut Packet,
    update_checksums: bool,
) {
    if is_logged(code, cx) {
        logged::start_deparser(cx, packet, update_checksums);
    }
    deparser::prepare(cx, packet, update_checksums);
    if !code.is_some_and(|code| code.deparse(packet)) {
        if is_logged(code, cx) {
            logged::deparse(cx, packet);
        }
        deparser::emit(cx.ir, packet);
    }
}
