// SPDX-License-Identifier: Apache-2.0
//! Compiles expression trees to postfix code, in the cheapest arithmetic that is exact.

use super::bound::{bound, const_bits, const_shift, keeps_all, need, unsigned};
use super::expr::Ast;
use super::{Result, unsupported};
use crate::ir::{AnyField, Code, Expr, Ir, Op, SHALLOW_STACK, STACK_DEPTH};
use crate::phv::low_mask;
use crate::wide::Wide;

/// Postfix code under construction, with the height of the stack.
#[derive(Default)]
struct Emitter {
    ops: Vec<Op>,
    consts: Vec<Vec<u64>>,
    height: usize,
    highest: usize,
}

impl Emitter {
    fn push(&mut self, op: Op) {
        self.ops.push(op);
        self.height += 1;
        self.highest = self.highest.max(self.height);
    }

    /// Emits an operation that pops `taken` values and pushes one.
    fn reduce(&mut self, op: Op, taken: usize) {
        self.ops.push(op);
        self.height = (self.height + 1).saturating_sub(taken);
    }

    /// Emits narrow code: for the value itself if `exact`, else for its low 64 bits. None: it does not fit.
    fn narrow(&mut self, ast: &Ast, exact: bool) -> Option<()> {
        let b = bound(ast);
        if exact && (b.signed || b.bits > 64) {
            return None;
        }
        match ast {
            Ast::Const(value) => self.push(Op::Const(value.low())),
            Ast::Field(AnyField::Narrow(f)) => self.push(Op::Load(*f)),
            Ast::Field(AnyField::Wide(f)) => self.push(Op::LoadWide(*f)),
            Ast::Arg { word, .. } => self.push(Op::Arg(*word)),
            Ast::Lookahead { bit_offset, width } => {
                // Narrow code reads at most 64 bits; of a wider value these are the last 64.
                let width = *width;
                let (skip, width) = (width.saturating_sub(64), width.min(64));
                self.push(Op::Lookahead {
                    bit_offset: bit_offset + skip,
                    width,
                });
            }
            Ast::Element {
                stack,
                index,
                field,
            } => {
                self.narrow(index, true)?;
                self.reduce(
                    Op::LoadElement {
                        stack: *stack,
                        field: *field,
                    },
                    1,
                );
            }
            Ast::ElementValid { stack, index } => {
                self.narrow(index, true)?;
                self.reduce(Op::ElementValid(*stack), 1);
            }
            Ast::Last { stack, field } => self.push(Op::LoadLast {
                stack: *stack,
                field: *field,
            }),
            Ast::LastIndex(stack) => self.push(Op::LastIndex(*stack)),
            Ast::ValidUnion(union) => self.push(Op::ValidUnion(*union)),
            Ast::VarbitEqual(a, b) => self.push(Op::EqVarbit(*a, *b)),
            Ast::Unary(op, a) => {
                let (op, inner_exact) = match op {
                    Op::TwoCompMod(width) if *width <= 64 => (*op, false),
                    Op::BitNot => (Op::BitNot, false),
                    Op::TwoCompMod(_) => return None,
                    other => (*other, true),
                };
                self.narrow(a, inner_exact)?;
                match op {
                    // Beyond 64 bits an exact 64-bit value cannot saturate.
                    Op::USatCast(width) if width >= 64 => {}
                    Op::SatCast(width) if width > 64 => {}
                    op => self.reduce(op, 1),
                }
            }
            Ast::Select(c, a, b) => {
                self.narrow(c, true)?;
                self.narrow(a, exact)?;
                self.narrow(b, exact)?;
                self.reduce(Op::Select, 3);
            }
            Ast::Binary(op, a, b) => match op {
                Op::Add | Op::Sub | Op::Mul | Op::Or | Op::Xor => {
                    let leaf = matches!(**a, Ast::Const(_) | Ast::Arg { .. });
                    let (a, b) = if *op == Op::Add && leaf {
                        (b, a)
                    } else {
                        (a, b)
                    };
                    self.narrow(a, false)?;
                    match (op, &**b) {
                        (Op::Add, Ast::Arg { word, .. }) => self.reduce(Op::AddArg(*word), 1),
                        (Op::Add, Ast::Const(value)) => {
                            self.reduce(Op::AddConst(value.low()), 1);
                        }
                        (Op::Sub, Ast::Const(value)) => {
                            self.reduce(Op::AddConst(value.low().wrapping_neg()), 1);
                        }
                        _ => {
                            self.narrow(b, false)?;
                            self.reduce(*op, 2);
                        }
                    }
                }
                Op::And => {
                    let (a, b) = if matches!(**a, Ast::Const(_) | Ast::Arg { .. }) {
                        (b, a)
                    } else {
                        (a, b)
                    };
                    self.narrow(a, false)?;
                    if let Ast::Arg { word, .. } = &**b {
                        self.reduce(Op::AndArg(*word), 1);
                    } else if let Ast::Const(mask) = &**b {
                        if !keeps_all(mask, bound(a)) {
                            self.reduce(Op::AndConst(mask.low()), 1);
                        }
                    } else {
                        self.narrow(b, false)?;
                        self.reduce(Op::And, 2);
                    }
                }
                Op::Shl | Op::Shr => {
                    let left = *op == Op::Shl;
                    self.narrow(a, !left)?;
                    if let Some(by) = const_shift(b) {
                        let shift = if left { Op::ShlConst } else { Op::ShrConst };
                        self.reduce(shift(by), 1);
                    } else {
                        self.narrow(b, true)?;
                        self.reduce(*op, 2);
                    }
                }
                Op::Eq => {
                    self.narrow(a, true)?;
                    match &**b {
                        Ast::Const(value) if !value.is_negative() && const_bits(value) <= 64 => {
                            self.reduce(Op::EqConst(value.low()), 1);
                        }
                        _ => {
                            self.narrow(b, true)?;
                            self.reduce(Op::Eq, 2);
                        }
                    }
                }
                other => {
                    self.narrow(a, true)?;
                    self.narrow(b, true)?;
                    self.reduce(*other, 2);
                }
            },
        }
        Some(())
    }

