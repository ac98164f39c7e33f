// SPDX-License-Identifier: Apache-2.0
//! The writer of a function: access to fields of the PHV and words of the frame, calls of helpers.
//!
//! Every offset into the PHV is checked here once, when the code is written, against the length of the PHV.

use super::Refused;
use crate::info::ProgramInfo;
use crate::ir::{Field, Ir, Slot};
use crate::packet::phv::low_mask;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, Block, InstBuilder, MemFlags, SigRef, Signature, StackSlot,
    StackSlotData, StackSlotKind, Type, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;

/// Instructions of a function, before optimization; the largest of weir's own pipeline has a tenth.
const MOST_INSTRUCTIONS: usize = 30_000;

/// A function being written.
pub(super) struct Code<'a, 'f> {
    pub b: FunctionBuilder<'f>,
    pub ir: &'a Ir,
    pub info: &'a ProgramInfo,
    /// The frame that the function was called with.
    pub frame: Value,
    /// Offset of the PHV from there.
    phv: i32,
    convention: CallConv,
    signatures: Vec<(usize, SigRef)>,
    scratch: Option<(StackSlot, u32)>,
}

fn memory(region: AliasRegion) -> MemFlags {
    MemFlags::new()
        .with_notrap()
        .with_alias_region(Some(region))
}

/// Memory of the packet's bytes. The generator has three regions, so this one is shared with arrays and arguments.
fn packet_memory() -> MemFlags {
    memory(AliasRegion::Table)
}

/// Offset and type of the pieces of a copy. They do not overlap, so that a later read waits for one store only.
pub(super) fn pieces(bytes: u32) -> impl Iterator<Item = (i32, Type)> {
    let (mut at, mut left) = (0_i32, bytes);
    std::iter::from_fn(move || {
        let (size, ty) = match left {
            0 => return None,
            16.. => (16_u32, types::I8X16),
            8.. => (8, types::I64),
            4.. => (4, types::I32),
            2.. => (2, types::I16),
            1 => (1, types::I8),
        };
        let piece = (at, ty);
        at += size.cast_signed();
        left -= size;
        Some(piece)
    })
}

/// The smallest window of 1, 2, 4 or 8 bytes that holds a slot.
struct Window {
    offset: u32,
    bytes: u32,
    /// Bits to the right of the slot in the window.
    shift: u32,
    width: u32,
}

impl Window {
    fn of(slot: Slot) -> Result<Self, Refused> {
        let (shift, width) = (u32::from(slot.shift), slot.mask.count_ones());
        if slot.own_bytes > 0 {
            return Ok(Self {
                offset: slot.offset,
                bytes: u32::from(slot.own_bytes),
                shift: 0,
                width,
            });
        }
        let before = 64_u32.checked_sub(shift + width).ok_or(Refused)?;
        let (first, last) = (before / 8, (63 - shift) / 8);
        let bytes = (last - first + 1).next_power_of_two();
        let first = first.min(8 - bytes);
        Ok(Self {
            offset: slot.offset.checked_add(first).ok_or(Refused)?,
            bytes,
            shift: shift - 8 * (8 - first - bytes),
            width,
        })
    }
}

fn integer(bytes: u32) -> Type {
    match bytes {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        _ => types::I64,
    }
}

impl<'a, 'f> Code<'a, 'f> {
    /// Starts a function that takes the address of a frame.
    pub(super) fn new(
        mut b: FunctionBuilder<'f>,
        (info, ir): (&'a ProgramInfo, &'a Ir),
        phv: i32,
    ) -> Self {
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let frame = b.block_params(entry)[0];
        let convention = b.func.signature.call_conv;
        Self {
            b,
            ir,
            info,
            frame,
            phv,
            convention,
            signatures: Vec::new(),
            scratch: None,
        }
    }

    /// Returns a constant.
    pub(super) fn return_word(&mut self, value: u64) {
        let value = self.number(value);
        self.b.ins().return_(&[value]);
    }

    /// Ends the function.
    pub(super) fn finish(mut self) {
        self.b.seal_all_blocks();
        self.b.finalize();
    }

