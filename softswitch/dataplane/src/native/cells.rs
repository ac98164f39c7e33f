// SPDX-License-Identifier: Apache-2.0
//! Counters, meters, registers and prefetches of their cells: in line, because most steps of a measuring program are
//! one of these.

use super::Refused;
use super::code::Code;
use super::frame::Frame;
use super::helper;
use crate::array::Array;
use crate::control::CounterValue;
use crate::info::{MeterUnit, ProgramInfo};
use crate::ir::{ArrayRef, Prefetch, Slot};
use crate::meter::CountedMeter;
use crate::state::{MeterArray, RegisterArray};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use std::mem::{offset_of, size_of};

/// Offsets that lead to an array's cells.
struct ArrayOffsets {
    /// Of the address of the first array of the kind, in the frame.
    arrays: i32,
    /// Of the address of the first cell, from the first array on.
    first: i32,
    /// Of the number of cells, from the first array on.
    len: i32,
    cell_bytes: usize,
    /// Number of cells, which the array itself has too.
    cells: u64,
}

fn offsets(info: &ProgramInfo, array: ArrayRef) -> Result<ArrayOffsets, Refused> {
    let cells = match array {
        ArrayRef::Counter(i) => info.counters.get(usize::from(i)).map(|c| c.size),
        ArrayRef::Meter(i) => info.meters.get(usize::from(i)).map(|m| m.size),
        ArrayRef::Register(i) => info.registers.get(usize::from(i)).map(|r| r.size),
    };
    let cells = cells.ok_or(Refused)?;
    let (arrays, at, cell_bytes) = match array {
        ArrayRef::Counter(i) => (
            Frame::COUNTERS,
            usize::from(i) * size_of::<Array<CounterValue>>(),
            size_of::<CounterValue>(),
        ),
        ArrayRef::Meter(i) => (
            Frame::METERS,
            usize::from(i) * size_of::<MeterArray>() + offset_of!(MeterArray, cells),
            size_of::<CountedMeter>(),
        ),
        ArrayRef::Register(i) => (
            Frame::REGISTERS,
            usize::from(i) * size_of::<RegisterArray>() + offset_of!(RegisterArray, cells),
            8 * register_width_bits(info, i)?.div_ceil(64) as usize,
        ),
    };
    let offset = |within: usize| i32::try_from(at + within).map_err(|_| Refused);
    Ok(ArrayOffsets {
        arrays,
        first: offset(Array::<u64>::FIRST)?,
        len: offset(Array::<u64>::LEN)?,
        cell_bytes,
        cells,
    })
}

fn register_width_bits(info: &ProgramInfo, register: u16) -> Result<u32, Refused> {
    let register = info.registers.get(usize::from(register)).ok_or(Refused)?;
    Ok(register.width_bits)
}

impl Code<'_, '_> {
    /// Address of the cell at an index. If the index may be out of range, the code that follows runs only if it is not;
    /// [`Code::join`] ends that code with the returned block.
    fn cell(&mut self, array: ArrayRef, index: Slot) -> Result<(Value, Option<Block>), Refused> {
        let offsets = offsets(self.info, array)?;
        let mut at = self.get(index)?;
        let arrays = self.frame_constant(offsets.arrays);
        let after = if offsets.cells > index.mask {
            // Masked, so that memory stays safe whatever the field's own bytes hold.
            at = self.masked(at, index);
            None
        } else {
            let len = self.array_word(arrays, offsets.len);
            let some = self.b.ins().icmp(IntCC::UnsignedLessThan, at, len);
            Some(self.only_if(some))
        };
        let first = self.array_word(arrays, offsets.first);
        let distance = self.times(at, offsets.cell_bytes);
        Ok((self.b.ins().iadd(first, distance), after))
    }

    fn times(&mut self, value: Value, by: usize) -> Value {
        self.b.ins().imul_imm(value, by as i64)
    }

    /// Continues if the index is in range; else counts that and jumps to the returned block.
    fn only_if(&mut self, some: Value) -> Block {
        let (run, none, after) = (
            self.b.create_block(),
            self.b.create_block(),
            self.b.create_block(),
        );
        self.b.ins().brif(some, run, &[], none, &[]);
        self.b.set_cold_block(none);
        self.b.switch_to_block(none);
        self.call(helper::out_of_range(), &[]);
        self.b.ins().jump(after, &[]);
        self.b.switch_to_block(run);
        after
    }

