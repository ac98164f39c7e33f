// SPDX-License-Identifier: Apache-2.0
//! A packet's fields before parsing: zeros, and what is known of its arrival. Before egress: what is known of its
//! departure. Behind a pipeline: what they ask for.

use super::Refused;
use super::call::{Frame, Gress};
use super::code::{Code, pieces};
use crate::ir::Slot;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use std::collections::BTreeMap;

/// What a packet's fields say of its arrival, beside its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub port: u64,
    pub time_us: u64,
}

/// What the fields of a packet that leaves say of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departure {
    pub port: u64,
    pub time_us: u64,
    pub length: u64,
    pub priority: u64,
    /// It was dropped at its port, and has fields that say so in place of the following.
    pub deflected: bool,
    pub queued_us: u64,
    pub depth: u64,
    /// No port that drops.
    pub egress_spec: u64,
    /// When it was enqueued, and what waited there.
    pub enqueued_us: u64,
    pub enqueued_depth: u64,
}

/// What a packet's fields ask for behind ingress; zeros for fields that the program does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ingressed {
    pub group: u64,
    pub egress_spec: u64,
    pub priority: u64,
    pub instance_type: u64,
}

/// What a packet's fields ask for behind egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Egressed {
    pub egress_spec: u64,
    /// A checksum may have to be updated.
    pub updates: bool,
}

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
            (ir.intrinsics.enq_timestamp, Frame::ENQUEUED_US),
            (ir.intrinsics.enq_qdepth, Frame::ENQUEUED_DEPTH),
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

    /// Leaves in the frame what follows the pipeline asks the packet's fields for.
    pub(super) fn leave(&mut self, gress: Gress) -> Result<(), Refused> {
        let ir = self.ir;
        let intrinsics = &ir.intrinsics;
        self.take_words(&[(intrinsics.egress_spec, Frame::EGRESS_SPEC)])?;
        match gress {
            Gress::Ingress => self.take_words(&[
                (intrinsics.mcast_grp, Frame::GROUP),
                (intrinsics.priority, Frame::PRIORITY),
                (intrinsics.instance_type, Frame::INSTANCE_TYPE),
            ]),
            Gress::Egress => {
                let updates = self.updates();
                self.set_frame_word(Frame::UPDATES, updates);
                Ok(())
            }
        }
    }

    /// Whether a checksum may have to be updated.
    fn updates(&mut self) -> Value {
        let ir = self.ir;
        let mut any = None;
        for checksum in &ir.update {
            let applies = match (checksum.target_valid, checksum.condition) {
                (_, Some(condition)) => self.eval(condition, None),
                (Some(valid), None) => self.byte(valid),
                (None, None) => Err(Refused),
            };
            let Ok(applies) = applies else {
                return self.number(1);
            };
            any = Some(match any {
                None => applies,
                Some(any) => self.b.ins().bor(any, applies),
            });
        }
        any.unwrap_or_else(|| self.number(0))
    }

    /// Writes fields to words of the frame, zero for those that the program does not have.
    fn take_words(&mut self, words: &[(Option<Slot>, i32)]) -> Result<(), Refused> {
        for (slot, word) in words {
            let value = match slot {
                Some(slot) => self.get(*slot)?,
                None => self.number(0),
            };
            self.set_frame_word(*word, value);
        }
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