    /// Refuses a function that would take too long to compile.
    pub(super) fn check_size(&self) -> Result<(), Refused> {
        if self.b.func.dfg.num_insts() > MOST_INSTRUCTIONS {
            return Err(Refused);
        }
        Ok(())
    }

    pub(super) fn number(&mut self, value: u64) -> Value {
        self.b.ins().iconst(types::I64, value.cast_signed())
    }

    /// Checks that `bytes` bytes at `offset` are in the PHV; the offset from the frame for a load or store.
    fn within(&self, offset: u32, bytes: u32) -> Result<i32, Refused> {
        let end = offset.checked_add(bytes).ok_or(Refused)?;
        if end as usize > self.ir.phv_bytes {
            return Err(Refused);
        }
        let offset = i32::try_from(offset).map_err(|_| Refused)?;
        self.phv.checked_add(offset).ok_or(Refused)
    }

    /// A big-endian number of 1, 2, 4 or 8 bytes of the PHV, in 64 bits.
    pub(super) fn number_at(&mut self, offset: u32, bytes: u32) -> Result<Value, Refused> {
        let at = self.within(offset, bytes)?;
        let (phv, flags) = (self.frame, memory(AliasRegion::Heap));
        if bytes == 1 {
            return Ok(self.b.ins().uload8(types::I64, flags, phv, at));
        }
        let value = self.b.ins().load(integer(bytes), flags, phv, at);
        Ok(self.widen(value, bytes))
    }

    /// Converts a big-endian number of `bytes` bytes, loaded as it is in memory, to 64 bits.
    pub(super) fn widen(&mut self, value: Value, bytes: u32) -> Value {
        let value = if bytes > 1 {
            self.b.ins().bswap(value)
        } else {
            value
        };
        if bytes < 8 {
            self.b.ins().uextend(types::I64, value)
        } else {
            value
        }
    }

    fn store_number(&mut self, offset: u32, bytes: u32, value: Value) -> Result<(), Refused> {
        let value = if bytes < 8 {
            self.b.ins().ireduce(integer(bytes), value)
        } else {
            value
        };
        let value = if bytes > 1 {
            self.b.ins().bswap(value)
        } else {
            value
        };
        self.store(offset, bytes, value)
    }

    /// Stores a value of `bytes` bytes without swapping them.
    pub(super) fn store(&mut self, offset: u32, bytes: u32, value: Value) -> Result<(), Refused> {
        let at = self.within(offset, bytes)?;
        let (phv, flags) = (self.frame, memory(AliasRegion::Heap));
        self.b.ins().store(flags, value, phv, at);
        Ok(())
    }

    fn mask(&mut self, value: Value, mask: u64) -> Value {
        if mask == u64::MAX {
            return value;
        }
        self.b.ins().band_imm(value, mask.cast_signed())
    }

    /// The slot's value.
    pub(super) fn get(&mut self, slot: Slot) -> Result<Value, Refused> {
        let window = Window::of(slot)?;
        let value = self.number_at(window.offset, window.bytes)?;
        let value = self.shift_right(value, window.shift);
        // The bytes before a field in its own bytes are zero.
        if slot.own_bytes > 0 || window.shift + window.width == window.bytes * 8 {
            return Ok(value);
        }
        Ok(self.mask(value, slot.mask))
    }

    /// A value that was read from a slot, without the bits before the slot in its own bytes.
    pub(super) fn masked(&mut self, value: Value, slot: Slot) -> Value {
        if slot.mask.count_ones() == 8 * u32::from(slot.own_bytes) {
            return value;
        }
        self.mask(value, slot.mask)
    }

    fn shift_right(&mut self, value: Value, by: u32) -> Value {
        match by {
            0 => value,
            by => self.b.ins().ushr_imm(value, i64::from(by)),
        }
    }

    /// Writes the low bits of `value`.
    pub(super) fn put(&mut self, slot: Slot, value: Value) -> Result<(), Refused> {
        let window = Window::of(slot)?;
        let all = u64::MAX >> (64 - window.bytes * 8);
        let own = slot.mask << window.shift;
        if own == all {
            return self.store_number(window.offset, window.bytes, value);
        }
        let value = self.mask(value, slot.mask);
        if slot.own_bytes > 0 {
            return self.store_number(window.offset, window.bytes, value);
        }
        let old = self.number_at(window.offset, window.bytes)?;
        let old = self.mask(old, !own & all);
        let value = self.b.ins().ishl_imm(value, i64::from(window.shift));
        let value = self.b.ins().bor(old, value);
        self.store_number(window.offset, window.bytes, value)
    }

