// SPDX-License-Identifier: Apache-2.0
//! The deparser in the interpreter: checksums, then the valid headers in the program's order, before the payload.

use super::{action, calc};
use crate::context::Cx;
use crate::ir::Ir;
use crate::packet::Packet;
use crate::packet::phv::{byte, load_u32};

/// Updates checksums if `update_checksums`, and runs the program's statements before the headers are emitted.
#[inline]
pub(crate) fn prepare(cx: &mut Cx<'_>, packet: &mut Packet, update_checksums: bool) {
    let ir = cx.ir;
    if update_checksums {
        update(cx, packet);
    }
    if !ir.deparse_prims.is_empty() {
        action::run(cx, packet, &ir.deparse_prims, &[]);
    }
}

#[inline(never)]
fn update(cx: &mut Cx<'_>, packet: &mut Packet) {
    for checksum in &cx.ir.update {
        calc::update(cx.ir, cx.externs, packet, checksum);
    }
}

/// Writes the valid headers before the payload.
pub(crate) fn emit(ir: &Ir, packet: &mut Packet) {
    // Last header first: each is written right before the bytes that are already there.
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
