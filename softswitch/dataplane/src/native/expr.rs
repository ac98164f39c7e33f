// SPDX-License-Identifier: Apache-2.0
//! Expressions of 64 bits; all others are left to the interpreter.

use super::Refused;
use super::code::Code;
use crate::ir::{AnyField, Code as Postfix, Expr, Field, Op, WideField};
use crate::packet::phv::low_mask;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;

/// An action's arguments: their address, and the number of words.
#[derive(Clone, Copy)]
pub(super) struct Args {
    pub at: Variable,
    pub words: u16,
}

impl Code<'_, '_> {
    /// The first word of an argument; zero if there is none, as in the interpreter.
    pub(super) fn arg(&mut self, args: Option<Args>, word: u16) -> Value {
        match args {
            Some(args) if word < args.words => {
                let at = self.b.use_var(args.at);
                self.argument(at, word)
            }
            _ => self.number(0),
        }
    }

    /// The expression's low 64 bits.
    ///
    /// # Errors
    /// `Refused` if it needs more than 64 bits or reads stacks or the packet; the instructions written so far are
    /// unused.
    pub(super) fn eval(&mut self, expr: Expr, args: Option<Args>) -> Result<Value, Refused> {
        match expr {
            Expr::Const(value) => Ok(self.number(value)),
            Expr::Field(field) => self.field(field),
            Expr::Arg(word) => Ok(self.arg(args, word)),
            Expr::Narrow(code) | Expr::NarrowDeep(code) => self.postfix(code, args),
            Expr::Wide3(_) | Expr::Wide33(_) => Err(Refused),
        }
    }

    fn postfix(&mut self, code: Postfix, args: Option<Args>) -> Result<Value, Refused> {
        let ir = self.ir;
        let start = code.start as usize;
        let ops = ir.ops.get(start..start + code.len as usize);
        let mut stack = Vec::new();
        for op in ops.ok_or(Refused)? {
            self.check_size()?;
            let value = self.op(*op, args, &mut stack)?;
            stack.push(value);
        }
        stack.pop().ok_or(Refused)
    }

    /// Pops the operands of an operation; the value that it pushes.
    fn op(&mut self, op: Op, args: Option<Args>, stack: &mut Vec<Value>) -> Result<Value, Refused> {
        let ir = self.ir;
        let mut pop = || stack.pop().ok_or(Refused);
        let value = match op {
            Op::Const(value) => self.number(value),
            Op::WideConst(index) => {
                let words = ir.wide_consts.get(index as usize);
                let low = words.and_then(|words| words.first()).copied();
                self.number(low.unwrap_or(0))
            }
            Op::Load(field) => self.field(field)?,
            Op::LoadWide(field) => self.low_bits(field)?,
            Op::Arg(word) | Op::WideArg { word, .. } => self.arg(args, word),
            Op::LastIndex(stack) => {
                let stack = ir.stacks.get(usize::from(stack)).ok_or(Refused)?;
                let filled = self.byte(stack.next_at)?;
                self.b.ins().iadd_imm(filled, -1)
            }
            Op::Lookahead { .. }
            | Op::LoadElement { .. }
            | Op::ElementValid(_)
            | Op::LoadLast { .. }
            | Op::ValidUnion(_)
            | Op::EqVarbit(..) => return Err(Refused),
            Op::BitNot => {
                let value = pop()?;
                self.b.ins().bnot(value)
            }
            Op::BoolNot => {
                let value = pop()?;
                let zero = self.number(0);
                self.compare(IntCC::Equal, value, zero)
            }
            Op::Select => {
                let (right, left, condition) = (pop()?, pop()?, pop()?);
                self.b.ins().select(condition, left, right)
            }
            Op::TwoCompMod(width) => {
                let value = pop()?;
                self.sign_extend(value, width)
            }
            Op::USatCast(width) => {
                let (value, most) = (pop()?, self.number(low_mask(width)));
                self.b.ins().umin(value, most)
            }
            Op::SatCast(width) => {
                let (value, most) = (pop()?, self.number(low_mask(width) >> 1));
                self.b.ins().umin(value, most)
            }
            Op::AndConst(mask) => {
                let value = pop()?;
                self.b.ins().band_imm(value, mask.cast_signed())
            }
            Op::AddConst(add) => {
                let value = pop()?;
                self.b.ins().iadd_imm(value, add.cast_signed())
            }
            Op::AddArg(word) => {
                let (value, arg) = (pop()?, self.arg(args, word));
                self.b.ins().iadd(value, arg)
            }
            Op::AndArg(word) => {
                let (value, arg) = (pop()?, self.arg(args, word));
                self.b.ins().band(value, arg)
            }
            Op::ShlConst(by @ 0..64) => {
                let value = pop()?;
                self.b.ins().ishl_imm(value, i64::from(by))
            }
            Op::ShrConst(by @ 0..64) => {
                let value = pop()?;
                self.b.ins().ushr_imm(value, i64::from(by))
            }
            Op::ShlConst(_) | Op::ShrConst(_) => {
                pop()?;
                self.number(0)
            }
            Op::EqConst(with) => {
                let (value, with) = (pop()?, self.number(with));
                self.compare(IntCC::Equal, value, with)
            }
            binary => {
                let (right, left) = (pop()?, pop()?);
                self.binary(binary, left, right)?
            }
        };
        Ok(value)
    }

