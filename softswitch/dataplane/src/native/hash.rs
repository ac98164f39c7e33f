// SPDX-License-Identifier: Apache-2.0
//! Hashes: the code gathers the bytes, a helper runs the algorithm.

use super::Refused;
use super::code::Code;
use super::helper;
use crate::hash::{self, Contributions, LEAD_BYTES, SHORT_BYTES};
use crate::ir::{Algo, CALC_PIECES_BYTES, CalcPiece};
use cranelift_codegen::ir::{InstBuilder, StackSlotData, StackSlotKind, Value, types};

/// The contributions of bytes to a CRC over these pieces, if they are few bytes and always the same.
fn short(algo: Algo, pieces: &[CalcPiece]) -> Option<&'static Contributions> {
    let bytes: usize = pieces.iter().map(|piece| usize::from(piece.bytes)).sum();
    let always = pieces.iter().all(|piece| piece.valid.is_none());
    (always && bytes <= SHORT_BYTES)
        .then(|| hash::contributions(algo))
        .flatten()
}

impl Code<'_, '_> {
    /// The value of a calculation.
    pub(super) fn hash(&mut self, calculation: u16) -> Result<Value, Refused> {
        let calculations = &self.ir.calculations;
        let known = calculations.get(usize::from(calculation)).ok_or(Refused)?;
        match &known.pieces {
            Some(pieces) if !known.algo.is_stateful() => match short(known.algo, pieces) {
                Some(contributions) => self.hash_short(known.algo, contributions, pieces),
                None => self.hash_pieces(calculation, pieces),
            },
            _ => {
                let calculation = self.number(u64::from(calculation));
                Ok(self.call(helper::hash(), &[calculation]))
            }
        }
    }

    /// A CRC over few bytes, gathered at the end of as many as a helper adds up the contributions of. Leading zeros
    /// contribute nothing.
    fn hash_short(
        &mut self,
        algo: Algo,
        contributions: &'static Contributions,
        pieces: &[CalcPiece],
    ) -> Result<Value, Refused> {
        let bytes: u32 = pieces.iter().map(|piece| u32::from(piece.bytes)).sum();
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, SHORT_BYTES as u32, 3);
        let slot = self.b.create_sized_stack_slot(slot);
        let zero = self.number(0);
        let lead = SHORT_BYTES as u32 - bytes;
        for at in (0..lead).step_by(8) {
            self.b.ins().stack_store(zero, slot, at.cast_signed());
        }
        let mut to = lead.cast_signed();
        for piece in pieces {
            let at = self.b.ins().stack_addr(types::I64, slot, to);
            self.copy_out(piece.offset, u32::from(piece.bytes), at)?;
            to += i32::from(piece.bytes);
        }
        let start = self.b.ins().stack_addr(types::I64, slot, 0);
        let tables = self.number(contributions.as_ptr().expose_provenance() as u64);
        let sum = self.call(helper::add_contributions(), &[tables, start]);
        let zeros = hash::compute(algo, &vec![0; bytes as usize]);
        Ok(self.b.ins().bxor_imm(sum, zeros.cast_signed()))
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
