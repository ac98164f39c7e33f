// SPDX-License-Identifier: Apache-2.0
//! Metadata in machine code: the fields of a received packet, those of a packet that enters egress, and the results of
//! both pipelines.

use super::Refused;
use super::code::Code;
use super::frame::{DEPARSED, Frame};
use crate::ir::{Gress, PHV_PADDING, Slot};
use crate::packet::Packet;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use std::collections::BTreeMap;

/// Bytes to clear before parsing; a program with more is left to the interpreter.
const MOST_BYTES: u32 = 4_096;

/// Bytes that one store clears.
const CLEARED_AT_ONCE: u32 = PHV_PADDING as u32;

/// Where the stores begin that clear all these ranges. A store may reach beyond a range: what is not live may have any
/// value.
fn covering(ranges: &[(u32, u32)]) -> Vec<u32> {
    let mut stores = Vec::new();
    let mut covered = 0;
    for (start, bytes) in ranges {
        covered = covered.max(*start);
        while covered < start + bytes {
            stores.push(covered);
            covered += CLEARED_AT_ONCE;
        }
    }
    stores
}

impl Code<'_, '_> {
    /// Resets the fields of a received packet and writes its metadata.
    pub(super) fn write_ingress_metadata(&mut self) -> Result<(), Refused> {
        self.clear()?;
        let intrinsics = &self.ir.intrinsics;
        self.put_words(&[
            (intrinsics.ingress_port, Frame::PORT),
            (intrinsics.packet_length, Frame::COUNTED_BYTES),
            (intrinsics.ingress_timestamp, Frame::TIME_US),
        ])
    }

    /// The same, if the frame says so.
    pub(super) fn write_ingress_metadata_if_flagged(&mut self) -> Result<(), Refused> {
        self.if_write_metadata(Self::write_ingress_metadata)
    }

    /// Writes the metadata of a packet that enters egress; a deflected packet keeps part of it.
    pub(super) fn write_egress_metadata(&mut self) -> Result<(), Refused> {
        let intrinsics = &self.ir.intrinsics;
        self.put_words(&[
            (intrinsics.egress_timestamp, Frame::TIME_US),
            (intrinsics.egress_port, Frame::PORT),
            (intrinsics.qid, Frame::PRIORITY),
            (intrinsics.packet_length, Frame::PACKET_LENGTH),
            (intrinsics.enq_timestamp, Frame::ENQUEUED_US),
            (intrinsics.enq_qdepth, Frame::ENQ_QDEPTH),
        ])?;
        self.if_write_metadata(|code| {
            code.put_words(&[
                (intrinsics.deq_timedelta, Frame::QUEUED_US),
                (intrinsics.deq_qdepth, Frame::DEQ_QDEPTH),
                (intrinsics.egress_spec, Frame::EGRESS_SPEC),
            ])
        })
    }

    fn if_write_metadata(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let condition = self.frame_word(Frame::WRITE_METADATA);
        let after = self.b.create_block();
        self.continue_if(condition, after);
        write(self)?;
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(after);
        Ok(())
    }

    /// Copies the fields that decide what follows the pipeline to the frame.
    pub(super) fn write_result(&mut self, gress: Gress) -> Result<(), Refused> {
        let intrinsics = &self.ir.intrinsics;
        self.get_words(&[(intrinsics.egress_spec, Frame::EGRESS_SPEC)])?;
        match gress {
            Gress::Ingress => self.get_words(&[
                (intrinsics.mcast_grp, Frame::MCAST_GRP),
                (intrinsics.priority, Frame::PRIORITY),
                (intrinsics.instance_type, Frame::INSTANCE_TYPE),
            ]),
            Gress::Egress => {
                let update = self.update_checksums();
                self.set_frame_word(Frame::UPDATE_CHECKSUMS, update);
                Ok(())
            }
        }
    }

    /// After egress, deparses and returns if nothing else is to be done first; else continues.
    pub(super) fn deparse_at_once(&mut self) -> Result<(), Refused> {
        let otherwise = self.b.create_block();
        let packet = self.frame_constant(Frame::PACKET);
        let requests = i32::try_from(Packet::HAS_REQUESTS).map_err(|_| Refused)?;
        let requests = self.array_byte(packet, requests);
        let update = self.frame_word(Frame::UPDATE_CHECKSUMS);
        let update = self.b.ins().bor(update, requests);
        let at_once = self.b.ins().icmp_imm(IntCC::Equal, update, 0);
        self.continue_if(at_once, otherwise);
        let to = self.frame_word(Frame::EGRESS_SPEC);
        let drop = self.frame_word(Frame::DROP_PORT);
        let passes = self.b.ins().icmp(IntCC::NotEqual, to, drop);
        self.continue_if(passes, otherwise);
        self.deparse(otherwise)?;
        self.return_word(DEPARSED);
        self.b.switch_to_block(otherwise);
        Ok(())
    }

    /// Whether a checksum may have to be updated.
    fn update_checksums(&mut self) -> Value {
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

    /// Copies fields to words of the frame; 0 for fields that the program does not have.
    fn get_words(&mut self, words: &[(Option<Slot>, i32)]) -> Result<(), Refused> {
        for (slot, word) in words {
            let value = match slot {
                Some(slot) => self.get(*slot)?,
                None => self.number(0),
            };
            self.set_frame_word(*word, value);
        }
        Ok(())
    }

    /// Copies words of the frame to the fields that the program has.
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
        let all = ir.live_at_start.iter().map(|(_, bytes)| u64::from(*bytes));
        if all.sum::<u64>() > u64::from(MOST_BYTES) {
            return Err(Refused);
        }
        for at in covering(&ir.live_at_start) {
            let zero = self.b.ins().iconst(types::I8, 0);
            let zero = self.b.ins().splat(types::I8X16, zero);
            self.store(at, CLEARED_AT_ONCE, zero)?;
        }
        let mut words: BTreeMap<u32, [u8; 8]> = BTreeMap::new();
        for at in &ir.valid_at_start {
            words.entry(at / 8 * 8).or_default()[*at as usize % 8] = 1;
        }
        for (at, word) in words {
            // The other bytes of the word are validity bytes too, and still zero.
            let word = self.number(u64::from_ne_bytes(word));
            self.store(at, 8, word)?;
        }
        Ok(())
    }
}
