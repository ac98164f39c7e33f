// SPDX-License-Identifier: Apache-2.0
//! Calculations: the algorithm of a checksum or hash, and its input.

use super::WideField;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algo {
    Csum16,
    Crc16,
    Crc16Ccitt,
    /// A CRC of 16 bits whose parameters the control plane may change.
    Crc16Custom,
    Crc32,
    /// A CRC of 32 bits whose parameters the control plane may change.
    Crc32Custom,
    Identity,
    /// A new number for each packet, from the switch's generator.
    Random,
    Xor16,
}

impl Algo {
    /// Whether the control plane may change its parameters.
    pub fn is_custom(self) -> bool {
        matches!(self, Self::Crc16Custom | Self::Crc32Custom)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CalcInput {
    /// Skipped when the header (by its validity byte) is not valid.
    Field {
        field: WideField,
        valid: Option<u32>,
    },
    /// Right-aligned in `ceil(width / 8)` bytes, then `PHV_PADDING` bytes of zeros.
    Const {
        bytes: Vec<u8>,
        width: u32,
    },
    Header(u16),
    /// A varbit field of a header.
    Varbit(u16),
}

/// Bytes that a calculation over pieces reads at most.
pub const CALC_PIECES_BYTES: usize = 128;

/// Whole bytes at a fixed offset of the PHV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalcPiece {
    pub offset: u32,
    /// 1 to 8.
    pub bytes: u8,
    /// Skipped when the header (by its validity byte) is not valid.
    pub valid: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calculation {
    pub algo: Algo,
    pub inputs: Vec<CalcInput>,
    pub payload: bool,
    /// The same inputs, if all are whole bytes at fixed offsets and not too many.
    pub pieces: Option<Vec<CalcPiece>>,
}

impl Calculation {
    pub fn new(algo: Algo, inputs: Vec<CalcInput>, payload: bool) -> Self {
        // Pieces are for algorithms that depend on the bytes only, not on parameters.
        let general = payload || algo.is_custom();
        let pieces = if general { None } else { pieces(&inputs) };
        Self {
            algo,
            inputs,
            payload,
            pieces,
        }
    }
}

/// Joins adjacent fields to runs of whole bytes, and cuts the runs into pieces.
fn pieces(inputs: &[CalcInput]) -> Option<Vec<CalcPiece>> {
    let mut runs: Vec<(u32, u32, Option<u32>)> = Vec::new();
    for input in inputs {
        let CalcInput::Field { field, valid } = input else {
            return None;
        };
        match runs.last_mut() {
            Some((start, width, same)) if *start + *width == field.bit_offset && same == valid => {
                *width += field.width;
            }
            _ => runs.push((field.bit_offset, field.width, *valid)),
        }
    }
    let mut out = Vec::new();
    for (start, width, valid) in runs {
        if !start.is_multiple_of(8) || !width.is_multiple_of(8) {
            return None;
        }
        let (mut offset, end) = (start / 8, (start + width) / 8);
        while offset < end {
            let bytes = u8::try_from((end - offset).min(8)).unwrap_or(8);
            out.push(CalcPiece {
                offset,
                bytes,
                valid,
            });
            offset += u32::from(bytes);
        }
    }
    let total: usize = out.iter().map(|p| usize::from(p.bytes)).sum();
    (total <= CALC_PIECES_BYTES).then_some(out)
}