    /// The last `width` bits of the eight bytes from `offset` on.
    pub(super) fn last_bits(&mut self, offset: u32, width: u32) -> Result<Value, Refused> {
        self.get(Slot {
            mask: low_mask(width),
            offset,
            shift: 0,
            own_bytes: 0,
        })
    }

    /// Writes bits to a window; mask and bits are in memory order.
    pub(super) fn put_const(&mut self, offset: u32, keep: u64, bits: u64) -> Result<(), Refused> {
        let (keep, bits) = (keep.to_ne_bytes(), bits.to_ne_bytes());
        let touched = |i: &u32| keep[*i as usize] != 0xff;
        let (Some(first), Some(last)) = ((0..8).find(touched), (0..8).rev().find(touched)) else {
            return Ok(());
        };
        let size = (last - first + 1).next_power_of_two();
        let first = first.min(8 - size);
        let number = |from: [u8; 8]| {
            let own = (first..first + size).zip(0..);
            own.fold(0, |sum, (i, by)| {
                sum | u64::from(from[i as usize]) << (8 * by)
            })
        };
        let (keep, bits) = (number(keep), number(bits));
        let ty = integer(size);
        let value = self.b.ins().iconst(ty, bits.cast_signed());
        let value = if keep == 0 {
            value
        } else {
            let at = self.within(offset + first, size)?;
            let (phv, flags) = (self.frame, memory(AliasRegion::Heap));
            let old = self.b.ins().load(ty, flags, phv, at);
            let keep = self.b.ins().iconst(ty, keep.cast_signed());
            let old = self.b.ins().band(old, keep);
            self.b.ins().bor(old, value)
        };
        self.store(offset + first, size, value)
    }

    /// A field's value modulo 2^64: a signed field is sign-extended.
    pub(super) fn field(&mut self, field: Field) -> Result<Value, Refused> {
        let unsigned = Field {
            signed: false,
            ..field
        };
        let slot = Slot::new(unsigned, self.ir.metadata_bytes).ok_or(Refused)?;
        let value = self.get(slot)?;
        Ok(if field.signed {
            self.sign_extend(value, u32::from(field.width))
        } else {
            value
        })
    }

    pub(super) fn sign_extend(&mut self, value: Value, width: u32) -> Value {
        let unused = i64::from(64 - width.clamp(1, 64));
        let value = self.b.ins().ishl_imm(value, unused);
        self.b.ins().sshr_imm(value, unused)
    }

    /// One byte of the PHV.
    pub(super) fn byte(&mut self, at: u32) -> Result<Value, Refused> {
        self.number_at(at, 1)
    }

    pub(super) fn set_byte(&mut self, at: u32, value: u8) -> Result<(), Refused> {
        let value = self.b.ins().iconst(types::I8, i64::from(value));
        self.store(at, 1, value)
    }

    /// A word of the frame.
    pub(super) fn frame_word(&mut self, at: i32) -> Value {
        let (frame, flags) = (self.frame, memory(AliasRegion::Vmctx));
        self.b.ins().load(types::I64, flags, frame, at)
    }

    /// A word of the frame that does not change while the code runs.
    pub(super) fn frame_constant(&mut self, at: i32) -> Value {
        let flags = memory(AliasRegion::Vmctx).with_readonly();
        let frame = self.frame;
        self.b.ins().load(types::I64, flags, frame, at)
    }

    /// A word of an array or of one of its cells.
    pub(super) fn array_word(&mut self, from: Value, at: i32) -> Value {
        let flags = memory(AliasRegion::Table);
        self.b.ins().load(types::I64, flags, from, at)
    }

    /// A byte behind an address, in 64 bits.
    pub(super) fn array_byte(&mut self, from: Value, at: i32) -> Value {
        let flags = memory(AliasRegion::Table);
        self.b.ins().uload8(types::I64, flags, from, at)
    }

