// SPDX-License-Identifier: Apache-2.0
//! Evaluation of expressions.

use super::headers::varbit_equal;
use crate::ir::{AnyField, Code, Expr, Ir, Op, SHALLOW_STACK, STACK_DEPTH, WideField};
use crate::packet::Packet;
use crate::packet::phv::{byte, load, load_wide, load_wide_at, low_mask, sign_extend};
use crate::wide::Wide;

/// Everything that an expression can read.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub ir: &'a Ir,
    pub phv: &'a [u8],
    /// Arguments of the running action, in words.
    pub args: &'a [u64],
    /// For look-ahead, which reads from the parser's cursor on.
    pub packet: &'a Packet,
}

impl View<'_> {
    fn code(&self, code: Code) -> &[Op] {
        let start = code.start as usize;
        self.ir
            .ops
            .get(start..start + code.len as usize)
            .unwrap_or_default()
    }

    fn arg(&self, word: u16) -> u64 {
        self.args.get(usize::from(word)).copied().unwrap_or(0)
    }

    /// The value modulo 2^64 (exact if the loader proved that it fits), or the nearest u64 for a wide expression.
    #[inline(always)]
    pub(crate) fn eval(&self, expr: Expr) -> u64 {
        match expr {
            Expr::Const(value) => value,
            Expr::Field(field) => load(self.phv, field),
            Expr::Arg(word) => self.arg(word),
            Expr::Narrow(code) => self.run_narrow::<SHALLOW_STACK>(code),
            other => self.eval_wide_or_deep(other),
        }
    }

    #[inline(never)]
    fn eval_wide_or_deep(&self, expr: Expr) -> u64 {
        match expr {
            Expr::NarrowDeep(code) => self.run_narrow::<STACK_DEPTH>(code),
            Expr::Wide3(code) => self.run_wide::<3>(code).to_u64_saturating(),
            Expr::Wide33(code) => self.run_wide::<33>(code).to_u64_saturating(),
            other => self.eval(other),
        }
    }

    /// Low 64 bits of the value.
    #[inline(always)]
    pub(crate) fn eval_low(&self, expr: Expr) -> u64 {
        match expr {
            Expr::Const(value) => value,
            Expr::Field(field) => load(self.phv, field),
            Expr::Arg(word) => self.arg(word),
            Expr::Narrow(code) => self.run_narrow::<SHALLOW_STACK>(code),
            other => self.eval_low_wide(other),
        }
    }

    #[inline(never)]
    fn eval_low_wide(&self, expr: Expr) -> u64 {
        match expr {
            Expr::Wide3(code) => self.run_wide::<3>(code).low(),
            Expr::Wide33(code) => self.run_wide::<33>(code).low(),
            other => self.eval(other),
        }
    }

    #[inline(always)]
    pub(crate) fn is_true(&self, expr: Expr) -> bool {
        self.eval_low(expr) != 0
    }

    pub(crate) fn eval_wide<const N: usize>(&self, expr: Expr) -> Wide<N> {
        match expr {
            Expr::Wide3(code) => self.run_wide::<3>(code).resize(),
            Expr::Wide33(code) => self.run_wide::<33>(code).resize(),
            _ => Wide::from_u64(self.eval(expr)),
        }
    }

    fn element(&self, stack: u16, index: u64, field: AnyField) -> Option<AnyField> {
        let stack = self.ir.stacks.get(usize::from(stack))?;
        let index = u32::try_from(index)
            .ok()
            .filter(|i| *i < u32::from(stack.size))?;
        Some(field.moved(index * stack.stride))
    }

    fn element_valid(&self, stack: u16, index: u64) -> bool {
        let Some(stack) = self.ir.stacks.get(usize::from(stack)) else {
            return false;
        };
        let Some(index) = u16::try_from(index).ok().filter(|i| *i < stack.size) else {
            return false;
        };
        let header = self.ir.headers.get(usize::from(stack.header(index)));
        header.is_some_and(|h| byte(self.phv, h.valid) != 0)
    }

    fn last(&self, stack: u16, field: AnyField) -> Option<AnyField> {
        self.element(stack, self.last_index(stack).checked_sub(1)?, field)
    }

    /// Number of filled elements.
    fn last_index(&self, stack: u16) -> u64 {
        self.ir
            .stacks
            .get(usize::from(stack))
            .map_or(0, |s| u64::from(byte(self.phv, s.next_at)))
    }

    fn valid_union(&self, union: u16) -> bool {
        self.ir
            .unions
            .get(usize::from(union))
            .is_some_and(|members| {
                members.iter().any(|h| {
                    self.ir
                        .headers
                        .get(usize::from(*h))
                        .is_some_and(|h| byte(self.phv, h.valid) != 0)
                })
            })
    }

    fn load_any_low(&self, field: Option<AnyField>) -> u64 {
        match field {
            None => 0,
            Some(AnyField::Narrow(f)) => load(self.phv, f),
            Some(AnyField::Wide(f)) => load_wide::<3>(self.phv, low_part(f)).low(),
        }
    }

    #[inline(never)]
    fn run_narrow<const DEPTH: usize>(&self, code: Code) -> u64 {
        // The top of the stack stays in a register; the array holds the values below it.
        let mut top = 0_u64;
        let mut stack = [0_u64; DEPTH];
        let mut sp = 0_usize;
        macro_rules! push {
            ($value:expr) => {{
                stack[sp % DEPTH] = top;
                sp += 1;
                top = $value;
            }};
        }
        macro_rules! pop {
            () => {{
                let value = top;
                sp = sp.wrapping_sub(1);
                top = stack[sp % DEPTH];
                value
            }};
        }
        macro_rules! binary {
            (|$a:ident, $b:ident| $value:expr) => {{
                let $b = pop!();
                let $a = top;
                top = $value;
            }};
        }
        for op in self.code(code) {
            match *op {
                Op::Const(value) => push!(value),
                Op::Load(field) => push!(load(self.phv, field)),
                Op::LoadWide(field) => push!(self.load_any_low(Some(AnyField::Wide(field)))),
                Op::Arg(word) | Op::WideArg { word, .. } => push!(self.arg(word)),
                Op::WideConst(index) => {
                    push!(
                        self.ir
                            .wide_consts
                            .get(index as usize)
                            .and_then(|w| w.first())
                            .copied()
                            .unwrap_or(0)
                    );
                }
                Op::Lookahead { bit_offset, width } => {
                    push!(self.lookahead::<3>(bit_offset, width).low())
                }
                Op::LoadElement { stack: s, field } => {
                    top = self.load_any_low(self.element(s, top, field));
                }
                Op::ElementValid(s) => {
                    top = u64::from(self.element_valid(s, top));
                }
                Op::LoadLast { stack: s, field } => push!(self.load_any_low(self.last(s, field))),
                Op::LastIndex(s) => push!(self.last_index(s).wrapping_sub(1)),
                Op::ValidUnion(u) => push!(u64::from(self.valid_union(u))),
                Op::EqVarbit(a, b) => push!(u64::from(varbit_equal(self.ir, self.phv, a, b))),
                Op::Add => binary!(|a, b| a.wrapping_add(b)),
                Op::Sub => binary!(|a, b| a.wrapping_sub(b)),
                Op::Mul => binary!(|a, b| a.wrapping_mul(b)),
                Op::Div => binary!(|a, b| a.checked_div(b).unwrap_or(0)),
                Op::Rem => binary!(|a, b| a.checked_rem(b).unwrap_or(0)),
                Op::And => binary!(|a, b| a & b),
                Op::Or => binary!(|a, b| a | b),
                Op::Xor => binary!(|a, b| a ^ b),
                Op::BitNot => top = !top,
                Op::Shl => binary!(|a, b| if b < 64 { a << b } else { 0 }),
                Op::Shr => binary!(|a, b| if b < 64 { a >> b } else { 0 }),
                Op::Eq => binary!(|a, b| u64::from(a == b)),
                Op::Ne => binary!(|a, b| u64::from(a != b)),
                Op::Lt => binary!(|a, b| u64::from(a < b)),
                Op::Le => binary!(|a, b| u64::from(a <= b)),
                Op::Gt => binary!(|a, b| u64::from(a > b)),
                Op::Ge => binary!(|a, b| u64::from(a >= b)),
                Op::BoolAnd => binary!(|a, b| u64::from(a != 0 && b != 0)),
                Op::BoolOr => binary!(|a, b| u64::from(a != 0 || b != 0)),
                Op::BoolNot => top = u64::from(top == 0),
                Op::Select => {
                    let right = pop!();
                    let left = pop!();
                    top = if top != 0 { left } else { right };
                }
                Op::TwoCompMod(width) => top = sign_extend(top, width),
                Op::USatCast(width) => top = top.min(low_mask(width)),
                Op::SatCast(width) => top = top.min(low_mask(width) >> 1),
                Op::AndConst(mask) => top &= mask,
                Op::AddArg(word) => top = top.wrapping_add(self.arg(word)),
                Op::AndArg(word) => top &= self.arg(word),
                Op::AddConst(value) => top = top.wrapping_add(value),
                Op::ShlConst(by) => top = if by < 64 { top << by } else { 0 },
                Op::ShrConst(by) => top = if by < 64 { top >> by } else { 0 },
                Op::EqConst(value) => top = u64::from(top == value),
            }
        }
        top
    }

    fn lookahead<const N: usize>(&self, bit_offset: u32, width: u32) -> Wide<N> {
        // A copy, because a field window may reach beyond the packet; only programs that look ahead pay for it.
        let mut bytes = [0; 2048 / 8 + 24];
        let first = (bit_offset / 8) as usize;
        let count = (width as usize).div_ceil(8) + 1;
        for (to, from) in bytes
            .iter_mut()
            .zip(self.packet.payload().iter().skip(first).take(count))
        {
            *to = *from;
        }
        load_wide_at(&bytes, bit_offset % 8, width)
    }

    fn run_wide<const N: usize>(&self, code: Code) -> Wide<N> {
        let mut stack = [Wide::<N>::ZERO; STACK_DEPTH];
        let mut sp = 0_usize;
        macro_rules! push {
            ($value:expr) => {{
                let value: Wide<N> = $value;
                stack[sp % STACK_DEPTH] = value;
                sp += 1;
            }};
        }
        macro_rules! pop {
            () => {{
                sp = sp.wrapping_sub(1);
                stack[sp % STACK_DEPTH]
            }};
        }
        macro_rules! binary {
            (|$a:ident, $b:ident| $value:expr) => {{
                let $b = pop!();
                let $a = pop!();
                push!($value);
            }};
        }
        macro_rules! compare {
            ($test:ident) => {
                binary!(|a, b| Wide::from_u64(u64::from(a.compare(&b).$test())))
            };
        }
        for op in self.code(code) {
            match *op {
                Op::Const(value) => push!(Wide::from_u64(value)),
                Op::WideConst(index) => {
                    let words = self
                        .ir
                        .wide_consts
                        .get(index as usize)
                        .map_or(&[][..], Vec::as_slice);
                    push!(Wide::from_words(
                        words,
                        words.last().is_some_and(|w| w >> 63 == 1)
                    ));
                }
                Op::Load(field) => push!(self.load_any(Some(AnyField::Narrow(field)))),
                Op::LoadWide(field) => push!(load_wide(self.phv, field)),
                Op::Arg(word) => push!(Wide::from_u64(self.arg(word))),
                Op::WideArg { word, width } => {
                    let start = usize::from(word);
                    let words = self
                        .args
                        .get(start..start + (width as usize).div_ceil(64))
                        .unwrap_or_default();
                    push!(Wide::from_words(words, false));
                }
                Op::Lookahead { bit_offset, width } => push!(self.lookahead(bit_offset, width)),
                Op::LoadElement { stack: s, field } => {
                    let index = pop!().to_u64_saturating();
                    push!(self.load_any(self.element(s, index, field)));
                }
                Op::ElementValid(s) => {
                    let index = pop!().to_u64_saturating();
                    push!(Wide::from_u64(u64::from(self.element_valid(s, index))));
                }
                Op::LoadLast { stack: s, field } => push!(self.load_any(self.last(s, field))),
                Op::LastIndex(s) => {
                    push!(Wide::from_u64(self.last_index(s)).sub(&Wide::from_u64(1)))
                }
                Op::ValidUnion(u) => push!(Wide::from_u64(u64::from(self.valid_union(u)))),
                Op::EqVarbit(a, b) => {
                    push!(Wide::from_u64(u64::from(varbit_equal(
                        self.ir, self.phv, a, b
                    ))))
                }
                Op::Add => binary!(|a, b| a.add(&b)),
                Op::Sub => binary!(|a, b| a.sub(&b)),
                Op::Mul => binary!(|a, b| a.mul(&b)),
                Op::Div => binary!(|a, b| a.div_rem(&b).0),
                Op::Rem => binary!(|a, b| a.div_rem(&b).1),
                Op::And => binary!(|a, b| a.zip(&b, |x, y| x & y)),
                Op::Or => binary!(|a, b| a.zip(&b, |x, y| x | y)),
                Op::Xor => binary!(|a, b| a.zip(&b, |x, y| x ^ y)),
                Op::BitNot => push!(pop!().not()),
                Op::Shl => binary!(|a, b| a.shl(b.to_u64_saturating())),
                Op::Shr => binary!(|a, b| a.shr(b.to_u64_saturating())),
                Op::Eq => binary!(|a, b| Wide::from_u64(u64::from(a == b))),
                Op::Ne => binary!(|a, b| Wide::from_u64(u64::from(a != b))),
                Op::Lt => compare!(is_lt),
                Op::Le => compare!(is_le),
                Op::Gt => compare!(is_gt),
                Op::Ge => compare!(is_ge),
                Op::BoolAnd => {
                    binary!(|a, b| Wide::from_u64(u64::from(!a.is_zero() && !b.is_zero())))
                }
                Op::BoolOr => {
                    binary!(|a, b| Wide::from_u64(u64::from(!a.is_zero() || !b.is_zero())))
                }
                Op::BoolNot => push!(Wide::from_u64(u64::from(pop!().is_zero()))),
                Op::Select => {
                    let right = pop!();
                    let left = pop!();
                    let condition = pop!();
                    push!(if condition.is_zero() { right } else { left });
                }
                Op::TwoCompMod(width) => push!(pop!().two_comp_mod(width)),
                Op::USatCast(width) => push!(pop!().usat_cast(width)),
                Op::SatCast(width) => push!(pop!().sat_cast(width)),
                Op::AndConst(mask) => push!(Wide::from_u64(pop!().low() & mask)),
                Op::AddArg(word) => push!(pop!().add(&Wide::from_u64(self.arg(word)))),
                Op::AndArg(word) => push!(Wide::from_u64(pop!().low() & self.arg(word))),
                Op::AddConst(value) => push!(pop!().add(&Wide::from_u64(value))),
                Op::ShlConst(by) => push!(pop!().shl(u64::from(by))),
                Op::ShrConst(by) => push!(pop!().shr(u64::from(by))),
                Op::EqConst(value) => {
                    push!(Wide::from_u64(u64::from(pop!() == Wide::from_u64(value))))
                }
            }
        }
        pop!()
    }

    fn load_any<const N: usize>(&self, field: Option<AnyField>) -> Wide<N> {
        match field {
            None => Wide::ZERO,
            Some(AnyField::Wide(f)) => load_wide(self.phv, f),
            Some(AnyField::Narrow(f)) => {
                let value = load(self.phv, f);
                Wide::from_words(&[value], f.signed && value >> 63 == 1)
            }
        }
    }
}

/// The low 64 bits of a wide field.
fn low_part(f: WideField) -> WideField {
    if f.width <= 64 {
        return f;
    }
    WideField {
        bit_offset: f.bit_offset + f.width - 64,
        width: 64,
        signed: false,
    }
}

#[cfg(test)]
#[path = "expr_tests.rs"]
mod tests;
