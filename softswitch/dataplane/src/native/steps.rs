// SPDX-License-Identifier: Apache-2.0
//! The steps of a pipeline: branches become jumps, and a table's lookup is followed by its actions in line.

use super::code::Code;
use super::expr::Args;
use super::frame::Frame;
use super::{Refused, helper};
use crate::ir::{Flow, Gress, Ir, Slot, Step};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, SourceLoc, Value, types};
use cranelift_frontend::{Switch, Variable};
use std::collections::HashMap;

/// Steps with common arguments and a common end: a pipeline, or an action that a table runs.
pub(super) struct Region {
    /// The block that follows the region.
    end: Block,
    pub(super) args: Option<Args>,
    /// For an action: its table, and the result of the lookup.
    pub(super) found: Option<(u16, Variable)>,
    blocks: HashMap<u32, Block>,
    /// First steps of the blocks that are not written yet.
    unwritten: Vec<u32>,
}

impl Region {
    pub(super) fn new(end: Block, args: Option<Args>, found: Option<(u16, Variable)>) -> Self {
        Self {
            end,
            args,
            found,
            blocks: HashMap::new(),
            unwritten: Vec::new(),
        }
    }
}

/// A pipeline being written.
pub(super) struct Writer<'a, 'f> {
    pub code: Code<'a, 'f>,
    /// Steps that are the target of a jump, branch or table.
    leaders: &'a [bool],
    /// The block that ends the pipeline.
    pub done: Block,
    pub(super) pauses: Pauses,
}

/// Which steps begin a block.
pub(super) fn leaders(ir: &Ir) -> Vec<bool> {
    let mut leaders = vec![false; ir.flat.steps.len()];
    let mut mark = |to: u32| {
        if let Some(leader) = leaders.get_mut(to as usize) {
            *leader = true;
        }
    };
    for step in &ir.flat.steps {
        match step.flow() {
            Flow::Jump(to) | Flow::Branch(to) => mark(to),
            Flow::Next | Flow::NextOrExit | Flow::Table | Flow::End => {}
        }
    }
    ir.flat.targets().for_each(mark);
    leaders
}

/// Where packets pause in a pipeline.
pub(super) enum Pauses {
    /// Nowhere.
    Never,
    /// Where they resume, with the numbers of these pauses. They pause there if the frame says so.
    Resuming(Vec<(u64, Block)>),
    /// Before each stateful step, which is not written.
    Always,
}

/// Writes egress into a function that has written its metadata.
pub(super) fn egress(code: Code<'_, '_>, leaders: &[bool]) -> Result<(), Refused> {
    let mut writer = Writer::new(code, leaders, Pauses::Never);
    writer.pipeline(Gress::Egress)?;
    writer.end(Gress::Egress)
}

/// Writes ingress up to its pauses, after the parser.
pub(super) fn ingress_to_pauses(code: Code<'_, '_>, leaders: &[bool]) -> Result<(), Refused> {
    let mut writer = Writer::new(code, leaders, Pauses::Always);
    writer.pipeline(Gress::Ingress)?;
    writer.end(Gress::Ingress)
}

/// Writes ingress into an empty function; returns the number of pauses.
pub(super) fn ingress(mut code: Code<'_, '_>, leaders: &[bool]) -> Result<usize, Refused> {
    let (first, resume) = (code.b.create_block(), code.b.create_block());
    let resume_at = code.frame_word(Frame::RESUME_AT);
    code.b.ins().brif(resume_at, resume, &[], first, &[]);
    code.b.switch_to_block(first);
    let mut writer = Writer::new(code, leaders, Pauses::Resuming(Vec::new()));
    writer.pipeline(Gress::Ingress)?;
    let mut switch = Switch::new();
    let mut pauses = 0;
    if let Pauses::Resuming(points) = &writer.pauses {
        pauses = points.len();
        for (number, block) in points {
            switch.set_entry(u128::from(*number), *block);
        }
    }
    let code = &mut writer.code;
    code.b.switch_to_block(resume);
    let resume_at = code.frame_word(Frame::RESUME_AT);
    switch.emit(&mut code.b, resume_at, writer.done);
    writer.end(Gress::Ingress)?;
    Ok(pauses)
}