    fn binary(&mut self, op: Op, a: Value, b: Value) -> Result<Value, Refused> {
        let compare = match op {
            Op::Eq => Some(IntCC::Equal),
            Op::Ne => Some(IntCC::NotEqual),
            Op::Lt => Some(IntCC::UnsignedLessThan),
            Op::Le => Some(IntCC::UnsignedLessThanOrEqual),
            Op::Gt => Some(IntCC::UnsignedGreaterThan),
            Op::Ge => Some(IntCC::UnsignedGreaterThanOrEqual),
            _ => None,
        };
        if let Some(code) = compare {
            return Ok(self.compare(code, a, b));
        }
        Ok(match op {
            Op::Add => self.b.ins().iadd(a, b),
            Op::Sub => self.b.ins().isub(a, b),
            Op::Mul => self.b.ins().imul(a, b),
            Op::And => self.b.ins().band(a, b),
            Op::Or => self.b.ins().bor(a, b),
            Op::Xor => self.b.ins().bxor(a, b),
            Op::Div | Op::Rem => {
                // Division by zero gives zero; the processor would trap.
                let (zero, one) = (self.number(0), self.number(1));
                let divisor = self.b.ins().select(b, b, one);
                let result = match op {
                    Op::Div => self.b.ins().udiv(a, divisor),
                    _ => self.b.ins().urem(a, divisor),
                };
                self.b.ins().select(b, result, zero)
            }
            Op::Shl | Op::Shr => {
                // The processor shifts by the distance modulo 64.
                let (zero, width) = (self.number(0), self.number(64));
                let short = self.b.ins().icmp(IntCC::UnsignedLessThan, b, width);
                let result = match op {
                    Op::Shl => self.b.ins().ishl(a, b),
                    _ => self.b.ins().ushr(a, b),
                };
                self.b.ins().select(short, result, zero)
            }
            Op::BoolAnd | Op::BoolOr => {
                let zero = self.number(0);
                let left = self.compare(IntCC::NotEqual, a, zero);
                let right = self.compare(IntCC::NotEqual, b, zero);
                match op {
                    Op::BoolAnd => self.b.ins().band(left, right),
                    _ => self.b.ins().bor(left, right),
                }
            }
            _ => return Err(Refused),
        })
    }

    /// The low 64 bits of a wide field that ends with a byte.
    fn low_bits(&mut self, field: WideField) -> Result<Value, Refused> {
        let end = field.bit_offset + field.width;
        if field.width < 64 || !end.is_multiple_of(8) {
            return Err(Refused);
        }
        self.last_bits(end / 8 - 8, 64)
    }

    /// The words of a key part, least significant first.
    pub(super) fn key_words(&mut self, field: AnyField) -> Result<Vec<Value>, Refused> {
        match field {
            AnyField::Narrow(field) => {
                let unsigned = Field {
                    signed: false,
                    ..field
                };
                Ok(vec![self.field(unsigned)?])
            }
            AnyField::Wide(field) => {
                let end = field.bit_offset + field.width;
                if !end.is_multiple_of(8) {
                    return Err(Refused);
                }
                let mut words = Vec::new();
                let mut done = 0;
                while done < field.width {
                    let take = (field.width - done).min(64);
                    let last = (end - done) / 8;
                    // The window of 8 bytes that ends with the part.
                    let offset = last.checked_sub(8).ok_or(Refused)?;
                    words.push(self.last_bits(offset, take)?);
                    done += take;
                }
                Ok(words)
            }
        }
    }
}
