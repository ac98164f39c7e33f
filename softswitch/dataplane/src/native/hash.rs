// SPDX-License-Identifier: Apache-2.0
//! Hashes: the code gathers the bytes, a helper runs the algorithm.

use super::Refused;
use super::code::Code;
use super::helper;
use crate::hash::LEAD_BYTES;
use crate::ir::{CALC_PIECES_BYTES, CalcPiece};
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};

impl Code<'_, '_> {
    /// The value of a calculation.
    pub(super) fn hash(&mut self, calculation: u16) -> Result<Value, Refused> {
        let calculations = &self.ir.calculations;
        let known = calculations.get(usize::from(calculation)).ok_or(Refused)?;
        match &known.pieces {
            Some(pieces) if !known.algo.is_stateful() => self.hash_pieces(calculation, pieces),
            _ => {
                let calculation = self.number(u64::from(calculation));
                Ok(self.call(helper::hash(), &[calculation]))
            }
        }
    }

    fn hash_pieces(&mut self, calculation: u16, pieces: &[CalcPiece]) -> Result<Value, Refused> {
        let total: usize = pieces.iter().map(|piece| usize::from(piece.bytes)).sum();
        if total > CALC_PIECES_BYTES {
            return Err(Refused);
        }
        let bytes = u32::try_from(LEAD_BYTES + CALC_PIECES_BYTES).map_err(|_| Refused)?;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        let zero = self.number(0);
        for at in (0..LEAD_BYTES).step_by(8) {
            let at = i32::try_from(at).map_err(|_| Refused)?;
            self.b.ins().stack_store(zero, slot, at);
        }
        let start = self.b.ins().stack_addr(types::I64, slot, 0);
        let first = self.b.ins().iadd_imm(start, LEAD_BYTES as i64);
        // Address of the next piece.
        let end = self.b.declare_var(types::I64);
        self.b.def_var(end, first);
        for piece in pieces {
            let skip = match piece.valid {
                None => None,
                Some(valid) => {
                    let valid = self.byte(valid)?;
                    let skip = self.b.create_block();
                    self.continue_if(valid, skip);
                    Some(skip)
                }
            };
            let at = self.b.use_var(end);
            self.copy_out(piece.offset, u32::from(piece.bytes), at)?;
            let next = self.b.ins().iadd_imm(at, i64::from(piece.bytes));
            self.b.def_var(end, next);
            if let Some(skip) = skip {
                self.b.ins().jump(skip, &[]);
                self.b.switch_to_block(skip);
            }
        }
        let end = self.b.use_var(end);
        let length = self.b.ins().isub(end, start);
        let calculation = self.number(u64::from(calculation));
        Ok(self.call(helper::hash_bytes(), &[calculation, start, length]))
    }
}