impl<'a, 'f> Writer<'a, 'f> {
    fn new(mut code: Code<'a, 'f>, leaders: &'a [bool], pauses: Pauses) -> Self {
        let done = code.b.create_block();
        Self {
            code,
            leaders,
            done,
            pauses,
        }
    }

    /// Writes the steps of a pipeline.
    fn pipeline(&mut self, gress: Gress) -> Result<(), Refused> {
        let start = self.code.ir.flat.start(gress);
        self.region(Region::new(self.done, None, None), start)
    }

    /// Writes what follows the steps, and ends the function.
    fn end(mut self, gress: Gress) -> Result<(), Refused> {
        let code = &mut self.code;
        code.b.switch_to_block(self.done);
        code.write_result(gress)?;
        if gress == Gress::Egress && code.only_emits() {
            code.deparse_at_once()?;
        }
        code.return_word(0);
        self.code.finish();
        Ok(())
    }
}

impl Writer<'_, '_> {
    /// The block that begins at a step; it is written later.
    pub(super) fn block(&mut self, region: &mut Region, at: u32) -> Block {
        if at as usize >= self.leaders.len() {
            return region.end;
        }
        *region.blocks.entry(at).or_insert_with(|| {
            region.unwritten.push(at);
            self.code.b.create_block()
        })
    }

    /// Writes a jump to `start`, and every step that can be reached from there.
    pub(super) fn region(&mut self, mut region: Region, start: u32) -> Result<(), Refused> {
        let first = self.block(&mut region, start);
        self.code.b.ins().jump(first, &[]);
        while let Some(at) = region.unwritten.pop() {
            if let Some(block) = region.blocks.get(&at) {
                self.code.b.switch_to_block(*block);
                self.run(&mut region, at)?;
            }
        }
        Ok(())
    }

    /// Writes the steps of one block.
    fn run(&mut self, region: &mut Region, start: u32) -> Result<(), Refused> {
        let steps = self.code.ir.flat.steps.as_slice();
        let mut at = start;
        let mut stateful = false;
        loop {
            let index = at as usize;
            let Some(step) = steps.get(index) else {
                self.code.b.ins().jump(region.end, &[]);
                return Ok(());
            };
            if at != start && self.leaders.get(index) == Some(&true) {
                let next = self.block(region, at);
                self.code.b.ins().jump(next, &[]);
                return Ok(());
            }
            self.code.check_size()?;
            self.code.b.set_srcloc(SourceLoc::new(at));
            // One pause before the first stateful step is enough for the rest of the block.
            if !stateful && step.is_stateful(self.code.ir) {
                stateful = true;
                self.pause(region, at);
                if matches!(self.pauses, Pauses::Always) {
                    return Ok(());
                }
            }
            match step {
                Step::Jump(to) => {
                    let to = self.block(region, *to);
                    self.code.b.ins().jump(to, &[]);
                    return Ok(());
                }
                Step::Return | Step::End => {
                    self.code.b.ins().jump(region.end, &[]);
                    return Ok(());
                }
                Step::Table(table) => return self.table(region, *table),
                Step::IfZero { field, to } => {
                    let to = self.block(region, *to);
                    let value = self.code.get(*field)?;
                    self.code.continue_if(value, to);
                }
                Step::IfNotEqual { field, value, to } => {
                    let to = self.block(region, *to);
                    let (field, value) = (self.code.get(*field)?, self.code.number(*value));
                    let equal = self.code.b.ins().icmp(IntCC::Equal, field, value);
                    self.code.continue_if(equal, to);
                }
                Step::IfFalse { value, to } => {
                    let to = self.block(region, *to);
                    let value = match self.code.eval(*value, region.args) {
                        Ok(value) => value,
                        Err(Refused) => self.interpret(region, at),
                    };
                    self.code.continue_if(value, to);
                }
                Step::Assert(_) => {
                    let exit = self.interpret(region, at);
                    self.end_if(exit);
                }
                Step::StopIfExit => {
                    let exit = self.code.call(helper::exit(), &[]);
                    self.end_if(exit);
                }
                Step::SetConst { .. }
                | Step::Copy { .. }
                | Step::AddConst { .. }
                | Step::Concat { .. }
                | Step::SetArg { .. }
                | Step::Set { .. }
                | Step::Count { .. }
                | Step::Meter { .. }
                | Step::ReadRegister { .. }
                | Step::WriteRegister { .. }
                | Step::Hash { .. }
                | Step::Prefetch(_)
                | Step::Slow(_) => self.straight(region, at, step)?,
            }
            at += 1;
        }
    }

