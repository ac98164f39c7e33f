// SPDX-License-Identifier: Apache-2.0
//! Calculations over fields: checksums and hashes.

use super::expr::View;
use crate::hash;
use crate::ir::{
    Algo, AnyField, CALC_PIECES_BYTES, CalcInput, CalcPiece, Calculation, Checksum, Ir,
};
use crate::packet::Packet;
use crate::packet::phv::{byte, load_bits, load_u32, load_wide_at, store, store_wide};
use crate::state::Externs;
use crate::wide::Wide;

/// The calculation's value over the packet's current fields.
pub(crate) fn compute(ir: &Ir, externs: &mut Externs, packet: &Packet, calculation: u16) -> u64 {
    let number = usize::from(calculation);
    let Some(calculation) = ir.calculations.get(number) else {
        return 0;
    };
    if calculation.algo == Algo::Random {
        return externs.random.next();
    }
    if let Some(pieces) = &calculation.pieces {
        return compute_pieces(&packet.phv, calculation.algo, pieces);
    }
    compute_any(ir, externs, packet, number, calculation)
}

/// The calculation's value over inputs of any kind.
#[inline(never)]
fn compute_any(
    ir: &Ir,
    externs: &mut Externs,
    packet: &Packet,
    number: usize,
    calculation: &Calculation,
) -> u64 {
    let mut buffer = std::mem::take(&mut externs.scratch);
    buffer.clear();
    gather(ir, packet, calculation, &mut buffer);
    let custom = externs.custom_crcs.get(number).and_then(Option::as_ref);
    let value = match custom {
        Some(crc) => crc.checksum(&buffer),
        None => hash::compute(calculation.algo, &buffer),
    };
    externs.scratch = buffer;
    value
}

/// The calculation's value if all inputs are whole bytes at fixed offsets.
fn compute_pieces(phv: &[u8], algo: Algo, pieces: &[CalcPiece]) -> u64 {
    // Eight more than the longest input, because each piece is written as eight bytes.
    let mut buffer = [0_u8; hash::LEAD_BYTES + CALC_PIECES_BYTES + 8];
    let mut end = hash::LEAD_BYTES;
    for piece in pieces {
        if piece.valid.is_some_and(|valid| byte(phv, valid) == 0) {
            continue;
        }
        let from = piece.offset as usize;
        if let (Some(to), Some(from)) = (buffer.get_mut(end..end + 8), phv.get(from..from + 8)) {
            to.copy_from_slice(from);
        }
        end += usize::from(piece.bytes);
    }
    hash::compute_after_lead(algo, buffer.get_mut(..end).unwrap_or_default())
}

/// Concatenates the inputs bit by bit, pads the last byte with zeros on the right.
fn gather(ir: &Ir, packet: &Packet, calculation: &Calculation, out: &mut Vec<u8>) {
    let phv = &packet.phv;
    let mut bits = BitWriter { out, used: 8 };
    for input in &calculation.inputs {
        match input {
            CalcInput::Field { field, valid } => {
                if valid.is_none_or(|v| byte(phv, v) != 0) {
                    bits.append(phv, field.bit_offset, field.width);
                }
            }
            CalcInput::Const { bytes, width } => {
                bits.append(bytes, width.div_ceil(8) * 8 - width, *width);
            }
            CalcInput::Header(header) => {
                if let Some(info) = ir.headers.get(usize::from(*header))
                    && byte(phv, info.valid) != 0
                {
                    let prefix = info.varbit.map_or(info.fixed_bytes, |v| v.prefix_bytes);
                    bits.append(phv, info.offset * 8, prefix * 8);
                    if let Some(varbit) = info.varbit {
                        let length = load_u32(phv, varbit.length_at).min(varbit.max_bytes);
                        bits.append(phv, (info.offset + prefix) * 8, length * 8);
                        let after = info.fixed_bytes.saturating_sub(prefix);
                        bits.append(
                            phv,
                            (info.offset + prefix + varbit.max_bytes) * 8,
                            after * 8,
                        );
                    }
                }
            }
            CalcInput::Varbit(header) => {
                if let Some(info) = ir.headers.get(usize::from(*header))
                    && byte(phv, info.valid) != 0
                    && let Some(varbit) = info.varbit
                {
                    let length = load_u32(phv, varbit.length_at).min(varbit.max_bytes);
                    bits.append(phv, (info.offset + varbit.prefix_bytes) * 8, length * 8);
                }
            }
        }
    }
    if calculation.payload {
        out.extend_from_slice(packet.payload());
    }
}

struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Bits used in the last byte.
    used: u32,
}

impl BitWriter<'_> {
    fn append(&mut self, bytes: &[u8], mut bit: u32, mut width: u32) {
        if self.used == 8 && bit.is_multiple_of(8) && width.is_multiple_of(8) {
            let (start, end) = ((bit / 8) as usize, ((bit + width) / 8) as usize);
            self.out
                .extend_from_slice(bytes.get(start..end).unwrap_or_default());
            return;
        }
        while width > 0 {
            if self.used == 8 {
                self.out.push(0);
                self.used = 0;
            }
            let take = (8 - self.used).min(width);
            let value = load_wide_at::<3>(bytes, bit, take).low() << (8 - self.used - take);
            if let Some(last) = self.out.last_mut() {
                *last |= u8::try_from(value & 0xff).unwrap_or(0);
            }
            self.used += take;
            bit += take;
            width -= take;
        }
    }
}

/// Whether the header of a checksum's field is valid.
pub(super) fn has_target(packet: &Packet, checksum: &Checksum) -> bool {
    let valid = checksum.target_valid;
    valid.is_none_or(|valid| byte(&packet.phv, valid) != 0)
}

/// Whether a checksum's condition is true, if it has one.
pub(super) fn condition_holds(ir: &Ir, packet: &Packet, checksum: &Checksum) -> bool {
    checksum.condition.is_none_or(|condition| {
        View {
            ir,
            phv: &packet.phv,
            args: &[],
            packet,
        }
        .is_true(condition)
    })
}

fn applies(ir: &Ir, packet: &Packet, checksum: &Checksum) -> bool {
    has_target(packet, checksum) && condition_holds(ir, packet, checksum)
}

/// The 64 low bits of a checksum's field.
pub(super) fn in_packet(packet: &Packet, checksum: &Checksum) -> u64 {
    match checksum.target {
        AnyField::Narrow(f) => load_bits(&packet.phv, f),
        AnyField::Wide(f) => load_wide_at::<3>(&packet.phv, f.bit_offset, f.width).low(),
    }
}

/// Whether the checksum is correct or does not apply.
pub(crate) fn verify(ir: &Ir, externs: &mut Externs, packet: &Packet, checksum: &Checksum) -> bool {
    if !applies(ir, packet, checksum) {
        return true;
    }
    let value = compute(ir, externs, packet, checksum.calculation);
    has_value(packet, checksum, value)
}

/// Whether a checksum's field has the value of its calculation.
pub(super) fn has_value(packet: &Packet, checksum: &Checksum, value: u64) -> bool {
    match checksum.target {
        AnyField::Narrow(f) => {
            load_bits(&packet.phv, f) == value & crate::packet::phv::low_mask(u32::from(f.width))
        }
        AnyField::Wide(f) => {
            load_wide_at::<3>(&packet.phv, f.bit_offset, f.width) == Wide::from_u64(value)
        }
    }
}

/// Writes the checksum, if it applies.
pub(crate) fn update(ir: &Ir, externs: &mut Externs, packet: &mut Packet, checksum: &Checksum) {
    if !applies(ir, packet, checksum) {
        return;
    }
    let value = compute(ir, externs, packet, checksum.calculation);
    match checksum.target {
        AnyField::Narrow(f) => store(&mut packet.phv, f, value),
        AnyField::Wide(f) => store_wide(&mut packet.phv, f, &Wide::<3>::from_u64(value)),
    }
}
