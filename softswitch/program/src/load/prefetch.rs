// SPDX-License-Identifier: Apache-2.0
//! Prefetches: before a run of steps that use cells of large arrays, one step that prefetches all these cells, so that
//! their memory accesses overlap with each other and, in a burst, with the work on other packets.
//!
//! A cell is not prefetched if a branch may skip its use or its index may still change, because an unused line evicts a
//! useful one. Prefetches change nothing that a program can see.

use super::{CellBytes, Loader};
use crate::ir::{ArrayRef, Flat, Flow, Prefetch, Slot, Step};

/// Arrays up to this size stay in a cache anyway.
const NEAR_BYTES: u64 = 32 << 10;

impl Loader<'_> {
    /// Adds the steps to the flat program.
    pub(super) fn prefetch(&mut self) {
        let (info, cells) = (&self.info, self.cells);
        insert(&mut self.ir.flat, |array| {
            let bytes = match array {
                ArrayRef::Counter(i) => {
                    let array = info.counters.get(usize::from(i));
                    array.map(|c| c.size.saturating_mul(cells.counter))
                }
                ArrayRef::Meter(i) => {
                    let array = info.meters.get(usize::from(i));
                    array.map(|m| m.size.saturating_mul(cells.meter))
                }
                ArrayRef::Register(i) => {
                    let array = info.registers.get(usize::from(i));
                    array.map(|r| r.size.saturating_mul(CellBytes::register(r.width_bits)))
                }
            };
            bytes.is_some_and(|bytes| bytes > NEAR_BYTES)
        });
    }
}

/// Adds the steps; `large` is true for the arrays that do not stay in a cache.
fn insert(flat: &mut Flat, large: impl Fn(ArrayRef) -> bool) {
    let mut wanted: Vec<(usize, Prefetch)> = Vec::new();
    let follows = follows(flat);
    for start in (0..flat.steps.len()).filter(|at| follows.get(*at) == Some(&false)) {
        let mut run = Run::default();
        let mut next = Some(start);
        // The bound ends a run that leads back to itself.
        for _ in 0..flat.steps.len() {
            let Some((at, step)) = next.and_then(|at| Some((at, flat.steps.get(at)?))) else {
                break;
            };
            run.add(at, step, &large);
            next = only_successor(at, step).filter(|at| follows.get(*at) == Some(&true));
        }
        run.end(&mut wanted);
    }
    wanted.sort_by_key(|(at, _)| *at);

    let mut moved = Vec::with_capacity(flat.steps.len());
    let mut steps = Vec::with_capacity(flat.steps.len() + wanted.len());
    let mut unplaced = wanted.iter().enumerate().peekable();
    for (at, step) in flat.steps.iter().enumerate() {
        moved.push(u32::try_from(steps.len()).unwrap_or(u32::MAX));
        while let Some((index, _)) = unplaced.next_if(|(_, (before, _))| *before == at) {
            steps.push(Step::Prefetch(u32::try_from(index).unwrap_or(u32::MAX)));
        }
        steps.push(*step);
    }
    moved.push(u32::try_from(steps.len()).unwrap_or(u32::MAX));
    let relocate = |at: &mut u32| *at = moved.get(*at as usize).copied().unwrap_or(*at);
    steps
        .iter_mut()
        .filter_map(Step::target_mut)
        .for_each(relocate);
    flat.actions.iter_mut().for_each(relocate);
    for table in &mut flat.tables {
        table.next.iter_mut().for_each(relocate);
        table.hit.iter_mut().for_each(relocate);
        table.miss.iter_mut().for_each(relocate);
        relocate(&mut table.base);
    }
    for (step, _) in &mut flat.origins {
        relocate(step);
    }
    relocate(&mut flat.ingress);
    relocate(&mut flat.egress);
    flat.steps = steps;
    flat.prefetches = wanted.into_iter().map(|(_, wanted)| wanted).collect();
}

/// Steps that always run one after the other, and the cells of large arrays that they use.
#[derive(Default)]
struct Run {
    /// The first step that uses any.
    first: usize,
    cells: Vec<Prefetch>,
    /// Slots written after the first step.
    written: Vec<Slot>,
    /// Slots that were computed as `high << by | low`: the slot, `high` and `by`.
    concatenated: Vec<(Slot, Slot, u32)>,
}

