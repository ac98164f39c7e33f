// SPDX-License-Identifier: Apache-2.0
//! Reads and writes of expressions, primitives, steps and operations of the parser.
//!
//! No `match` here has a wildcard arm, so that a new step, primitive or operation does not compile before it is
//! classified. What works on stacks and unions may read everything.

use super::bytes::{Live, bits, contents, narrow, slot_bits, wide};
use crate::ir::{
    AnyField, CalcInput, Code, DigestField, Expr, HeaderOrNext, HeaderRef, Ir, Op, ParserOp, Prim,
    Step, Target,
};

impl Live {
    fn code(&mut self, ir: &Ir, code: Code) {
        let (start, len) = (code.start as usize, code.len as usize);
        for op in ir.ops.get(start..start + len).unwrap_or_default() {
            match op {
                Op::Load(field) => self.read_narrow(ir, *field),
                Op::LoadWide(field) => self.read(&wide(*field)),
                Op::LoadElement { .. }
                | Op::ElementValid(_)
                | Op::LoadLast { .. }
                | Op::LastIndex(_)
                | Op::ValidUnion(_)
                | Op::EqVarbit(..) => self.read_everything(),
                Op::Const(_)
                | Op::WideConst(_)
                | Op::Arg(_)
                | Op::WideArg { .. }
                | Op::Lookahead { .. }
                | Op::Add
                | Op::Sub
                | Op::Mul
                | Op::Div
                | Op::Rem
                | Op::And
                | Op::Or
                | Op::Xor
                | Op::BitNot
                | Op::Shl
                | Op::Shr
                | Op::Eq
                | Op::Ne
                | Op::Lt
                | Op::Le
                | Op::Gt
                | Op::Ge
                | Op::BoolAnd
                | Op::BoolOr
                | Op::BoolNot
                | Op::Select
                | Op::TwoCompMod(_)
                | Op::SatCast(_)
                | Op::USatCast(_)
                | Op::AndConst(_)
                | Op::EqConst(_)
                | Op::AddConst(_)
                | Op::AddArg(_)
                | Op::AndArg(_)
                | Op::ShlConst(_)
                | Op::ShrConst(_) => {}
            }
        }
    }

    pub(super) fn read_expr(&mut self, ir: &Ir, value: Expr) {
        match value {
            Expr::Const(_) | Expr::Arg(_) => {}
            Expr::Field(field) => self.read_narrow(ir, field),
            Expr::Narrow(code)
            | Expr::NarrowDeep(code)
            | Expr::Wide3(code)
            | Expr::Wide33(code) => {
                self.code(ir, code);
            }
        }
    }

    pub(super) fn read_inputs(&mut self, ir: &Ir, calculation: u16) {
        let calculation = ir.calculations.get(usize::from(calculation));
        for input in calculation.into_iter().flat_map(|c| &c.inputs) {
            match input {
                CalcInput::Field { field, valid } => {
                    self.read(&wide(*field));
                    valid.iter().for_each(|at| self.read_byte(*at));
                }
                CalcInput::Header(header) | CalcInput::Varbit(header) => {
                    if let Some(header) = ir.headers.get(usize::from(*header)) {
                        self.emit(header);
                    }
                }
                CalcInput::Const { .. } => {}
            }
        }
    }

    pub(super) fn read_list(&mut self, ir: &Ir, list: u16) {
        let list = ir.field_lists.get(usize::from(list));
        for field in list.into_iter().flatten() {
            self.read_field(ir, *field);
        }
    }

    fn write_target(&mut self, ir: &Ir, target: Target) {
        match target {
            Target::Field(field) => self.write(ir, &bits(field)),
            Target::Element { .. } | Target::Last { .. } => self.read_everything(),
        }
    }

    fn may_write_target(&mut self, ir: &Ir, target: Target) {
        match target {
            Target::Field(field) => self.may_write(ir, &bits(field)),
            Target::Element { .. } | Target::Last { .. } => self.read_everything(),
        }
    }

