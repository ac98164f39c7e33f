// SPDX-License-Identifier: Apache-2.0
//! The deparser: valid headers, last first, each right before what is already there.

use super::Refused;
use super::call::Frame;
use super::code::Code;
use crate::ir::Ir;
use cranelift_codegen::ir::{InstBuilder, types};

/// Headers and bytes of a deparser that is compiled.
const MOST_HEADERS: usize = 256;
const MOST_BYTES: usize = 4_096;

/// The space that the code may write to, in front of the payload; None where it is not compiled.
pub(super) fn room_bytes(ir: &Ir) -> Option<usize> {
    let mut bytes = 0;
    for header in &ir.deparse {
        let info = ir.headers.get(usize::from(*header))?;
        if info.varbit.is_some() {
            return None;
        }
        bytes += info.fixed_bytes as usize;
    }
    (ir.deparse.len() <= MOST_HEADERS && bytes <= MOST_BYTES).then_some(bytes)
}

/// Writes the deparser into an empty function: from the end of the space in the frame downwards. It leaves there what
/// is left of the space.
pub(super) fn deparser(mut code: Code<'_, '_>) -> Result<(), Refused> {
    let ir = code.ir;
    let start = code.frame_word(Frame::BYTES);
    let length = code.frame_word(Frame::LENGTH);
    let to = code.b.declare_var(types::I64);
    let end = code.b.ins().iadd(start, length);
    code.b.def_var(to, end);
    for header in ir.deparse.iter().rev() {
        let info = ir.headers.get(usize::from(*header)).ok_or(Refused)?;
        let valid = code.byte(info.valid)?;
        let behind = code.b.create_block();
        code.go_on_if(valid, behind);
        let at = code.b.use_var(to);
        let at = code.b.ins().iadd_imm(at, -i64::from(info.fixed_bytes));
        code.copy_out(info.offset, info.fixed_bytes, at)?;
        code.b.def_var(to, at);
        code.b.ins().jump(behind, &[]);
        code.b.switch_to_block(behind);
    }
    let at = code.b.use_var(to);
    let left = code.b.ins().isub(at, start);
    code.set_frame_word(Frame::OFFSET, left);
    let zero = code.number(0);
    code.b.ins().return_(&[zero]);
    code.finish();
    Ok(())
}
