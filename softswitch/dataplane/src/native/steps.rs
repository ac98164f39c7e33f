// SPDX-License-Identifier: Apache-2.0
//! The steps of a pipeline: branches become jumps, a table's actions stand behind its lookup.

use super::call::Frame;
use super::call::Gress;
use super::code::Code;
use super::expr::Args;
use super::{Refused, helper, pause};
use crate::ir::{Prim, Slot, Step};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::{Switch, Variable};
use std::collections::HashMap;

/// Steps that lead to each other: a pipeline, or an action where a table runs it.
pub(super) struct Region {
    /// Where control goes at the region's end.
    leave: Block,
    pub(super) args: Option<Args>,
    /// For an action: what its table found.
    pub(super) found: Option<Variable>,
    blocks: HashMap<u32, Block>,
    waiting: Vec<u32>,
}

impl Region {
    pub(super) fn new(leave: Block, args: Option<Args>, found: Option<Variable>) -> Self {
        Self {
            leave,
            args,
            found,
            blocks: HashMap::new(),
            waiting: Vec::new(),
        }
    }
}

/// A pipeline being written.
pub(super) struct Writer<'a, 'f> {
    pub code: Code<'a, 'f>,
    /// Steps that control comes to by another way than from the step before.
    leaders: &'a [bool],
    /// Where the pipeline ends.
    pub done: Block,
    /// Where a paused packet goes on, if packets pause here.
    pub(super) places: Option<Vec<Block>>,
}

/// Which steps begin a block.
pub(super) fn leaders(ir: &crate::ir::Ir) -> Vec<bool> {
    let mut leaders = vec![false; ir.flat.steps.len()];
    let mut mark = |to: &u32| {
        if let Some(leader) = leaders.get_mut(*to as usize) {
            *leader = true;
        }
    };
    for step in &ir.flat.steps {
        if let Step::IfZero { to, .. }
        | Step::IfNotEqual { to, .. }
        | Step::IfFalse { to, .. }
        | Step::Jump(to) = step
        {
            mark(to);
        }
    }
    ir.flat.targets().for_each(mark);
    leaders
}

/// Writes the pipeline that starts at `start` into an empty function. Packets may pause in ingress; the number of places
/// where they do is given back.
pub(super) fn pipeline(
    mut code: Code<'_, '_>,
    leaders: &[bool],
    start: u32,
    gress: Gress,
) -> Result<usize, Refused> {
    let pauses = gress == Gress::Ingress;
    let done = code.b.create_block();
    let (first, again) = (code.b.create_block(), code.b.create_block());
    if pauses {
        let place = code.frame_word(Frame::PLACE);
        code.b.ins().brif(place, again, &[], first, &[]);
    } else {
        code.b.ins().jump(first, &[]);
    }
    code.b.switch_to_block(first);
    let mut writer = Writer {
        code,
        leaders,
        done,
        places: pauses.then(Vec::new),
    };
    writer.region(Region::new(done, None, None), start)?;
    let places = writer.places.take().unwrap_or_default();
    let code = &mut writer.code;
    code.b.switch_to_block(again);
    let mut switch = Switch::new();
    for (number, block) in (1..).zip(&places) {
        switch.set_entry(number, *block);
    }
    let place = code.frame_word(Frame::PLACE);
    switch.emit(&mut code.b, place, done);
    code.b.switch_to_block(done);
    code.leave(gress)?;
    let zero = code.number(0);
    code.b.ins().return_(&[zero]);
    writer.code.finish();
    Ok(places.len())
}

impl Writer<'_, '_> {
    /// The block that begins at a step; written later.
    pub(super) fn block(&mut self, region: &mut Region, at: u32) -> Block {
        if at as usize >= self.leaders.len() {
            return region.leave;
        }
        *region.blocks.entry(at).or_insert_with(|| {
            region.waiting.push(at);
            self.code.b.create_block()
        })
    }