    /// Ends the code that [`Code::cell`] began.
    fn join(&mut self, after: Option<Block>) {
        if let Some(after) = after {
            self.b.ins().jump(after, &[]);
            self.b.switch_to_block(after);
        }
    }

    /// Counts the packet.
    pub(super) fn count(&mut self, counter: u16, index: Slot) -> Result<(), Refused> {
        let (cell, after) = self.cell(ArrayRef::Counter(counter), index)?;
        let length = self.frame_constant(Frame::COUNTED_BYTES);
        for (at, add) in [
            (offset_of!(CounterValue, packets), None),
            (offset_of!(CounterValue, bytes), Some(length)),
        ] {
            let at = i32::try_from(at).map_err(|_| Refused)?;
            let old = self.array_word(cell, at);
            let new = match add {
                Some(add) => self.b.ins().iadd(old, add),
                None => self.b.ins().iadd_imm(old, 1),
            };
            self.set_array_word(cell, at, new);
        }
        self.join(after);
        Ok(())
    }

    /// Meters the packet and writes its colour to a field.
    pub(super) fn meter(&mut self, meter: u16, index: Slot, to: Slot) -> Result<(), Refused> {
        let unit = self
            .info
            .meters
            .get(usize::from(meter))
            .ok_or(Refused)?
            .unit;
        let (cell, after) = self.cell(ArrayRef::Meter(meter), index)?;
        let in_bytes = self.number(u64::from(unit == MeterUnit::Bytes));
        let colour = self.call(helper::meter(), &[cell, in_bytes]);
        self.put(to, colour)?;
        self.join(after);
        Ok(())
    }

    /// Whether the cells of a register are one word each.
    pub(super) fn one_word(&self, register: u16) -> bool {
        register_width_bits(self.info, register).is_ok_and(|width| (1..=64).contains(&width))
    }

    /// Reads a cell of one word into a field.
    pub(super) fn read_register(
        &mut self,
        register: u16,
        index: Slot,
        to: Slot,
    ) -> Result<(), Refused> {
        let (cell, after) = self.cell(ArrayRef::Register(register), index)?;
        let value = self.array_word(cell, 0);
        self.put(to, value)?;
        self.join(after);
        Ok(())
    }

    /// Writes a field into a cell of one word.
    pub(super) fn write_register(
        &mut self,
        register: u16,
        index: Slot,
        value: Slot,
    ) -> Result<(), Refused> {
        let width = register_width_bits(self.info, register)?;
        let value = self.get(value)?;
        let (cell, after) = self.cell(ArrayRef::Register(register), index)?;
        let value = self.low_bits_of(value, width);
        self.set_array_word(cell, 0, value);
        self.join(after);
        Ok(())
    }

    /// Prefetches the cells at an index, without a range check: a prefetch allows any address.
    pub(super) fn prefetch(&mut self, prefetch: &Prefetch) -> Result<(), Refused> {
        let index = self.get(prefetch.index)?;
        let mut addresses = Vec::new();
        for (array, by) in &prefetch.arrays {
            let offsets = offsets(self.info, *array)?;
            let arrays = self.frame_constant(offsets.arrays);
            let first = self.array_word(arrays, offsets.first);
            let index = match by & 63 {
                0 => index,
                by => self.b.ins().ishl_imm(index, i64::from(by)),
            };
            let distance = self.times(index, offsets.cell_bytes);
            let address = self.b.ins().iadd(first, distance);
            addresses.push(address);
            if offsets.cell_bytes > helper::LINE_BYTES {
                let next = self.b.ins().iadd_imm(address, helper::LINE_BYTES as i64);
                addresses.push(next);
            }
        }
        for some in addresses.chunks(helper::ADDRESSES) {
            let mut all = some.to_vec();
            all.resize(helper::ADDRESSES, some[0]);
            self.call(helper::prefetch(), &all);
        }
        Ok(())
    }
}
