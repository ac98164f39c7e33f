// SPDX-License-Identifier: Apache-2.0
//! Bounds of an expression's value, and the bits that its arithmetic needs.

use super::expr::Ast;
use crate::ir::{AnyField, Op};
use crate::phv::low_mask;
use crate::wide::Wide;

/// Bits that mean "no useful bound".
const UNBOUNDED: u32 = 1 << 24;

/// A value lies in `[0, 2^bits)`, or in `[-2^bits, 2^bits)` when `signed`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub signed: bool,
    pub bits: u32,
}

pub(super) fn unsigned(bits: u32) -> Bound {
    Bound {
        signed: false,
        bits,
    }
}

pub(super) fn const_bits(value: &Wide<33>) -> u32 {
    let magnitude = if value.is_negative() {
        value.not()
    } else {
        *value
    };
    let top = (0_u32..).zip(&magnitude.0).filter(|(_, w)| **w != 0).last();
    top.map_or(0, |(i, w)| i * 64 + 64 - w.leading_zeros())
}

fn field_bound(field: AnyField) -> Bound {
    let (width, signed) = match field {
        AnyField::Narrow(f) => (u32::from(f.width), f.signed),
        AnyField::Wide(f) => (f.width, f.signed),
    };
    Bound {
        signed,
        bits: if signed { width - 1 } else { width },
    }
}

pub(super) fn bound(ast: &Ast) -> Bound {
    match ast {
        Ast::Const(value) => Bound {
            signed: value.is_negative(),
            bits: const_bits(value),
        },
        Ast::Field(f) | Ast::Element { field: f, .. } | Ast::Last { field: f, .. } => {
            field_bound(*f)
        }
        Ast::Arg { width, .. } | Ast::Lookahead { width, .. } => unsigned(*width),
        Ast::ElementValid { .. } | Ast::ValidUnion(_) | Ast::VarbitEqual(..) => unsigned(1),
        // -1 for an empty stack.
        Ast::LastIndex(_) => Bound {
            signed: true,
            bits: 8,
        },
        Ast::Unary(op, a) => {
            let inner = bound(a);
            match op {
                Op::BitNot => Bound {
                    signed: true,
                    bits: inner.bits,
                },
                Op::TwoCompMod(width) | Op::SatCast(width) => Bound {
                    signed: true,
                    bits: width - 1,
                },
                Op::USatCast(width) => unsigned(*width),
                _ => unsigned(1),
            }
        }
        Ast::Select(_, a, b) => {
            let (a, b) = (bound(a), bound(b));
            Bound {
                signed: a.signed || b.signed,
                bits: a.bits.max(b.bits),
            }
        }
        Ast::Binary(op, a, b) => {
            let (x, y) = (bound(a), bound(b));
            let signed = x.signed || y.signed;
            let most = x.bits.max(y.bits);
            match op {
                Op::Add => Bound {
                    signed,
                    bits: (most + 1).min(UNBOUNDED),
                },
                Op::Sub => Bound {
                    signed: true,
                    bits: (most + 1).min(UNBOUNDED),
                },
                Op::Mul => Bound {
                    signed,
                    bits: (x.bits + y.bits).min(UNBOUNDED),
                },
                Op::Div => Bound {
                    signed,
                    bits: x.bits + u32::from(signed),
                },
                Op::Rem => Bound {
                    signed,
                    bits: if signed { most } else { y.bits },
                },
                Op::And => match (x.signed, y.signed) {
                    (false, false) => unsigned(x.bits.min(y.bits)),
                    (false, true) => unsigned(x.bits),
                    (true, false) => unsigned(y.bits),
                    (true, true) => Bound { signed, bits: most },
                },
                Op::Or | Op::Xor => Bound { signed, bits: most },
                Op::Shl => match &**b {
                    Ast::Const(n) if !n.is_negative() => {
                        let by = u32::try_from(n.to_u64_saturating())
                            .unwrap_or(UNBOUNDED)
                            .min(UNBOUNDED);
                        Bound {
                            signed: x.signed,
                            bits: (x.bits + by).min(UNBOUNDED),
                        }
                    }
                    _ => Bound {
                        signed: x.signed,
                        bits: UNBOUNDED,
                    },
                },
                Op::Shr => match &**b {
                    Ast::Const(n) => {
                        let by = u32::try_from(n.to_u64_saturating()).unwrap_or(UNBOUNDED);
                        Bound {
                            signed: x.signed,
                            bits: x.bits.saturating_sub(by),
                        }
                    }
                    _ => x,
                },
                _ => unsigned(1),
            }
        }
    }
}

