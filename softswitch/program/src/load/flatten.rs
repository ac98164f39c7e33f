// SPDX-License-Identifier: Apache-2.0
//! Flattens nodes and primitives to the steps of `Flat`.

use crate::ir::{
    Action, AnyField, Exit, Expr, Field, Flat, Ir, Node, Op, Origin, Prim, Slot, Step, TableNext,
    Target,
};
use crate::phv::put;
use std::collections::HashMap;

/// Flattens both pipelines and all actions.
pub(super) fn flatten(ir: &Ir) -> Flat {
    let mut flattener = Flattener {
        ir,
        flat: Flat::default(),
        starts: HashMap::new(),
        waiting: Vec::new(),
        branches: Vec::new(),
    };
    for (index, action) in (0..).zip(&ir.actions) {
        let start = flattener.here();
        flattener.flat.actions.push(start);
        flattener.action(index, action);
        flattener.flat.steps.push(Step::Return);
    }
    let ingress = ir.ingress.unwrap_or(Node::End);
    let egress = ir.egress.unwrap_or(Node::End);
    flattener.waiting.extend([egress, ingress]);
    while let Some(node) = flattener.waiting.pop() {
        if !flattener.starts.contains_key(&node) {
            flattener.chain(node);
        }
    }
    flattener.finish(ingress, egress)
}

struct Flattener<'a> {
    ir: &'a Ir,
    flat: Flat,
    /// First step of each node.
    starts: HashMap<Node, u32>,
    waiting: Vec<Node>,
    /// Branches whose target is not known yet.
    branches: Vec<(usize, Node)>,
}

