// SPDX-License-Identifier: Apache-2.0
//! Tables: the key is packed by the code, the lookup is a helper, and the actions follow it in line.

use super::Refused;
use super::code::Code;
use super::expr::Args;
use super::frame::Frame;
use super::steps::{Region, Writer};
use super::{finders, helper};
use crate::ir::{Action, AnyField, Field, Table, TableNext};
use crate::tables::{INLINE, TableState};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::Switch;

/// Actions of a table up to which the code compares instead of jumping through a list.
const FEW_ACTIONS: usize = 4;

impl Writer<'_, '_> {
    /// Writes a table and the jumps to the steps that follow it in `region`.
    pub(super) fn table(&mut self, region: &mut Region, index: u16) -> Result<(), Refused> {
        let ir = self.code.ir;
        let spec = ir.tables.get(usize::from(index)).ok_or(Refused)?;
        let next = ir.flat.tables.get(usize::from(index)).ok_or(Refused)?;
        let number = self.code.number(u64::from(index));
        if spec.profile.is_some() {
            let to = self.code.call(helper::apply(), &[number]);
            return self.branch(region, next, to);
        }
        let found = match self.key(spec) {
            Ok(words) => {
                let plain =
                    !spec.direct_counter && spec.direct_meter.is_none() && !spec.support_timeout;
                let words = words.as_slice();
                match words {
                    [_] if plain => self.find(index, finders::find_1(), words)?,
                    [_, _] if plain => self.find(index, finders::find_2(), words)?,
                    [_, _, _] if plain => self.find(index, finders::find_3(), words)?,
                    _ => {
                        let key = self.code.words(words);
                        let find = if plain {
                            helper::find()
                        } else {
                            helper::find_and_count()
                        };
                        self.code.call(find, &[number, key])
                    }
                }
            }
            Err(Refused) => self.code.call(helper::find_unpacked(), &[number]),
        };
        self.dispatch(region, (index, spec), next, found)
    }

    /// Looks a key up with the function of the table's way of now.
    fn find(&mut self, table: u16, functions: usize, words: &[Value]) -> Result<Value, Refused> {
        let at = usize::from(table) * size_of::<TableState>();
        let at = i64::try_from(at).map_err(|_| Refused)?;
        let way_at = i32::try_from(TableState::WAY).map_err(|_| Refused)?;
        let code = &mut self.code;
        let tables = code.frame_constant(Frame::TABLES);
        let table = code.b.ins().iadd_imm(tables, at);
        let way = code.array_word(table, way_at);
        let functions = code.number(functions as u64);
        let function = code.b.ins().iadd(functions, way);
        let function = code.array_word(function, 0);
        let values: Vec<Value> = std::iter::once(table)
            .chain(words.iter().copied())
            .collect();
        Ok(code.call_function(function, &values))
    }

    /// The key as the table compares it.
    fn key(&mut self, spec: &Table) -> Result<Vec<Value>, Refused> {
        // Per word, the fields of each header together, so that one mask clears them if it is not valid.
        let mut key = vec![Vec::<(Option<Field>, Value)>::new(); usize::from(spec.key_words)];
        for part in &spec.key {
            self.code.check_size()?;
            for (i, value) in self.code.key_words(part.field)?.into_iter().enumerate() {
                let value = match &part.mask {
                    None => value,
                    Some(mask) => {
                        // As in the interpreter, for a word that the mask does not have.
                        let missing = match part.field {
                            AnyField::Narrow(_) => u64::MAX,
                            AnyField::Wide(_) => 0,
                        };
                        let mask = mask.get(i).copied().unwrap_or(missing);
                        self.code.b.ins().band_imm(value, mask.cast_signed())
                    }
                };
                let value = match part.shift {
                    0 => value,
                    by => self.code.b.ins().ishl_imm(value, i64::from(by)),
                };
                let word = key.get_mut(usize::from(part.word) + i).ok_or(Refused)?;
                match word.iter_mut().find(|(valid, _)| *valid == part.valid) {
                    Some((_, fields)) => *fields = self.code.b.ins().bor(*fields, value),
                    None => word.push((part.valid, value)),
                }
            }
        }
        let mut masks = Vec::new();
        let mut words = Vec::new();
        for headers in key {
            let mut word = None;
            for (valid, fields) in headers {
                let fields = match valid {
                    None => fields,
                    Some(valid) => {
                        let ones = self.all_ones_if(valid, &mut masks)?;
                        self.code.b.ins().band(fields, ones)
                    }
                };
                word = Some(match word {
                    None => fields,
                    Some(others) => self.code.b.ins().bor(others, fields),
                });
            }
            words.push(word.unwrap_or_else(|| self.code.number(0)));
        }
        Ok(words)
    }

