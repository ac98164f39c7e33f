// SPDX-License-Identifier: Apache-2.0
//! Live bytes: those that a packet may read before it has written them. Machine code clears no others.
//!
//! This is the analysis of live variables, backwards through deparser, egress, ingress and parser (Aho, Lam, Sethi and
//! Ullman: Compilers, 9.2.5). A program reads a header's fields where the header is valid, and a header is not valid at
//! the start. So the analysis tells bytes that may be read from those that may be read if their header is valid.

mod access;
mod bytes;
#[cfg(test)]
mod tests;

use super::Loader;
use crate::ir::{
    Action, Checksum, Exit, Expr, Field, Flow, Header, Ir, ParseState, ParserOp, Step, Table,
    TableNext,
};
use bytes::Live;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that one round of the analysis visits. All fields are live in a program that is too large for it.
const MOST_BYTES: usize = 64 << 20;

impl Loader<'_> {
    /// Called when the program is complete.
    pub(super) fn live_at_start(&mut self) {
        self.ir.live_at_start = ranges(&self.ir);
    }
}

/// The ranges of `Ir::live_at_start`.
fn ranges(ir: &Ir) -> Vec<(u32, u32)> {
    let most = MOST_BYTES / ir.phv_bytes.max(1);
    let Some(order) = Order::of(ir, most.saturating_sub(ir.states.len())) else {
        return ir.cleared.clone();
    };
    let mut live = Analysis::new(ir, order).at_start();
    let valid = |header: &&Header| ir.valid_at_start.contains(&header.valid);
    ir.headers
        .iter()
        .filter(valid)
        .for_each(|header| live.becomes_valid(header));
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    let cleared = ir.cleared.iter();
    for byte in cleared.flat_map(|(start, bytes)| *start..start + bytes) {
        match ranges.last_mut() {
            _ if !live.contains(byte as usize) => {}
            Some((start, bytes)) if *start + *bytes == byte => *bytes += 1,
            _ => ranges.push((byte, 1)),
        }
    }
    ranges
}

struct Analysis<'a> {
    ir: &'a Ir,
    /// Before each step.
    steps: Vec<Live>,
    /// Before each state of the parser.
    states: Vec<Live>,
    /// At the end of either pipeline.
    end: Live,
    /// At the end of the parser.
    parsed: Live,
    order: Order,
    /// Headers by the offset of their validity.
    by_valid: BTreeMap<u32, &'a Header>,
}

impl<'a> Analysis<'a> {
    fn new(ir: &'a Ir, order: Order) -> Self {
        let nothing = Live::nothing(ir.phv_bytes);
        Self {
            ir,
            steps: vec![nothing.clone(); ir.flat.steps.len()],
            states: vec![nothing.clone(); ir.states.len()],
            end: nothing.clone(),
            parsed: nothing,
            order,
            by_valid: ir.headers.iter().map(|h| (h.valid, h)).collect(),
        }
    }

    /// Repeats until nothing changes; states only grow.
    fn at_start(mut self) -> Live {
        let ir = self.ir;
        let (mut end, mut changed) = (self.deparser(), true);
        while changed {
            changed = false;
            end.add(&self.at(ir.flat.egress));
            self.end.add(&end);
            for place in 0..self.order.steps.len() {
                let at = self.order.steps[place];
                let live = self.before(at, &ir.flat.steps[at]);
                if self.steps[at] != live {
                    self.steps[at] = live;
                    changed = true;
                }
            }
        }
        self.parsed = self.at(ir.flat.ingress);
        for checksum in &ir.verify {
            self.parsed.add(&self.checksum(checksum));
        }
        changed = true;
        while changed {
            changed = false;
            for (at, state) in ir.states.iter().enumerate().rev() {
                let live = self.before_state(state);
                if let Some(old) = self.states.get_mut(at)
                    && *old != live
                {
                    *old = live;
                    changed = true;
                }
            }
        }
        match ir.start {
            Some(start) => self.state(Some(start)),
            None => self.parsed,
        }
    }

    /// Before a step; at the end if there is none.
    fn at(&self, step: u32) -> Live {
        let step = self.steps.get(step as usize);
        step.unwrap_or(&self.end).clone()
    }