    /// From after a primitive to before it.
    #[expect(clippy::too_many_lines, reason = "one arm per primitive")]
    pub(super) fn prim(&mut self, ir: &Ir, prim: &Prim) {
        let header = |number: u16| ir.headers.get(usize::from(number));
        match prim {
            Prim::Assign { target, value } => {
                self.write(ir, &narrow(*target));
                self.read_expr(ir, *value);
            }
            Prim::AssignAny { target, value } => {
                self.write_target(ir, *target);
                self.read_expr(ir, *value);
            }
            Prim::CopyBits { from, to } => {
                self.write(ir, &wide(*to));
                self.read(&wide(*from));
            }
            // A header that was not valid is set to zero.
            Prim::AddHeader(HeaderRef::Fixed(number)) => {
                if let Some(header) = header(*number) {
                    if !header.metadata {
                        self.assume_valid(header);
                    }
                    self.read_byte(header.valid);
                    self.remove_siblings(ir, header);
                }
            }
            Prim::RemoveHeader(HeaderRef::Fixed(number)) => {
                if let Some(header) = header(*number) {
                    if !header.metadata {
                        self.assume_invalid(header);
                    }
                    self.remove(header);
                }
            }
            Prim::CopyHeader {
                to: HeaderRef::Fixed(to),
                from: HeaderRef::Fixed(from),
            } => {
                let (Some(to), Some(from)) = (header(*to), header(*from)) else {
                    return;
                };
                self.becomes_valid(to);
                if to.metadata && to.fixed_bytes <= from.fixed_bytes && to.varbit.is_none() {
                    let [bytes, _] = contents(to);
                    self.overwrite(bytes);
                }
                let mut source = Self::nothing(self.len());
                source.emit(from);
                if to.metadata || from.metadata {
                    source.becomes_valid(from);
                }
                self.add(&source);
                self.remove(to);
                self.remove_siblings(ir, to);
                // The copy has a length of its own only if both have one.
                if from.varbit.is_none() {
                    self.becomes_valid(to);
                }
            }
            Prim::Digest(digest) => {
                let digest = ir.digests.get(usize::from(*digest));
                for field in digest.into_iter().flat_map(|digest| &digest.fields) {
                    match field {
                        DigestField::Field(field) => self.read_field(ir, *field),
                        DigestField::Const { .. } => {}
                    }
                }
            }
            Prim::Clone {
                session,
                field_list,
            } => {
                self.read_list(ir, *field_list);
                self.read_expr(ir, *session);
            }
            Prim::Resubmit(list) | Prim::Recirculate(list) => self.read_list(ir, *list),
            Prim::Hash {
                target,
                base,
                calculation,
                size,
            } => {
                self.write_target(ir, *target);
                self.read_expr(ir, *base);
                self.read_expr(ir, *size);
                self.read_inputs(ir, *calculation);
            }
            // Without a number from low to high, the target keeps its value.
            Prim::Random { target, low, high } => {
                self.may_write_target(ir, *target);
                self.read_expr(ir, *low);
                self.read_expr(ir, *high);
            }
            // An index beyond the array leaves the target as it is.
            Prim::Meter { index, target, .. } | Prim::RegisterRead { index, target, .. } => {
                self.may_write_target(ir, *target);
                self.read_expr(ir, *index);
            }
            Prim::Count { index, .. } => self.read_expr(ir, *index),
            Prim::RegisterWrite { index, value, .. } => {
                self.read_expr(ir, *index);
                self.read_expr(ir, *value);
            }
            Prim::Truncate(bytes) => self.read_expr(ir, *bytes),
            Prim::Log(message) => {
                let message = ir.log_messages.get(usize::from(*message));
                for value in message.into_iter().flat_map(|message| &message.values) {
                    self.read_expr(ir, *value);
                }
            }
            Prim::Assert { condition, .. } => self.read_expr(ir, *condition),
            Prim::MarkToDrop | Prim::Exit => {}
            Prim::AddHeader(HeaderRef::Element { .. })
            | Prim::RemoveHeader(HeaderRef::Element { .. })
            | Prim::CopyHeader { .. }
            | Prim::CopyStack { .. }
            | Prim::CopyUnion { .. }
            | Prim::CopyUnionStack { .. }
            | Prim::ShiftUnions { .. }
            | Prim::CopyVarbit { .. }
            | Prim::Push { .. }
            | Prim::Pop { .. }
            | Prim::Jump(_)
            | Prim::JumpIfZero { .. } => self.read_everything(),
        }
    }

