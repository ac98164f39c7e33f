// SPDX-License-Identifier: Apache-2.0
//! The deparser: valid headers, in the program's order, in front of the payload.

use super::packet::Packet;
use super::parser::wire_bytes;
use super::phv::{byte, load_u32};
use super::pipeline::Cx;
use super::{action, calc};

/// Updates checksums, writes the headers, applies `truncate`.
pub(crate) fn deparse(cx: &mut Cx<'_>, packet: &mut Packet) {
    let ir = cx.ir;
    for checksum in &ir.update {
        calc::update(ir, cx.externs, packet, checksum);
    }
    if !ir.deparse_prims.is_empty() {
        action::run(cx, packet, &ir.deparse_prims, &[]);
    }
    let mut total = 0;
    for header in &ir.deparse {
        if let Some(info) = ir.headers.get(usize::from(*header))
            && byte(&packet.phv, info.valid) != 0
        {
            total += wire_bytes(info, &packet.phv) as usize;
        }
    }
    let (mut out, phv) = packet.prepend(total);
    for header in &ir.deparse {
        let Some(info) = ir.headers.get(usize::from(*header)) else {
            continue;
        };
        if byte(phv, info.valid) == 0 {
            continue;
        }
        let offset = info.offset as usize;
        let fixed = info.fixed_bytes as usize;
        match info.varbit {
            None => out = emit(out, phv, offset, fixed),
            Some(varbit) => {
                let (prefix, max) = (varbit.prefix_bytes as usize, varbit.max_bytes as usize);
                let length = (load_u32(phv, varbit.length_at) as usize).min(max);
                out = emit(out, phv, offset, prefix);
                out = emit(out, phv, offset + prefix, length);
                out = emit(out, phv, offset + prefix + max, fixed - prefix.min(fixed));
            }
        }
    }
    packet.seal(packet.truncate);
}

fn emit<'a>(out: &'a mut [u8], phv: &[u8], at: usize, bytes: usize) -> &'a mut [u8] {
    let (to, rest) = out.split_at_mut(bytes.min(out.len()));
    if let Some(from) = phv.get(at..at + to.len()) {
        to.copy_from_slice(from);
    }
    rest
}