    /// Ends the pipeline where `exit` is not zero.
    pub(super) fn end_if(&mut self, exit: Value) {
        let next = self.code.b.create_block();
        self.code.b.ins().brif(exit, self.done, &[], next, &[]);
        self.code.b.switch_to_block(next);
    }

    /// Leaves a step to the interpreter; the result of `helper::step`.
    fn interpret(&mut self, region: &Region, at: u32) -> Value {
        let at = self.code.number(u64::from(at));
        let (args, words) = match region.args {
            Some(args) => (self.code.b.use_var(args.at), args.words),
            None => (self.code.number(0), 0),
        };
        let words = self.code.number(u64::from(words));
        self.code.call(helper::step(), &[at, args, words])
    }

    /// Writes a step that the next step of the list always follows.
    fn straight(&mut self, region: &Region, at: u32, step: &Step) -> Result<(), Refused> {
        let code = &mut self.code;
        match *step {
            Step::SetConst { offset, keep, bits } => code.put_const(offset, keep, bits),
            Step::Copy { to, from } => {
                let value = code.get(from)?;
                code.put(to, value)
            }
            Step::AddConst { to, from, value } => {
                let from = code.get(from)?;
                let value = code.b.ins().iadd_imm(from, value.cast_signed());
                code.put(to, value)
            }
            Step::Concat { to, high, by, low } => {
                let (high, low) = (code.get(high)?, code.get(low)?);
                let high = code.b.ins().ishl_imm(high, i64::from(by & 63));
                let value = code.b.ins().bor(high, low);
                code.put(to, value)
            }
            Step::SetArg { to, word } => {
                let value = code.arg(region.args, word);
                code.put(to, value)
            }
            Step::Set { to, value } => match code.eval(value, region.args) {
                Ok(value) => code.put(to, value),
                Err(Refused) => {
                    self.interpret(region, at);
                    Ok(())
                }
            },
            Step::Count { counter, index } => code.count(counter, index),
            Step::Meter { meter, index, to } => code.meter(meter, index, to),
            Step::ReadRegister {
                register,
                index,
                to,
            } if code.one_word(register) => code.read_register(register, index, to),
            Step::ReadRegister {
                register,
                index,
                to,
            } => {
                let (register, index) = (code.number(u64::from(register)), code.get(index)?);
                let some = code.call(helper::read_register(), &[register, index]);
                let value = code.frame_word(Frame::RESULT);
                self.put_if(some, to, value)
            }
            Step::WriteRegister {
                register,
                index,
                value,
            } if code.one_word(register) => code.write_register(register, index, value),
            Step::WriteRegister {
                register,
                index,
                value,
            } => {
                let register = code.number(u64::from(register));
                let (index, value) = (code.get(index)?, code.get(value)?);
                code.call(helper::write_register(), &[register, index, value]);
                Ok(())
            }
            Step::Hash {
                calculation,
                to,
                mask,
            } => {
                let value = code.hash(calculation)?;
                let value = code.b.ins().band_imm(value, mask.cast_signed());
                code.put(to, value)
            }
            Step::Prefetch(index) => {
                let prefetches = &code.ir.flat.prefetches;
                code.prefetch(prefetches.get(index as usize).ok_or(Refused)?)
            }
            Step::Slow(_) => {
                self.interpret(region, at);
                Ok(())
            }
            // Control flow, which `run` writes.
            Step::IfZero { .. }
            | Step::IfNotEqual { .. }
            | Step::IfFalse { .. }
            | Step::Jump(_)
            | Step::Table(_)
            | Step::Return
            | Step::Assert(_)
            | Step::StopIfExit
            | Step::End => Err(Refused),
        }
    }

    fn put_if(&mut self, condition: Value, to: Slot, value: Value) -> Result<(), Refused> {
        let after = self.code.b.create_block();
        self.code.continue_if(condition, after);
        self.code.put(to, value)?;
        self.code.b.ins().jump(after, &[]);
        self.code.b.switch_to_block(after);
        Ok(())
    }

    /// A word of 64 bits as a table index of 32.
    pub(super) fn narrow(&mut self, value: Value) -> Value {
        self.code.b.ins().ireduce(types::I32, value)
    }
}