    pub(super) fn set_array_word(&mut self, to: Value, at: i32, value: Value) {
        let flags = memory(AliasRegion::Table);
        self.b.ins().store(flags, value, to, at);
    }

    /// The low `width` bits.
    pub(super) fn low_bits_of(&mut self, value: Value, width: u32) -> Value {
        self.mask(value, low_mask(width))
    }

    pub(super) fn set_frame_word(&mut self, at: i32, value: Value) {
        let (frame, flags) = (self.frame, memory(AliasRegion::Vmctx));
        self.b.ins().store(flags, value, frame, at);
    }

    /// Copies bytes to the PHV; the caller has checked that they exist.
    pub(super) fn copy_in(&mut self, from: Value, to: u32, bytes: u32) -> Result<(), Refused> {
        let phv_at = self.within(to, bytes)?;
        let (phv, outside, inside) = (self.frame, packet_memory(), memory(AliasRegion::Heap));
        for (at, ty) in pieces(bytes) {
            let value = self.b.ins().load(ty, outside, from, at);
            self.b.ins().store(inside, value, phv, phv_at + at);
        }
        Ok(())
    }

    /// Copies bytes of the PHV to an address; the caller has checked that there is space.
    pub(super) fn copy_out(&mut self, from: u32, bytes: u32, to: Value) -> Result<(), Refused> {
        let phv_at = self.within(from, bytes)?;
        let (phv, outside, inside) = (self.frame, packet_memory(), memory(AliasRegion::Heap));
        for (at, ty) in pieces(bytes) {
            let value = self.b.ins().load(ty, inside, phv, phv_at + at);
            self.b.ins().store(outside, value, to, at);
        }
        Ok(())
    }

    /// A word of an action's arguments; the caller has checked that it exists.
    pub(super) fn argument(&mut self, args: Value, word: u16) -> Value {
        let flags = memory(AliasRegion::Table);
        let at = i32::from(word) * 8;
        self.b.ins().load(types::I64, flags, args, at)
    }

    /// Stores words on the stack for a helper, and returns their address. The next call overwrites them.
    pub(super) fn words(&mut self, words: &[Value]) -> Value {
        let bytes = u32::try_from(words.len() * 8).unwrap_or(u32::MAX).max(8);
        let slot = match self.scratch {
            Some((slot, size)) if size >= bytes => slot,
            _ => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
                let slot = self.b.create_sized_stack_slot(data);
                self.scratch = Some((slot, bytes));
                slot
            }
        };
        for (word, at) in words.iter().zip((0..).step_by(8)) {
            self.b.ins().stack_store(*word, slot, at);
        }
        self.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Calls a helper with the frame and these values; every helper returns one word.
    pub(super) fn call(&mut self, helper: usize, values: &[Value]) -> Value {
        let callee = self.number(helper as u64);
        self.call_function(callee, values)
    }

    /// As [`Self::call`], for a helper's address.
    pub(super) fn call_function(&mut self, callee: Value, values: &[Value]) -> Value {
        let known = self.signatures.iter().find(|(n, _)| *n == values.len());
        let signature = match known {
            Some((_, signature)) => *signature,
            None => {
                let mut signature = Signature::new(self.convention);
                let word = AbiParam::new(types::I64);
                signature.params.resize(values.len() + 1, word);
                signature.returns.push(word);
                let signature = self.b.import_signature(signature);
                self.signatures.push((values.len(), signature));
                signature
            }
        };
        let mut all = Vec::with_capacity(values.len() + 1);
        all.push(self.frame);
        all.extend_from_slice(values);
        let call = self.b.ins().call_indirect(signature, callee, &all);
        self.b.inst_results(call)[0]
    }

    /// 1 or 0.
    pub(super) fn compare(&mut self, code: IntCC, left: Value, right: Value) -> Value {
        let truth = self.b.ins().icmp(code, left, right);
        self.b.ins().uextend(types::I64, truth)
    }

    /// Continues in a new block if `condition` is not zero, else jumps to `otherwise`.
    pub(super) fn continue_if(&mut self, condition: Value, otherwise: Block) {
        let next = self.b.create_block();
        self.b.ins().brif(condition, next, &[], otherwise, &[]);
        self.b.switch_to_block(next);
    }
}