impl Run {
    fn add(&mut self, at: usize, step: &Step, large: impl Fn(ArrayRef) -> bool) {
        let (cell, written) = accesses(step);
        if let Some((array, index)) = cell
            && large(array)
        {
            let mut concatenated = self.concatenated.iter().rev();
            let from = concatenated.find(|(to, ..)| *to == index);
            // The low bits select among cells next to each other.
            let (index, by) = from.map_or((index, 0), |(_, high, by)| (*high, *by));
            if self.cells.is_empty() {
                self.first = at;
                self.written.clear();
            }
            if !self.written.contains(&index) {
                self.want(index, (array, by));
            }
        }
        let Some(to) = written else { return };
        self.written.push(to);
        self.concatenated
            .retain(|(slot, high, _)| *slot != to && *high != to);
        if let Step::Concat { to, high, by, .. } = step
            && to != high
        {
            self.concatenated.push((*to, *high, *by));
        }
    }

    fn want(&mut self, index: Slot, cell: (ArrayRef, u32)) {
        match self.cells.iter_mut().find(|cells| cells.index == index) {
            Some(cells) if cells.arrays.contains(&cell) => {}
            Some(cells) => cells.arrays.push(cell),
            None => self.cells.push(Prefetch {
                index,
                arrays: vec![cell],
            }),
        }
    }

    /// Appends the prefetches, each with the step that it comes before.
    fn end(self, wanted: &mut Vec<(usize, Prefetch)>) {
        let cells = self.cells.into_iter();
        wanted.extend(cells.map(|cells| (self.first, cells)));
    }
}

/// The cell that a step uses, and the slot that it writes.
///
/// Steps that write by window or by primitive return no slot: at worst a prefetch is useless.
fn accesses(step: &Step) -> (Option<(ArrayRef, Slot)>, Option<Slot>) {
    match step {
        Step::Count { counter, index } => (Some((ArrayRef::Counter(*counter), *index)), None),
        Step::Meter { meter, index, to } => (Some((ArrayRef::Meter(*meter), *index)), Some(*to)),
        Step::ReadRegister {
            register,
            index,
            to,
        } => (Some((ArrayRef::Register(*register), *index)), Some(*to)),
        Step::WriteRegister {
            register, index, ..
        } => (Some((ArrayRef::Register(*register), *index)), None),
        Step::Copy { to, .. }
        | Step::AddConst { to, .. }
        | Step::Concat { to, .. }
        | Step::SetArg { to, .. }
        | Step::Set { to, .. }
        | Step::Hash { to, .. } => (None, Some(*to)),
        Step::SetConst { .. }
        | Step::IfZero { .. }
        | Step::IfNotEqual { .. }
        | Step::IfFalse { .. }
        | Step::Jump(_)
        | Step::Prefetch(_)
        | Step::Table(_)
        | Step::Return
        | Step::Assert(_)
        | Step::StopIfExit
        | Step::End
        | Step::Slow(_) => (None, None),
    }
}

/// The step that always follows a step, if there is one.
fn only_successor(at: usize, step: &Step) -> Option<usize> {
    match step.flow() {
        Flow::Next => Some(at + 1),
        Flow::Jump(to) => Some(to as usize),
        Flow::Branch(_) | Flow::NextOrExit | Flow::Table | Flow::End => None,
    }
}