    fn state(&self, state: Option<u16>) -> Live {
        let state = state.and_then(|state| self.states.get(usize::from(state)));
        state.unwrap_or(&self.parsed).clone()
    }

    /// The bytes that the deparser, checksum updates and the switch itself read after a pipeline.
    fn deparser(&self) -> Live {
        let ir = self.ir;
        let mut live = Live::nothing(ir.phv_bytes);
        for number in &ir.deparse {
            if let Some(header) = ir.headers.get(usize::from(*number)) {
                live.emit(header);
            }
        }
        for prim in ir.deparse_prims.iter().rev() {
            live.prim(ir, prim);
        }
        for checksum in &ir.update {
            live.add(&self.checksum(checksum));
        }
        // A copy of the packet keeps the fields that its list had at the end of the pipeline.
        for list in (0..).take(ir.field_lists.len()) {
            live.read_list(ir, list);
        }
        for slot in ir.intrinsics.slots() {
            live.read_slot(slot);
        }
        live
    }

    fn checksum(&self, checksum: &Checksum) -> Live {
        let ir = self.ir;
        let mut live = Live::nothing(ir.phv_bytes);
        live.read_inputs(ir, checksum.calculation);
        live.read_field(ir, checksum.target);
        let condition = match checksum.condition {
            Some(Expr::Field(field)) => self.validity(field),
            _ => None,
        };
        let target = checksum
            .target_valid
            .and_then(|valid| self.by_valid.get(&valid));
        for header in condition.into_iter().chain(target.copied()) {
            live.assume_valid(header);
            live.read_byte(header.valid);
        }
        if let Some(condition) = checksum.condition {
            live.read_expr(ir, condition);
        }
        live
    }

    /// The header whose validity a field is.
    fn validity(&self, field: Field) -> Option<&'a Header> {
        let is_byte = field.shift == 56 && field.width == 1 && !field.signed;
        self.by_valid
            .get(&field.offset)
            .copied()
            .filter(|_| is_byte)
    }

    /// The header whose validity a branch tests, and whether it jumps if the header is valid.
    fn tested(&self, step: &Step) -> Option<(&'a Header, bool)> {
        let (field, value) = match step {
            Step::IfZero { field, .. } => (field, 1),
            Step::IfNotEqual { field, value, .. } if *value < 2 => (field, *value),
            Step::IfFalse {
                value: Expr::Field(field),
                ..
            } => return Some((self.validity(*field)?, false)),
            _ => return None,
        };
        let is_byte = field.shift == 56 && field.mask == 1;
        let header = self
            .by_valid
            .get(&field.offset)
            .filter(|_| is_byte && field.own_bytes <= 1)?;
        Some((header, value == 0))
    }

    fn before(&self, at: usize, step: &Step) -> Live {
        let next = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let mut live = match step.flow() {
            Flow::Next => self.at(next),
            Flow::Jump(to) => self.at(to),
            Flow::Branch(to) => {
                let (mut there, mut here) = (self.at(to), self.at(next));
                if let Some((header, jumps_if_valid)) = self.tested(step) {
                    let (valid, invalid) = if jumps_if_valid {
                        (&mut there, &mut here)
                    } else {
                        (&mut here, &mut there)
                    };
                    valid.assume_valid(header);
                    invalid.assume_invalid(header);
                }
                there.add(&here);
                there
            }
            Flow::NextOrExit => {
                let mut live = self.end.clone();
                live.add(&self.at(next));
                live
            }
            Flow::Table => self.after_table(step),
            Flow::End => match self.order.returns.get(&at) {
                Some(returns) => {
                    let mut live = Live::nothing(self.ir.phv_bytes);
                    returns.iter().for_each(|to| live.add(&self.at(*to)));
                    live
                }
                None => self.end.clone(),
            },
        };
        live.step(self.ir, step);
        live
    }

    fn after_table(&self, step: &Step) -> Live {
        let mut live = Live::nothing(self.ir.phv_bytes);
        let Some((table, next)) = table(self.ir, step) else {
            return live;
        };
        for action in &table.actions {
            if let Some(first) = self.ir.flat.actions.get(usize::from(*action)) {
                live.add(&self.at(*first));
            }
        }
        for to in next.after_none() {
            live.add(&self.at(to));
        }
        live
    }

    fn before_state(&self, state: &ParseState) -> Live {
        let ir = self.ir;
        // A key may match nothing.
        let mut live = self.parsed.clone();
        for next in state.targets() {
            live.add(&self.state(Some(next)));
        }
        for part in &state.key {
            live.read_expr(ir, part.value);
        }
        for op in state.ops.iter().rev() {
            live.parser_op(ir, op);
            // The operation may fail, without an effect.
            match op {
                ParserOp::Set {
                    lookahead_bits: 0, ..
                } => {}
                // A false `assert` also skips ingress.
                ParserOp::Prim(prim) if prim.exit() == Exit::Never => {}
                ParserOp::Prim(_) => {
                    live.add(&self.parsed);
                    live.add(&self.end);
                }
                ParserOp::Extract(_)
                | ParserOp::ExtractNext(_)
                | ParserOp::ExtractVarbit { .. }
                | ParserOp::Set { .. }
                | ParserOp::Verify { .. }
                | ParserOp::Advance { .. } => live.add(&self.parsed),
            }
        }
        live
    }
}