    fn wide(&mut self, ast: &Ast, first_const: u32) {
        match ast {
            Ast::Const(value) => {
                if value.is_negative() || const_bits(value) > 64 {
                    let words = (const_bits(value) as usize / 64) + 1;
                    self.consts
                        .push(value.0.iter().copied().take(words).collect());
                    let index = first_const + u32::try_from(self.consts.len() - 1).unwrap_or(0);
                    self.push(Op::WideConst(index));
                } else {
                    self.push(Op::Const(value.low()));
                }
            }
            Ast::Field(AnyField::Narrow(f)) => self.push(Op::Load(*f)),
            Ast::Field(AnyField::Wide(f)) => self.push(Op::LoadWide(*f)),
            Ast::Arg { word, width } if *width > 64 => self.push(Op::WideArg {
                word: *word,
                width: *width,
            }),
            Ast::Arg { word, .. } => self.push(Op::Arg(*word)),
            Ast::Lookahead { bit_offset, width } => {
                self.push(Op::Lookahead {
                    bit_offset: *bit_offset,
                    width: *width,
                });
            }
            Ast::Element {
                stack,
                index,
                field,
            } => {
                self.wide(index, first_const);
                self.reduce(
                    Op::LoadElement {
                        stack: *stack,
                        field: *field,
                    },
                    1,
                );
            }
            Ast::ElementValid { stack, index } => {
                self.wide(index, first_const);
                self.reduce(Op::ElementValid(*stack), 1);
            }
            Ast::Last { stack, field } => self.push(Op::LoadLast {
                stack: *stack,
                field: *field,
            }),
            Ast::LastIndex(stack) => self.push(Op::LastIndex(*stack)),
            Ast::ValidUnion(union) => self.push(Op::ValidUnion(*union)),
            Ast::VarbitEqual(a, b) => self.push(Op::EqVarbit(*a, *b)),
            Ast::Unary(op, a) => {
                self.wide(a, first_const);
                self.reduce(*op, 1);
            }
            Ast::Binary(op, a, b) => {
                self.wide(a, first_const);
                self.wide(b, first_const);
                self.reduce(*op, 2);
            }
            Ast::Select(c, a, b) => {
                self.wide(c, first_const);
                self.wide(a, first_const);
                self.wide(b, first_const);
                self.reduce(Op::Select, 3);
            }
        }
    }
}

/// The bits of a value that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// All: the value itself.
    Exact,
    /// The low bits, for a field of this width.
    Low(u32),
}