/// Which steps have exactly one predecessor that they always follow.
fn follows(flat: &Flat) -> Vec<bool> {
    let mut predecessors = vec![0_u32; flat.steps.len()];
    let mut add = |to: usize, count: u32| {
        if let Some(predecessors) = predecessors.get_mut(to) {
            *predecessors += count;
        }
    };
    // Counting two keeps the target of a branch out of the run before it.
    let mut branch = |to: usize| add(to, 2);
    flat.targets().for_each(|to| branch(to as usize));
    flat.actions.iter().for_each(|to| branch(*to as usize));
    branch(flat.ingress as usize);
    branch(flat.egress as usize);
    for (at, step) in flat.steps.iter().enumerate() {
        match step.flow() {
            Flow::Next => add(at + 1, 1),
            Flow::Jump(to) => add(to as usize, 1),
            Flow::Branch(to) => {
                add(at + 1, 2);
                add(to as usize, 2);
            }
            Flow::NextOrExit | Flow::Table => add(at + 1, 2),
            Flow::End => {}
        }
    }
    predecessors.into_iter().map(|count| count == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(offset: u32) -> Slot {
        Slot {
            mask: u64::from(u16::MAX),
            offset,
            shift: 48,
            own_bytes: 2,
        }
    }

    fn count(counter: u16, index: Slot) -> Step {
        Step::Count { counter, index }
    }

    /// The program with its steps, all arrays being large but counter 9.
    fn inserted(steps: Vec<Step>) -> Flat {
        let mut flat = Flat {
            steps,
            ..Flat::default()
        };
        insert(&mut flat, |array| array != ArrayRef::Counter(9));
        flat
    }

    #[test]
    fn cells_of_a_run_are_prefetched_before_the_first() {
        let (cell, colour, both) = (field(8), field(16), field(24));
        let meter = Step::Meter {
            meter: 0,
            index: cell,
            to: colour,
        };
        let concat = Step::Concat {
            to: both,
            high: cell,
            by: 2,
            low: colour,
        };
        let flat = inserted(vec![
            Step::SetArg { to: cell, word: 0 },
            count(9, cell),
            count(1, cell),
            meter,
            concat,
            count(2, both),
            Step::End,
        ]);
        assert_eq!(flat.steps[2], Step::Prefetch(0));
        assert_eq!(flat.steps.len(), 8);
        let arrays = vec![
            (ArrayRef::Counter(1), 0),
            (ArrayRef::Meter(0), 0),
            (ArrayRef::Counter(2), 2),
        ];
        let index = cell;
        assert_eq!(flat.prefetches, [Prefetch { index, arrays }]);
    }

    #[test]
    fn a_run_continues_at_a_step_that_only_a_jump_leads_to() {
        let cell = field(8);
        let flat = inserted(vec![
            count(1, cell),
            Step::Jump(3),
            Step::End,
            count(2, cell),
            Step::End,
        ]);
        assert_eq!(flat.steps[0], Step::Prefetch(0));
        assert_eq!(flat.steps.len(), 6);
        assert_eq!(flat.steps[2], Step::Jump(4));
        let arrays = vec![(ArrayRef::Counter(1), 0), (ArrayRef::Counter(2), 0)];
        let index = cell;
        assert_eq!(flat.prefetches, [Prefetch { index, arrays }]);
    }

    #[test]
    fn a_cell_that_a_branch_may_skip_is_not_prefetched_before_the_branch() {
        let (cell, other) = (field(8), field(16));
        let flat = inserted(vec![
            count(1, cell),
            Step::IfZero {
                field: other,
                to: 3,
            },
            count(2, cell),
            count(3, cell),
            Step::End,
        ]);
        let prefetch = |array| flat.prefetches.iter().position(|p| p.arrays[0].0 == array);
        let before = |at: usize, array: u16| {
            let number = prefetch(ArrayRef::Counter(array)).expect("prefetched");
            assert_eq!(flat.prefetches[number].arrays.len(), 1);
            assert_eq!(
                flat.steps[at],
                Step::Prefetch(u32::try_from(number).unwrap())
            );
            assert_eq!(flat.steps[at + 1], count(array, cell));
        };
        before(0, 1);
        before(3, 2);
        before(5, 3);
        assert_eq!(
            flat.steps[2],
            Step::IfZero {
                field: other,
                to: 5
            }
        );
    }

    #[test]
    fn a_cell_whose_index_changes_in_the_run_is_not_prefetched() {
        let (cell, later) = (field(8), field(16));
        let flat = inserted(vec![
            count(1, cell),
            Step::SetArg { to: later, word: 0 },
            count(2, later),
            Step::End,
        ]);
        assert_eq!(flat.prefetches.len(), 1);
        assert_eq!(flat.prefetches[0].index, cell);
        assert_eq!(flat.prefetches[0].arrays, [(ArrayRef::Counter(1), 0)]);
    }
}
