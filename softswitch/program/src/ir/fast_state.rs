// SPDX-License-Identifier: Apache-2.0
//! The fast form of a parser state: it extracts whole headers and selects on unsigned fields.

use super::{Expr, Header, ParseState, ParserOp, Slot};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastExtract {
    pub offset: u32,
    pub bytes: u32,
    pub valid: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastState {
    pub extracts: Vec<FastExtract>,
    /// Field and padded width in bits; less than 64 bits together.
    pub key: Vec<(Slot, u8)>,
    /// Value, mask, next state.
    pub cases: Vec<(u64, u64, Option<u16>)>,
}

impl FastState {
    /// None if the state does more.
    pub fn new(state: &ParseState, headers: &[Header], metadata_bytes: usize) -> Option<Self> {
        if !state.set_cases.is_empty() || state.lookahead_bits > 0 || state.key_bits >= 64 {
            return None;
        }
        let extract = |op: &ParserOp| match op {
            ParserOp::Extract(header) => {
                let info = headers.get(usize::from(*header))?;
                (info.varbit.is_none() && info.union.is_none()).then_some(FastExtract {
                    offset: info.offset,
                    bytes: info.fixed_bytes,
                    valid: info.valid,
                })
            }
            _ => None,
        };
        let part = |part: &super::SelectPart| match part.value {
            Expr::Field(field) => {
                let padded = u8::try_from(part.width.div_ceil(8) * 8).ok()?;
                Some((Slot::new(field, metadata_bytes)?, padded))
            }
            _ => None,
        };
        let case = |case: &super::SelectCase| (case.value[0], case.mask[0], case.next);
        Some(Self {
            extracts: state.ops.iter().map(extract).collect::<Option<_>>()?,
            key: state.key.iter().map(part).collect::<Option<_>>()?,
            cases: state.cases.iter().map(case).collect(),
        })
    }
}