/// Compiles an expression.
///
/// # Errors
/// [`LoadError::Unsupported`](crate::LoadError::Unsupported) if it needs more bits or values at once than the widest arithmetic has.
pub fn compile(ir: &mut Ir, ast: &Ast, demand: Demand, location: &str) -> Result<Expr> {
    let low64 = matches!(demand, Demand::Low(width) if width <= 64);
    // Writing to a field of that width masks anyway.
    if let (Demand::Low(width @ 1..=64), Ast::Binary(Op::And, a, b)) = (demand, ast)
        && let Ast::Const(mask) = &**b
        && keeps_all(mask, unsigned(width))
    {
        return compile(ir, a, demand, location);
    }
    match ast {
        Ast::Const(value) if low64 || (!value.is_negative() && const_bits(value) <= 64) => {
            return Ok(Expr::Const(value.low()));
        }
        Ast::Field(AnyField::Narrow(f)) if low64 || !f.signed => return Ok(Expr::Field(*f)),
        Ast::Arg { word, width } if low64 || *width <= 64 => return Ok(Expr::Arg(*word)),
        _ => {}
    }
    let start = u32::try_from(ir.ops.len()).unwrap_or(u32::MAX);
    let mut emitter = Emitter::default();
    if emitter.narrow(ast, !low64).is_some() {
        join_adjacent(&mut emitter.ops, ir.metadata_bytes);
        if let [Op::Load(field)] = *emitter.ops
            && !field.signed
        {
            return Ok(Expr::Field(field));
        }
        let shallow = emitter.highest <= SHALLOW_STACK;
        let kind = if shallow {
            Expr::Narrow
        } else {
            Expr::NarrowDeep
        };
        return finish(ir, emitter, start, location).map(kind);
    }
    let bits = need(
        ast,
        match demand {
            Demand::Exact => None,
            Demand::Low(width) => Some(width + 1),
        },
    );
    let mut emitter = Emitter::default();
    emitter.wide(ast, u32::try_from(ir.wide_consts.len()).unwrap_or(u32::MAX));
    match bits {
        0..=192 => finish(ir, emitter, start, location).map(Expr::Wide3),
        193..=2112 => finish(ir, emitter, start, location).map(Expr::Wide33),
        _ => Err(unsupported(
            location,
            "an expression whose value may exceed 2111 bits".into(),
        )),
    }
}

/// Replaces the concatenation of fields that lie next to each other in a header by one field.
fn join_adjacent(ops: &mut Vec<Op>, metadata_bytes: usize) {
    let mut joined = Vec::with_capacity(ops.len());
    for op in ops.drain(..) {
        joined.push(op);
        let &[.., Op::Load(high), Op::ShlConst(by), Op::Load(low), Op::Or] = joined.as_slice()
        else {
            continue;
        };
        if by == u32::from(low.width)
            && let Some(field) = high.join(low, metadata_bytes)
        {
            joined.truncate(joined.len() - 4);
            joined.push(Op::Load(field));
        }
    }
    *ops = joined;
}

fn finish(ir: &mut Ir, emitter: Emitter, start: u32, location: &str) -> Result<Code> {
    if emitter.highest > STACK_DEPTH {
        return Err(unsupported(
            location,
            format!("an expression nested deeper than {STACK_DEPTH} values"),
        ));
    }
    let len = u32::try_from(emitter.ops.len()).unwrap_or(u32::MAX);
    ir.ops.extend(emitter.ops);
    ir.wide_consts.extend(emitter.consts);
    Ok(Code { start, len })
}

/// Constant as words, `width` bits.
pub(super) fn const_words(value: &Wide<33>, width: u32) -> Vec<u64> {
    let mut words = crate::value::to_words(value, width);
    if let Some(last) = words.last_mut()
        && !width.is_multiple_of(64)
    {
        *last &= low_mask(width % 64);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Field;

    /// A field of a header that starts at this bit.
    fn load(bit: u32, width: u8) -> Op {
        let shift = 64 - bit % 8 - u32::from(width);
        Op::Load(Field {
            offset: bit / 8,
            shift: u8::try_from(shift).expect("within a window"),
            width,
            signed: false,
        })
    }

    fn joined(mut ops: Vec<Op>) -> Vec<Op> {
        join_adjacent(&mut ops, 8);
        ops
    }

    #[test]
    fn fields_next_to_each_other_are_read_at_once() {
        let (version, length, service) = (load(160, 4), load(164, 4), load(168, 8));
        let first = [version, Op::ShlConst(4), length, Op::Or];
        let both = [&first[..], &[Op::ShlConst(8), service, Op::Or]].concat();
        assert_eq!(joined(both), [load(160, 16)]);
    }

    #[test]
    fn other_fields_are_read_apart() {
        for ops in [
            // A gap, the other order, another shift, metadata, and more than 64 bits.
            [load(160, 4), Op::ShlConst(8), load(168, 8), Op::Or],
            [load(164, 4), Op::ShlConst(4), load(160, 4), Op::Or],
            [load(160, 4), Op::ShlConst(5), load(164, 4), Op::Or],
            [load(8, 8), Op::ShlConst(8), load(16, 8), Op::Or],
            [load(160, 40), Op::ShlConst(32), load(200, 32), Op::Or],
        ] {
            assert_eq!(joined(ops.to_vec()), ops);
        }
    }
}
