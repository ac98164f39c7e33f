// SPDX-License-Identifier: Apache-2.0
//! The deparser: valid headers, last header first, each right before the bytes that are already there.

use super::Refused;
use super::code::Code;
use super::frame::{DEPARSED, Frame, STOPPED};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, types};

/// Headers and bytes of a deparser that is compiled.
const MOST_HEADERS: usize = 256;
const MOST_BYTES: u32 = 256;

/// Writes the deparser into an empty function. The function fills the headroom from its end downwards and writes the
/// bytes that are left of it to the frame; or it returns `STOPPED`.
pub(super) fn deparser(mut code: Code<'_, '_>) -> Result<(), Refused> {
    let stopped = code.b.create_block();
    code.deparse(stopped)?;
    code.return_word(DEPARSED);
    code.b.switch_to_block(stopped);
    code.b.set_cold_block(stopped);
    code.return_word(STOPPED);
    code.finish();
    Ok(())
}

impl Code<'_, '_> {
    /// Whether the deparser only emits headers, so that it may follow egress in the same function.
    pub(super) fn only_emits(&self) -> bool {
        self.ir.deparse_prims.is_empty()
    }

    /// Writes the headers as [`deparser`] says, and jumps to `stopped` if the interpreter has to.
    pub(super) fn deparse(&mut self, stopped: Block) -> Result<(), Refused> {
        let code = self;
        let ir = code.ir;
        if ir.deparse.len() > MOST_HEADERS {
            return Err(Refused);
        }
        let start = code.frame_word(Frame::BYTES);
        let length = code.frame_word(Frame::LENGTH);
        let left = code.b.declare_var(types::I64);
        code.b.def_var(left, length);
        for header in ir.deparse.iter().rev() {
            let info = ir.headers.get(usize::from(*header)).ok_or(Refused)?;
            let bytes = info.fixed_bytes;
            if bytes > MOST_BYTES {
                return Err(Refused);
            }
            let valid = code.byte(info.valid)?;
            let next = code.b.create_block();
            code.continue_if(valid, next);
            // With an empty varbit, the fields after it follow the fields before it.
            let mut parts = vec![(info.offset, 0, bytes)];
            if let Some(varbit) = info.varbit {
                let length = code.number_at(varbit.length_at, 4)?;
                let empty = code.b.ins().icmp_imm(IntCC::Equal, length, 0);
                code.continue_if(empty, stopped);
                let prefix = varbit.prefix_bytes.min(bytes);
                let suffix = info.offset + varbit.prefix_bytes + varbit.max_bytes;
                parts = vec![(info.offset, 0, prefix), (suffix, prefix, bytes - prefix)];
            }
            let before = code.b.use_var(left);
            let size = i64::from(bytes);
            let room = code
                .b
                .ins()
                .icmp_imm(IntCC::UnsignedGreaterThanOrEqual, before, size);
            code.continue_if(room, stopped);
            let after = code.b.ins().iadd_imm(before, -size);
            let to = code.b.ins().iadd(start, after);
            for (from, at, bytes) in parts {
                let to = code.b.ins().iadd_imm(to, i64::from(at));
                code.copy_out(from, bytes, to)?;
            }
            code.b.def_var(left, after);
            code.b.ins().jump(next, &[]);
            code.b.switch_to_block(next);
        }
        let after = code.b.use_var(left);
        code.set_frame_word(Frame::OFFSET, after);
        Ok(())
    }
}
