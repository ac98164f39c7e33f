// SPDX-License-Identifier: Apache-2.0
//! The live bytes at one point of a program, and how reads, writes and changes of validity move them.

use crate::ir::{AnyField, Field, Header, Ir, Slot, WideField};
use fixedbitset::FixedBitSet;
use std::ops::Range;

/// The bytes of the PHV that may be read before they are written, from one point of the program on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Live {
    /// Bytes that may be read.
    always: FixedBitSet,
    /// Bytes that may be read if their header is valid at this point.
    if_valid: FixedBitSet,
}

/// Whole bytes that a run of bits covers.
fn whole_bytes(bits: &Range<u32>) -> Range<usize> {
    let start = bits.start.div_ceil(8) as usize;
    start..(bits.end as usize / 8).max(start)
}

pub(super) fn narrow(field: Field) -> Range<u32> {
    field.end_bit().saturating_sub(u32::from(field.width))..field.end_bit()
}

pub(super) fn wide(field: WideField) -> Range<u32> {
    field.bit_offset..field.bit_offset + field.width
}

pub(super) fn bits(field: AnyField) -> Range<u32> {
    match field {
        AnyField::Narrow(field) => narrow(field),
        AnyField::Wide(field) => wide(field),
    }
}

/// The bits that a read or write of a slot uses: its own bytes are read without a mask.
pub(super) fn slot_bits(slot: Slot) -> Range<u32> {
    match slot.own_bytes {
        0 => slot.end_bit().saturating_sub(slot.mask.count_ones())..slot.end_bit(),
        bytes => slot.offset * 8..(slot.offset + u32::from(bytes)) * 8,
    }
}

/// The bytes of a header that a parser or a deparser copies, and those of its varbit's length.
pub(super) fn contents(header: &Header) -> [Range<usize>; 2] {
    let varbit = header.varbit.map_or(0, |varbit| varbit.max_bytes);
    let (start, length_at) = (
        header.offset as usize,
        header.varbit.map_or(0, |v| v.length_at as usize),
    );
    [
        start..start + (header.fixed_bytes + varbit) as usize,
        length_at..length_at + header.varbit.map_or(0, |_| 4),
    ]
}

/// Moves the bytes of a header from one set to another of the same size.
fn move_contents(header: &Header, from: &mut FixedBitSet, to: &mut FixedBitSet) {
    for byte in contents(header).into_iter().flatten() {
        if from.contains(byte) {
            to.insert(byte);
            from.remove(byte);
        }
    }
}

impl Live {
    /// Nothing, in a PHV of so many bytes.
    pub(super) fn nothing(bytes: usize) -> Self {
        Self {
            always: FixedBitSet::with_capacity(bytes),
            if_valid: FixedBitSet::with_capacity(bytes),
        }
    }

    /// Bytes of the PHV.
    pub(super) fn len(&self) -> usize {
        self.always.len()
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.always.union_with(&other.always);
        self.if_valid.union_with(&other.if_valid);
    }

    /// Whether a byte of a header that is not valid may be read.
    pub(super) fn contains(&self, byte: usize) -> bool {
        self.always.contains(byte)
    }

    pub(super) fn read_everything(&mut self) {
        self.always.insert_range(..);
    }

    pub(super) fn read(&mut self, bits: &Range<u32>) {
        let end = (bits.end.div_ceil(8) as usize).min(self.always.len());
        let start = (bits.start as usize / 8).min(end);
        self.always.insert_range(start..end);
    }

    pub(super) fn read_field(&mut self, ir: &Ir, field: AnyField) {
        match field {
            AnyField::Narrow(field) => self.read_narrow(ir, field),
            AnyField::Wide(field) => self.read(&wide(field)),
        }
    }

    pub(super) fn read_narrow(&mut self, ir: &Ir, field: Field) {
        match Slot::new(field, ir.metadata_bytes) {
            Some(slot) => self.read_slot(slot),
            None => self.read(&narrow(field)),
        }
    }

    pub(super) fn read_slot(&mut self, slot: Slot) {
        self.read(&slot_bits(slot));
    }

    pub(super) fn read_byte(&mut self, at: u32) {
        self.read(&(at * 8..at * 8 + 8));
    }

    pub(super) fn overwrite(&mut self, bytes: Range<usize>) {
        let end = bytes.end.min(self.always.len());
        let bytes = bytes.start.min(end)..end;
        self.always.remove_range(bytes.clone());
        self.if_valid.remove_range(bytes);
    }

    /// A write of all these bits. Bits next to them in the same byte keep their values.
    pub(super) fn write(&mut self, ir: &Ir, bits: &Range<u32>) {
        self.overwrite(whole_bytes(bits));
        self.may_write(ir, bits);
    }

    pub(super) fn may_write(&mut self, ir: &Ir, bits: &Range<u32>) {
        let bytes = bits.start / 8..bits.end.div_ceil(8);
        for header in ir.headers.iter().filter(|h| bytes.contains(&h.valid)) {
            self.becomes_valid(header);
        }
    }

    /// The header may become valid at this point and keeps its bytes.
    pub(super) fn becomes_valid(&mut self, header: &Header) {
        move_contents(header, &mut self.if_valid, &mut self.always);
    }

    /// The header is valid at this point.
    pub(super) fn assume_valid(&mut self, header: &Header) {
        move_contents(header, &mut self.always, &mut self.if_valid);
    }

    /// The header is not valid at this point.
    pub(super) fn assume_invalid(&mut self, header: &Header) {
        for bytes in contents(header) {
            let end = bytes.end.min(self.if_valid.len());
            self.if_valid.remove_range(bytes.start.min(end)..end);
        }
    }

    /// The length of a header that is removed counts if it was valid.
    pub(super) fn remove(&mut self, header: &Header) {
        let [_, length] = contents(header);
        let end = length.end.min(self.if_valid.len());
        self.if_valid.insert_range(length.start.min(end)..end);
        self.read_byte(header.valid);
    }

    /// The other members of a header's union are removed.
    pub(super) fn remove_siblings(&mut self, ir: &Ir, header: &Header) {
        let union = header.union.and_then(|u| ir.unions.get(usize::from(u)));
        for sibling in union.into_iter().flatten() {
            if let Some(sibling) = ir.headers.get(usize::from(*sibling)) {
                self.remove(sibling);
            }
        }
    }

    /// The deparser copies the header if it is valid.
    pub(super) fn emit(&mut self, header: &Header) {
        for bytes in contents(header) {
            let end = bytes.end.min(self.if_valid.len());
            self.if_valid.insert_range(bytes.start.min(end)..end);
        }
        self.read_byte(header.valid);
    }
}