    /// Writes all that can be reached from `start`, and a jump there.
    pub(super) fn region(&mut self, mut region: Region, start: u32) -> Result<(), Refused> {
        let first = self.block(&mut region, start);
        self.code.b.ins().jump(first, &[]);
        while let Some(at) = region.waiting.pop() {
            if let Some(block) = region.blocks.get(&at) {
                self.code.b.switch_to_block(*block);
                self.run(&mut region, at)?;
            }
        }
        Ok(())
    }

    /// Steps one behind the other, to the end of the block.
    fn run(&mut self, region: &mut Region, start: u32) -> Result<(), Refused> {
        let steps = self.code.ir.flat.steps.as_slice();
        let mut at = start;
        let mut met_state = false;
        loop {
            let index = at as usize;
            let Some(step) = steps.get(index) else {
                self.code.b.ins().jump(region.leave, &[]);
                return Ok(());
            };
            if at != start && self.leaders.get(index) == Some(&true) {
                let next = self.block(region, at);
                self.code.b.ins().jump(next, &[]);
                return Ok(());
            }
            self.code.check_size()?;
            // The first of a block decides for those behind it.
            if !met_state && pause::meets_state(self.code.ir, step) {
                met_state = true;
                self.pause(region);
            }
            match step {
                Step::Jump(to) => {
                    let to = self.block(region, *to);
                    self.code.b.ins().jump(to, &[]);
                    return Ok(());
                }
                Step::Return | Step::End => {
                    self.code.b.ins().jump(region.leave, &[]);
                    return Ok(());
                }
                Step::Table(table) => return self.table(region, *table),
                Step::IfZero { field, to } => {
                    let to = self.block(region, *to);
                    let value = self.code.get(*field)?;
                    self.code.go_on_if(value, to);
                }
                Step::IfNotEqual { field, value, to } => {
                    let to = self.block(region, *to);
                    let (field, value) = (self.code.get(*field)?, self.code.number(*value));
                    let equal = self.code.b.ins().icmp(IntCC::Equal, field, value);
                    self.code.go_on_if(equal, to);
                }
                Step::IfFalse { value, to } => {
                    let to = self.block(region, *to);
                    let value = match self.code.eval(*value, region.args) {
                        Ok(value) => value,
                        Err(Refused) => self.interpret(region, at),
                    };
                    self.code.go_on_if(value, to);
                }
                Step::Assert(_) => {
                    let exit = self.interpret(region, at);
                    self.end_if(exit);
                }
                Step::StopIfExit => {
                    let exit = self.code.call(helper::exit(), &[]);
                    self.end_if(exit);
                }
                step => self.plain(region, at, step)?,
            }
            at += 1;
        }
    }

    /// Ends the pipeline where `exit` is not zero.
    pub(super) fn end_if(&mut self, exit: Value) {
        let on = self.code.b.create_block();
        self.code.b.ins().brif(exit, self.done, &[], on, &[]);
        self.code.b.switch_to_block(on);
    }

    /// Leaves a step to the interpreter; what it says (see `helper::step`).
    fn interpret(&mut self, region: &Region, at: u32) -> Value {
        let at = self.code.number(u64::from(at));
        let with_args = self.code.number(u64::from(region.args.is_some()));
        self.code.call(helper::step(), &[at, with_args])
    }

    /// A step that control goes on behind.
    fn plain(&mut self, region: &Region, at: u32, step: &Step) -> Result<(), Refused> {
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
            _ => {
                self.interpret(region, at);
                Ok(())
            }
        }
    }

    fn put_if(&mut self, condition: Value, to: Slot, value: Value) -> Result<(), Refused> {
        let behind = self.code.b.create_block();
        self.code.go_on_if(condition, behind);
        self.code.put(to, value)?;
        self.code.b.ins().jump(behind, &[]);
        self.code.b.switch_to_block(behind);
        Ok(())
    }

    /// Whether an action may set the packet's exit flag and go on.
    pub(super) fn may_exit(&self, action: u16) -> bool {
        let action = self.code.ir.actions.get(usize::from(action));
        action.is_some_and(|action| action.prims.iter().any(|p| matches!(p, Prim::Exit)))
    }

    /// A word of 64 bits as a table index of 32.
    pub(super) fn narrow(&mut self, value: Value) -> Value {
        self.code.b.ins().ireduce(types::I32, value)
    }
}