fn const_mask(ast: &Ast) -> Option<u32> {
    match ast {
        Ast::Const(value) if !value.is_negative() => Some(const_bits(value)),
        _ => None,
    }
}

/// Whether masking a value within `bound` changes nothing.
pub(super) fn keeps_all(mask: &Wide<33>, bound: Bound) -> bool {
    !bound.signed
        && (bound.bits == 0
            || bound.bits <= 64 && mask.low() & low_mask(bound.bits) == low_mask(bound.bits))
}

pub(super) fn const_shift(ast: &Ast) -> Option<u32> {
    match ast {
        Ast::Const(by) if !by.is_negative() => u32::try_from(by.to_u64_saturating()).ok(),
        _ => None,
    }
}

/// Bits of two's complement that the arithmetic needs. With a `demand`, only so many low bits of the value matter.
pub(super) fn need(ast: &Ast, demand: Option<u32>) -> u32 {
    let own = bound(ast).bits.saturating_add(1);
    let here = demand.map_or(own, |d| d.min(own));
    // Of the operands of ring operations only those bits matter that matter in the result.
    let low = Some(demand.unwrap_or(own));
    let below = match ast {
        Ast::Unary(op, a) => match op {
            Op::BitNot => need(a, low),
            Op::TwoCompMod(width) => need(a, Some(*width)).max(width + 1),
            _ => need(a, None),
        },
        Ast::Select(c, a, b) => need(c, None).max(need(a, demand)).max(need(b, demand)),
        Ast::Element { index, .. } | Ast::ElementValid { index, .. } => need(index, None),
        Ast::Binary(op, a, b) => match op {
            Op::And => {
                let mask = const_mask(a)
                    .into_iter()
                    .chain(const_mask(b))
                    .chain(low)
                    .min();
                need(a, mask).max(need(b, mask))
            }
            Op::Add | Op::Sub | Op::Mul | Op::Or | Op::Xor => need(a, low).max(need(b, low)),
            Op::Shl => need(a, low).max(need(b, None)),
            _ => need(a, None).max(need(b, None)),
        },
        Ast::Const(_)
        | Ast::Field(_)
        | Ast::Arg { .. }
        | Ast::Lookahead { .. }
        | Ast::Last { .. }
        | Ast::LastIndex(_)
        | Ast::ValidUnion(_)
        | Ast::VarbitEqual(..) => 0,
    };
    here.max(below)
}

/// Bits of look-ahead that must be in the packet before this is evaluated.
pub(super) fn lookahead_bits(ast: &Ast) -> u32 {
    match ast {
        Ast::Lookahead { bit_offset, width } => bit_offset + width,
        Ast::Unary(_, a) | Ast::Element { index: a, .. } | Ast::ElementValid { index: a, .. } => {
            lookahead_bits(a)
        }
        Ast::Binary(_, a, b) => lookahead_bits(a).max(lookahead_bits(b)),
        Ast::Select(a, b, c) => lookahead_bits(a)
            .max(lookahead_bits(b))
            .max(lookahead_bits(c)),
        Ast::Const(_)
        | Ast::Field(_)
        | Ast::Arg { .. }
        | Ast::Last { .. }
        | Ast::LastIndex(_)
        | Ast::ValidUnion(_)
        | Ast::VarbitEqual(..) => 0,
    }
}
