// SPDX-License-Identifier: Apache-2.0
//! The deparser: valid headers, in the program's order, in front of the payload.

use super::packet::Packet;
use super::phv::{byte, load_u32};
use super::pipeline::Cx;
use super::{action, calc};
use crate::ir::Ir;

/// Updates checksums if any `updates` may apply, writes the headers, applies `truncate`.
#[inline]
pub(crate) fn deparse(cx: &mut Cx<'_>, packet: &mut Packet, updates: bool) {
    let ir = cx.ir;
    if updates {
        update(cx, packet);
    }
    if !ir.deparse_prims.is_empty() {
        action::run(cx, packet, &ir.deparse_prims, &[]);
    }
    let done = cx.native.is_some_and(|native| native.deparse(packet));
    if !done {
        emit(ir, packet);
    }
    packet.seal(packet.limit());
}

#[inline(never)]
fn update(cx: &mut Cx<'_>, packet: &mut Packet) {
    for checksum in &cx.ir.update {
        calc::update(cx.ir, cx.externs, packet, checksum);
    }
}

/// Puts the valid headers in front of the payload.
fn emit(ir: &Ir, packet: &mut Packet) {
    // Last header first: each one goes right before what is already there.
    for header in ir.deparse.iter().rev() {
        let Some(info) = ir.headers.get(usize::from(*header)) else {
            continue;
        };
        if byte(&packet.phv, info.valid) == 0 {
            continue;
        }
        let offset = info.offset as usize;
        let fixed = info.fixed_bytes as usize;
        match info.varbit {
            None => packet.prepend(offset, fixed),
            Some(varbit) => {
                let (prefix, max) = (varbit.prefix_bytes as usize, varbit.max_bytes as usize);
                let length = (load_u32(&packet.phv, varbit.length_at) as usize).min(max);
                packet.prepend(offset + prefix + max, fixed - prefix.min(fixed));
                packet.prepend(offset + prefix, length);
                packet.prepend(offset, prefix);
            }
        }
    }
}