    /// All ones if a header is valid, else 0; once per key.
    fn all_ones_if(
        &mut self,
        valid: Field,
        made: &mut Vec<(Field, Value)>,
    ) -> Result<Value, Refused> {
        if let Some((_, ones)) = made.iter().find(|(of, _)| *of == valid) {
            return Ok(*ones);
        }
        let bit = self.code.byte(valid.offset)?;
        let ones = self.code.b.ins().ineg(bit);
        made.push((valid, ones));
        Ok(ones)
    }

    /// Jumps to the step that the interpreter returned.
    fn branch(&mut self, region: &mut Region, next: &TableNext, to: Value) -> Result<(), Refused> {
        let mut targets = next.next.clone();
        targets.extend(next.hit);
        targets.extend(next.miss);
        targets.push(next.base);
        targets.sort_unstable();
        targets.dedup();
        let mut switch = Switch::new();
        for target in targets {
            let block = self.block(region, target);
            switch.set_entry(u128::from(target), block);
        }
        let to = self.narrow(to);
        switch.emit(&mut self.code.b, to, self.done);
        Ok(())
    }

    /// Runs the action that was found, then leaves the table.
    fn dispatch(
        &mut self,
        region: &mut Region,
        (index, spec): (u16, &Table),
        next: &TableNext,
        found: Value,
    ) -> Result<(), Refused> {
        let ir = self.code.ir;
        let hit = self.code.b.declare_var(types::I64);
        self.code.b.def_var(hit, found);
        let mut switch = Switch::new();
        let mut actions = Vec::new();
        for (local, action) in (0_u16..).zip(&spec.actions) {
            let block = self.code.b.create_block();
            switch.set_entry(u128::from(local), block);
            actions.push((block, *action, next.next.get(usize::from(local)).copied()));
        }
        let none = self.code.b.create_block();
        let local = self.narrow(found);
        if actions.len() <= FEW_ACTIONS {
            self.choose(local, &actions, none);
        } else {
            switch.emit(&mut self.code.b, local, none);
        }

        self.code.b.switch_to_block(none);
        let base = Some(next.base);
        self.leave(region, next, base, found);
        for (block, action, by_action) in actions {
            self.code.b.switch_to_block(block);
            self.code.check_size()?;
            let start = ir.flat.actions.get(usize::from(action)).copied();
            if let Some(start) = start {
                let args = self.args(action)?;
                let after = self.code.b.create_block();
                self.region(Region::new(after, Some(args), Some((index, hit))), start)?;
                self.code.b.switch_to_block(after);
                if ir
                    .actions
                    .get(usize::from(action))
                    .is_some_and(Action::may_exit)
                {
                    let exit = self.code.call(helper::exit(), &[]);
                    self.end_if(exit);
                }
            }
            let found = self.code.b.use_var(hit);
            self.leave(region, next, by_action, found);
        }
        Ok(())
    }

    /// Jumps to the action of a number, which is compared with each: faster than a jump through a list.
    fn choose(&mut self, local: Value, actions: &[(Block, u16, Option<u32>)], none: Block) {
        for (number, (block, ..)) in (0..).zip(actions) {
            let same = self.code.b.ins().icmp_imm(IntCC::Equal, local, number);
            let other = self.code.b.create_block();
            self.code.b.ins().brif(same, *block, &[], other, &[]);
            self.code.b.switch_to_block(other);
        }
        self.code.b.ins().jump(none, &[]);
    }

    /// The arguments of the action that was just found.
    fn args(&mut self, action: u16) -> Result<Args, Refused> {
        let action = self.code.ir.actions.get(usize::from(action));
        let words = action.ok_or(Refused)?.arg_words;
        let args = self.code.entry_args(words);
        let at = self.code.b.declare_var(types::I64);
        self.code.b.def_var(at, args);
        Ok(Args { at, words })
    }

    /// Jumps to the step after the table: by hit or miss if the program branches on that, else by action.
    fn leave(
        &mut self,
        region: &mut Region,
        next: &TableNext,
        by_action: Option<u32>,
        found: Value,
    ) {
        let default = by_action.unwrap_or(next.base);
        let hit = next.hit.unwrap_or(default);
        let miss = next.miss.unwrap_or(default);
        let (hit, miss): (Block, Block) = (self.block(region, hit), self.block(region, miss));
        if hit == miss {
            self.code.b.ins().jump(hit, &[]);
        } else {
            let by = self.code.b.ins().band_imm(found, helper::HIT.cast_signed());
            self.code.b.ins().brif(by, hit, &[], miss, &[]);
        }
    }
}

impl Code<'_, '_> {
    /// Address of the argument words of an action that takes as many.
    pub(super) fn entry_args(&mut self, words: u16) -> Value {
        let args = self.frame_word(Frame::ARGS);
        if usize::from(words) <= INLINE {
            return args;
        }
        self.array_word(args, 0)
    }
}