    /// From after a step to before it, without regard to the steps that may follow.
    pub(super) fn step(&mut self, ir: &Ir, step: &Step) {
        match step {
            Step::SetConst { offset, keep, .. } => {
                for (at, keep) in (*offset..).zip(keep.to_ne_bytes()) {
                    let first = at * 8;
                    match keep {
                        0 => self.write(ir, &(first..first + 8)),
                        u8::MAX => {}
                        // Part of the byte.
                        _ => self.write(ir, &(first..first + 1)),
                    }
                }
            }
            Step::Copy { to, from } | Step::AddConst { to, from, .. } => {
                self.write(ir, &slot_bits(*to));
                self.read_slot(*from);
            }
            Step::Concat { to, high, low, .. } => {
                self.write(ir, &slot_bits(*to));
                self.read_slot(*high);
                self.read_slot(*low);
            }
            Step::SetArg { to, .. } => self.write(ir, &slot_bits(*to)),
            Step::Set { to, value } => {
                self.write(ir, &slot_bits(*to));
                self.read_expr(ir, *value);
            }
            Step::Count { index, .. } => self.read_slot(*index),
            // An index beyond the array leaves the target as it is.
            Step::Meter { index, to, .. } | Step::ReadRegister { index, to, .. } => {
                self.may_write(ir, &slot_bits(*to));
                self.read_slot(*index);
            }
            Step::WriteRegister { index, value, .. } => {
                self.read_slot(*index);
                self.read_slot(*value);
            }
            Step::Hash {
                calculation, to, ..
            } => {
                self.write(ir, &slot_bits(*to));
                self.read_inputs(ir, *calculation);
            }
            Step::IfZero { field, .. } | Step::IfNotEqual { field, .. } => self.read_slot(*field),
            Step::IfFalse { value, .. } => self.read_expr(ir, *value),
            Step::Prefetch(index) => {
                let prefetch = ir.flat.prefetches.get(*index as usize);
                prefetch.iter().for_each(|p| self.read_slot(p.index));
            }
            Step::Table(index) => {
                let Some(table) = ir.tables.get(usize::from(*index)) else {
                    return;
                };
                // The actions of a profile run within the step.
                if table.profile.is_some() {
                    self.read_everything();
                }
                for part in &table.key {
                    self.read_field(ir, part.field);
                    let valid = part.valid.map(AnyField::Narrow);
                    valid.iter().for_each(|valid| self.read_field(ir, *valid));
                }
            }
            Step::Slow(index) | Step::Assert(index) => match ir.flat.slow.get(*index as usize) {
                Some(prim) => self.prim(ir, prim),
                None => self.read_everything(),
            },
            Step::Jump(_) | Step::Return | Step::StopIfExit | Step::End => {}
        }
    }

    /// From after an operation of the parser to before it.
    pub(super) fn parser_op(&mut self, ir: &Ir, op: &ParserOp) {
        match op {
            ParserOp::Extract(number) => self.extract(ir, *number),
            ParserOp::ExtractVarbit {
                header: HeaderOrNext::Header(number),
                length_bits,
            } => {
                self.extract(ir, *number);
                self.read_expr(ir, *length_bits);
            }
            ParserOp::ExtractNext(_)
            | ParserOp::ExtractVarbit {
                header: HeaderOrNext::Next(_),
                ..
            } => self.read_everything(),
            ParserOp::Set { target, value, .. } => {
                self.write_target(ir, *target);
                self.read_expr(ir, *value);
            }
            ParserOp::Verify {
                condition, error, ..
            } => {
                self.read_expr(ir, *condition);
                self.read_expr(ir, *error);
            }
            ParserOp::Advance { bits, .. } => self.read_expr(ir, *bits),
            ParserOp::Prim(prim) => self.prim(ir, prim),
        }
    }

    fn extract(&mut self, ir: &Ir, number: u16) {
        let Some(header) = ir.headers.get(usize::from(number)) else {
            return;
        };
        self.becomes_valid(header);
        for bytes in contents(header) {
            self.overwrite(bytes);
        }
        self.remove_siblings(ir, header);
    }
}