/// The order in which the analysis visits the steps: each after those that may follow it.
struct Order {
    /// A table's actions are visited for each table.
    steps: Vec<usize>,
    /// For each `Return`, the steps to which it may return.
    returns: BTreeMap<usize, BTreeSet<u32>>,
}

impl Order {
    /// None if there are more than `most` visits.
    fn of(ir: &Ir, most: usize) -> Option<Self> {
        let mut order = Self {
            steps: Vec::new(),
            returns: BTreeMap::new(),
        };
        let mut bodies: BTreeMap<u16, BTreeSet<usize>> = BTreeMap::new();
        for (at, step) in ir.flat.steps.iter().enumerate().rev() {
            for (action, after) in actions(ir, step) {
                let body = bodies.entry(action);
                let body = body.or_insert_with(|| body_of(ir, action));
                for at in body.iter().rev() {
                    order.steps.push(*at);
                    if ir.flat.steps[*at].flow() == Flow::End {
                        order.returns.entry(*at).or_default().extend(&after);
                    }
                }
            }
            order.steps.push(at);
            if order.steps.len() > most {
                return None;
            }
        }
        Some(order)
    }
}

/// The actions of a table's step, each with the steps that may follow it.
fn actions(ir: &Ir, step: &Step) -> Vec<(u16, Vec<u32>)> {
    let Some((table, next)) = table(ir, step) else {
        return Vec::new();
    };
    let after = |(number, action): (usize, &u16)| {
        let exits = ir
            .actions
            .get(usize::from(*action))
            .is_some_and(Action::may_exit);
        // The pipeline ends after the action, without a step for it.
        let end = exits.then_some(u32::MAX);
        (*action, next.after_action(number).chain(end).collect())
    };
    table.actions.iter().enumerate().map(after).collect()
}

fn table<'a>(ir: &'a Ir, step: &Step) -> Option<(&'a Table, &'a TableNext)> {
    let Step::Table(index) = step else {
        return None;
    };
    let index = usize::from(*index);
    Some((ir.tables.get(index)?, ir.flat.tables.get(index)?))
}

/// The steps of an action.
fn body_of(ir: &Ir, action: u16) -> BTreeSet<usize> {
    let mut body = BTreeSet::new();
    let first = ir.flat.actions.get(usize::from(action));
    let mut open: Vec<usize> = first.map(|at| *at as usize).into_iter().collect();
    while let Some(at) = open.pop() {
        let Some(step) = ir.flat.steps.get(at) else {
            continue;
        };
        if !body.insert(at) {
            continue;
        }
        match step.flow() {
            Flow::Next | Flow::NextOrExit => open.push(at + 1),
            Flow::Jump(to) => open.push(to as usize),
            Flow::Branch(to) => open.extend([at + 1, to as usize]),
            // No action applies a table.
            Flow::Table | Flow::End => {}
        }
    }
    body
}