impl Flattener<'_> {
    fn here(&self) -> u32 {
        u32::try_from(self.flat.steps.len()).unwrap_or(u32::MAX)
    }

    fn start(&self, node: Node) -> u32 {
        self.starts.get(&node).copied().unwrap_or(u32::MAX)
    }

    /// Flattens a node and those that follow it, up to a table, a node that is already flattened, or the end.
    fn chain(&mut self, mut node: Node) {
        loop {
            if let Some(start) = self.starts.get(&node) {
                self.flat.steps.push(Step::Jump(*start));
                return;
            }
            self.starts.insert(node, self.here());
            match node {
                Node::End => {
                    self.flat.steps.push(Step::End);
                    return;
                }
                Node::Call(index) => {
                    let ir = self.ir;
                    let Some(call) = ir.calls.get(usize::from(index)) else {
                        self.flat.steps.push(Step::End);
                        return;
                    };
                    if let Some(action) = ir.actions.get(usize::from(call.action)) {
                        // A step of another path that comes next would have the origin of this one.
                        if let Some(table) = call.table.filter(|_| !action.prims.is_empty()) {
                            let action = call.action;
                            self.origin(0, Origin::Table { table, action });
                        }
                        self.action(call.action, action);
                        if action.may_exit() {
                            self.flat.steps.push(Step::StopIfExit);
                        }
                    }
                    node = call.next;
                }
                Node::Condition(index) => {
                    let Some(condition) = self.ir.conditions.get(usize::from(index)) else {
                        self.flat.steps.push(Step::End);
                        return;
                    };
                    self.origin(0, Origin::Condition(index));
                    self.branches
                        .push((self.flat.steps.len(), condition.if_false));
                    self.waiting.push(condition.if_false);
                    let step = self.branch(condition.value, u32::MAX);
                    self.flat.steps.push(step);
                    node = condition.if_true;
                }
                Node::Table(index) => {
                    self.flat.steps.push(Step::Table(index));
                    if let Some(table) = self.ir.tables.get(usize::from(index)) {
                        self.waiting.extend(&table.next);
                        self.waiting.extend(table.hit);
                        self.waiting.extend(table.miss);
                        self.waiting.push(table.base_next);
                    }
                    return;
                }
            }
        }
    }

    /// Notes what the step after so many more begins.
    fn origin(&mut self, after: u32, origin: Origin) {
        let step = self.here().saturating_add(after);
        self.flat.origins.push((step, origin));
    }

    fn action(&mut self, index: u16, action: &Action) {
        for (number, start) in (0..).zip(&action.starts) {
            if (*start as usize) < action.prims.len() {
                let action = index;
                self.origin(*start, Origin::Primitive { action, number });
            }
        }
        self.prims(&action.prims);
    }

    /// Emits one step per primitive, so that jumps keep their distances.
    fn prims(&mut self, prims: &[Prim]) {
        let base = self.here();
        for prim in prims {
            let step = match prim {
                Prim::Jump(to) => Step::Jump(base.saturating_add(*to)),
                Prim::JumpIfZero { condition, to } => {
                    self.branch(*condition, base.saturating_add(*to))
                }
                other => self.prim(other),
            };
            self.flat.steps.push(step);
        }
    }

    fn branch(&self, condition: Expr, to: u32) -> Step {
        match condition {
            Expr::Field(field) => {
                if let Some(field) = self.slot(field) {
                    return Step::IfZero { field, to };
                }
            }
            Expr::Narrow(code) => {
                let start = code.start as usize;
                let ops = self.ir.ops.get(start..start + code.len as usize);
                if let Some([Op::Load(field), Op::EqConst(value)]) = ops
                    && let Some(field) = self.slot(*field)
                {
                    return Step::IfNotEqual {
                        field,
                        value: *value,
                        to,
                    };
                }
            }
            _ => {}
        }
        Step::IfFalse {
            value: condition,
            to,
        }
    }

    fn slot(&self, field: Field) -> Option<Slot> {
        Slot::new(field, self.ir.metadata_bytes)
    }

    fn expr_slot(&self, expr: Expr) -> Option<Slot> {
        match expr {
            Expr::Field(field) => self.slot(field),
            _ => None,
        }
    }

    fn target_slot(&self, target: Target) -> Option<Slot> {
        match target {
            Target::Field(AnyField::Narrow(field)) => self.slot(Field {
                signed: false,
                ..field
            }),
            _ => None,
        }
    }

    fn prim(&mut self, prim: &Prim) -> Step {
        self.fast(prim).unwrap_or_else(|| {
            self.flat.slow.push(prim.clone());
            let index = u32::try_from(self.flat.slow.len() - 1).unwrap_or(u32::MAX);
            match prim.exit() {
                Exit::AtOnce => Step::Assert(index),
                Exit::Never | Exit::AfterAction => Step::Slow(index),
            }
        })
    }

    fn fast(&self, prim: &Prim) -> Option<Step> {
        match prim {
            Prim::Assign { target, value } => {
                let to = self.target_slot(Target::Field(AnyField::Narrow(*target)))?;
                Some(self.assignment(to, *value))
            }
            Prim::Count { counter, index } => Some(Step::Count {
                counter: *counter,
                index: self.expr_slot(*index)?,
            }),
            Prim::Meter {
                meter,
                index,
                target,
            } => Some(Step::Meter {
                meter: *meter,
                index: self.expr_slot(*index)?,
                to: self.target_slot(*target)?,
            }),
            Prim::RegisterRead {
                target,
                register,
                index,
            } => Some(Step::ReadRegister {
                register: *register,
                index: self.expr_slot(*index)?,
                to: self.target_slot(*target)?,
            }),
            Prim::RegisterWrite {
                register,
                index,
                value,
            } => Some(Step::WriteRegister {
                register: *register,
                index: self.expr_slot(*index)?,
                value: self.expr_slot(*value)?,
            }),
            Prim::Hash {
                target,
                base: Expr::Const(0),
                calculation,
                size: Expr::Const(size),
            } if size.is_power_of_two() => Some(Step::Hash {
                calculation: *calculation,
                to: self.target_slot(*target)?,
                mask: size - 1,
            }),
            _ => None,
        }
    }

    fn assignment(&self, to: Slot, value: Expr) -> Step {
        match value {
            Expr::Const(value) => {
                // Writing the value to a window of ones and to one of zeros gives the step's mask and bits.
                let (mut ones, mut zeros) = ([0xff; 8], [0; 8]);
                let at = Slot { offset: 0, ..to };
                put(&mut ones, at, 0);
                put(&mut zeros, at, value);
                Step::SetConst {
                    offset: to.offset,
                    keep: u64::from_ne_bytes(ones),
                    bits: u64::from_ne_bytes(zeros),
                }
            }
            Expr::Arg(word) => Step::SetArg { to, word },
            Expr::Field(field) => match self.slot(field) {
                Some(from) => Step::Copy { to, from },
                None => Step::Set { to, value },
            },
            Expr::Narrow(code) => {
                let start = code.start as usize;
                let ops = self.ir.ops.get(start..start + code.len as usize);
                if let Some([Op::Load(field), Op::AddConst(add)]) = ops
                    && let Some(from) = self.slot(*field)
                {
                    return Step::AddConst {
                        to,
                        from,
                        value: *add,
                    };
                }
                if let Some(
                    [
                        Op::Load(high),
                        Op::ShlConst(by @ 0..64),
                        Op::Load(low),
                        Op::Or,
                    ],
                ) = ops
                    && let (Some(high), Some(low)) = (self.slot(*high), self.slot(*low))
                {
                    return Step::Concat {
                        to,
                        high,
                        by: *by,
                        low,
                    };
                }
                Step::Set { to, value }
            }
            value => Step::Set { to, value },
        }
    }

    /// Fills in the targets of branches and tables.
    fn finish(mut self, ingress: Node, egress: Node) -> Flat {
        for (at, node) in std::mem::take(&mut self.branches) {
            let start = self.start(node);
            let branch = self.flat.steps.get_mut(at);
            if let Some(to) = branch.and_then(Step::target_mut) {
                *to = start;
            }
        }
        let tables = self.ir.tables.iter().map(|table| TableNext {
            next: table.next.iter().map(|node| self.start(*node)).collect(),
            hit: table.hit.map(|node| self.start(node)),
            miss: table.miss.map(|node| self.start(node)),
            base: self.start(table.base_next),
        });
        let tables = tables.collect();
        let (ingress, egress) = (self.start(ingress), self.start(egress));
        Flat {
            tables,
            ingress,
            egress,
            ..self.flat
        }
    }
}
