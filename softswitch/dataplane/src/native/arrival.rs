// SPDX-License-Identifier: Apache-2.0
//! A packet's fields before parsing: zeros, and what is known of its arrival. Before egress: what is known of its
//! departure.

use super::Refused;
use super::call::Frame;
use super::code::{Code, pieces};
use crate::ir::Slot;
use cranelift_codegen::ir::{InstBuilder, types};
use std::collections::BTreeMap;

/// A program with more bytes to clear leaves it to the interpreter.
const MOST_BYTES: u32 = 4_096;

impl Code<'_, '_> {
    /// Where the frame says that the packet has just arrived, its fields get their first values.
    pub(super) fn arrive(&mut self) -> Result<(), Refused> {
        let fresh = self.frame_word(Frame::FRESH);
        let behind = self.b.create_block();
        self.go_on_if(fresh, behind);
        self.clear()?;
        let ir = self.ir;
        self.put_words(&[
            (ir.intrinsics.ingress_port, Frame::PORT),
            (ir.intrinsics.packet_length, Frame::PACKET_BYTES),
            (ir.intrinsics.ingress_timestamp, Frame::TIME_US),
        ])?;
        self.b.ins().jump(behind, &[]);
        self.b.switch_to_block(behind);
        Ok(())
    }

    /// Fields of a packet that is about to go through egress.
    pub(super) fn depart(&mut self) -> Result<(), Refused> {
        let ir = self.ir;
        self.put_words(&[
            (ir.intrinsics.egress_timestamp, Frame::TIME_US),
            (ir.intrinsics.egress_port, Frame::PORT),
            (ir.intrinsics.qid, Frame::PRIORITY),
            (ir.intrinsics.packet_length, Frame::LENGTH_NOW),
        ])?;
        let fresh = self.frame_word(Frame::FRESH);
        let behind = self.b.create_block();
        self.go_on_if(fresh, behind);
        self.put_words(&[
            (ir.intrinsics.deq_timedelta, Frame::QUEUED_US),
            (ir.intrinsics.deq_qdepth, Frame::DEPTH),
            (ir.intrinsics.egress_spec, Frame::EGRESS_SPEC),
        ])?;
        self.b.ins().jump(behind, &[]);
        self.b.switch_to_block(behind);
        Ok(())
    }

    /// Writes words of the frame to fields that the program has.
    fn put_words(&mut self, words: &[(Option<Slot>, i32)]) -> Result<(), Refused> {
        for (slot, word) in words {
            if let Some(slot) = slot {
                let value = self.frame_word(*word);
                self.put(*slot, value)?;
            }
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Refused> {
        let ir = self.ir;
        let all = ir.cleared.iter().map(|(_, bytes)| u64::from(*bytes));
        if all.sum::<u64>() > u64::from(MOST_BYTES) {
            return Err(Refused);
        }
        for (start, bytes) in &ir.cleared {
            // A few more do no harm.
            let bytes = (*bytes).max(8);
            for (at, ty) in pieces(bytes) {
                let zero = if ty == types::I8X16 {
                    let zero = self.b.ins().iconst(types::I8, 0);
                    self.b.ins().splat(ty, zero)
                } else {
                    self.b.ins().iconst(ty, 0)
                };
                self.store(start + at.cast_unsigned(), ty.bytes(), zero)?;
            }
        }
        let mut words: BTreeMap<u32, [u8; 8]> = BTreeMap::new();
        for at in &ir.valid_at_start {
            words.entry(at / 8 * 8).or_default()[*at as usize % 8] = 1;
        }
        for (at, word) in words {
            // The bytes beside are zeros too: nothing but what says that headers are valid stands there by now.
            let word = self.number(u64::from_ne_bytes(word));
            self.store(at, 8, word)?;
        }
        Ok(())
    }
}
