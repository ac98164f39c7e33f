// SPDX-License-Identifier: Apache-2.0
//! Where steps in a row use cells of large arrays, a step in front of the first of them that brings all these cells near:
//! their delays then pass at the same time, and where the packets of a burst wait for each other, while others are worked
//! on. Steps that a branch may pass by bring nothing, and neither does an index that may yet change: what is brought and
//! not used drives something else out of the caches. It changes nothing that a program can see.

use super::{COUNTER_BYTES, Loader, METER_BYTES};
use crate::ir::{ArrayRef, Flat, Prefetch, Slot, Step};

/// Arrays up to this size stay in a cache by themselves.
const NEAR_BYTES: u64 = 32 << 10;

impl Loader<'_> {
    /// Adds the steps to the flat program.
    pub(super) fn prefetch(&mut self) {
        let info = &self.info;
        insert(&mut self.ir.flat, |array| {
            let bytes = match array {
                ArrayRef::Counter(i) => {
                    let array = info.counters.get(usize::from(i));
                    array.map(|c| c.size.saturating_mul(COUNTER_BYTES))
                }
                ArrayRef::Meter(i) => {
                    let array = info.meters.get(usize::from(i));
                    array.map(|m| m.size.saturating_mul(METER_BYTES))
                }
                ArrayRef::Register(i) => {
                    let array = info.registers.get(usize::from(i));
                    array.map(|r| {
                        r.size
                            .saturating_mul(u64::from(r.width_bits.div_ceil(64) * 8))
                    })
                }
            };
            bytes.is_some_and(|bytes| bytes > NEAR_BYTES)
        });
    }
}

/// Adds the steps. `large` tells which arrays are more than a cache holds.
fn insert(flat: &mut Flat, large: impl Fn(ArrayRef) -> bool) {
    let mut wanted: Vec<(usize, Prefetch)> = Vec::new();
    let follows = follows(flat);
    for start in (0..flat.steps.len()).filter(|at| follows.get(*at) == Some(&false)) {
        let mut row = Row::default();
        let mut next = Some(start);
        // A row that leads back to itself ends somewhere too.
        for _ in 0..flat.steps.len() {
            let Some((at, step)) = next.and_then(|at| Some((at, flat.steps.get(at)?))) else {
                break;
            };
            row.add(at, step, &large);
            next = behind(at, step).filter(|at| follows.get(*at) == Some(&true));
        }
        row.end(&mut wanted);
    }
    wanted.sort_by_key(|(place, _)| *place);

    let mut places = Vec::with_capacity(flat.steps.len());
    let mut steps = Vec::with_capacity(flat.steps.len() + wanted.len());
    let mut coming = wanted.iter().enumerate().peekable();
    for (at, step) in flat.steps.iter().enumerate() {
        places.push(u32::try_from(steps.len()).unwrap_or(u32::MAX));
        while let Some((index, _)) = coming.next_if(|(_, (place, _))| *place == at) {
            steps.push(Step::Prefetch(u32::try_from(index).unwrap_or(u32::MAX)));
        }
        steps.push(*step);
    }
    places.push(u32::try_from(steps.len()).unwrap_or(u32::MAX));
    let moved = |at: &mut u32| *at = places.get(*at as usize).copied().unwrap_or(*at);
    for step in &mut steps {
        if let Step::IfZero { to, .. }
        | Step::IfNotEqual { to, .. }
        | Step::IfFalse { to, .. }
        | Step::Jump(to) = step
        {
            moved(to);
        }
    }
    flat.actions.iter_mut().for_each(moved);
    for table in &mut flat.tables {
        table.next.iter_mut().for_each(moved);
        table.hit.iter_mut().for_each(moved);
        table.miss.iter_mut().for_each(moved);
        moved(&mut table.base);
    }
    moved(&mut flat.ingress);
    moved(&mut flat.egress);
    flat.steps = steps;
    flat.prefetches = wanted.into_iter().map(|(_, wanted)| wanted).collect();
}

/// The cells of large arrays that steps in a row use.
#[derive(Default)]
struct Row {
    /// The first step that uses any.
    first: usize,
    cells: Vec<Prefetch>,
    /// What was written behind the first, and what was made of an index by bits on its right.
    written: Vec<Slot>,
    made: Vec<(Slot, Slot, u32)>,
}

impl Row {
    fn add(&mut self, at: usize, step: &Step, large: impl Fn(ArrayRef) -> bool) {
        if let Some((array, index)) = used(step)
            && large(array)
        {
            let made = self.made.iter().rev().find(|(to, ..)| *to == index);
            // Such an index leads to cells beside each other.
            let (index, by) = made.map_or((index, 0), |(_, high, by)| (*high, *by));
            if self.cells.is_empty() {
                self.first = at;
                self.written.clear();
            }
            if !self.written.contains(&index) {
                self.want(index, (array, by));
            }
        }
        let Some(to) = written(step) else { return };
        self.written.push(to);
        self.made
            .retain(|(made, high, _)| *made != to && *high != to);
        if let Step::Concat { to, high, by, .. } = step
            && to != high
        {
            self.made.push((*to, *high, *by));
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

    /// Hands over what is wanted and where.
    fn end(self, wanted: &mut Vec<(usize, Prefetch)>) {
        let cells = self.cells.into_iter();
        wanted.extend(cells.map(|cells| (self.first, cells)));
    }
}

/// The array that a step uses, and the cell's index.
fn used(step: &Step) -> Option<(ArrayRef, Slot)> {
    match step {
        Step::Count { counter, index } => Some((ArrayRef::Counter(*counter), *index)),
        Step::Meter { meter, index, .. } => Some((ArrayRef::Meter(*meter), *index)),
        Step::ReadRegister {
            register, index, ..
        }
        | Step::WriteRegister {
            register, index, ..
        } => Some((ArrayRef::Register(*register), *index)),
        _ => None,
    }
}

/// The step that always comes behind a step, if there is one.
fn behind(at: usize, step: &Step) -> Option<usize> {
    match step {
        Step::IfZero { .. }
        | Step::IfNotEqual { .. }
        | Step::IfFalse { .. }
        | Step::Table(_)
        | Step::Return
        | Step::Assert(_)
        | Step::StopIfExit
        | Step::End => None,
        Step::Jump(to) => Some(*to as usize),
        _ => Some(at + 1),
    }
}

/// Which steps control comes to from one step alone, which always leads there.
fn follows(flat: &Flat) -> Vec<bool> {
    let mut ways = vec![0_u32; flat.steps.len()];
    let mut way = |to: usize, count: u32| {
        if let Some(ways) = ways.get_mut(to) {
            *ways += count;
        }
    };
    // More than one: what begins there is no part of the row before.
    let mut branch = |to: &u32| way(*to as usize, 2);
    flat.targets().for_each(&mut branch);
    flat.actions.iter().for_each(&mut branch);
    branch(&flat.ingress);
    branch(&flat.egress);
    for (at, step) in flat.steps.iter().enumerate() {
        match (behind(at, step), step) {
            (Some(to), _) => way(to, 1),
            (None, Step::Return | Step::End) => {}
            (None, step) => {
                way(at + 1, 2);
                if let Step::IfZero { to, .. }
                | Step::IfNotEqual { to, .. }
                | Step::IfFalse { to, .. } = step
                {
                    way(*to as usize, 2);
                }
            }
        }
    }
    ways.into_iter().map(|ways| ways == 1).collect()
}

/// The slot that a step writes and that may be an index.
fn written(step: &Step) -> Option<Slot> {
    match step {
        Step::Copy { to, .. }
        | Step::AddConst { to, .. }
        | Step::Concat { to, .. }
        | Step::SetArg { to, .. }
        | Step::Set { to, .. }
        | Step::Hash { to, .. }
        | Step::Meter { to, .. }
        | Step::ReadRegister { to, .. } => Some(*to),
        _ => None,
    }
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
    fn cells_of_a_row_are_brought_before_the_first() {
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
    fn a_row_goes_on_where_a_jump_alone_leads() {
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
    fn nothing_is_brought_that_may_not_be_used() {
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
        let place = |array| flat.prefetches.iter().position(|p| p.arrays[0].0 == array);
        let before = |at: usize, array: u16| {
            let place = place(ArrayRef::Counter(array)).expect("brought");
            assert_eq!(flat.prefetches[place].arrays.len(), 1);
            assert_eq!(
                flat.steps[at],
                Step::Prefetch(u32::try_from(place).unwrap())
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
    fn an_index_that_changes_in_the_row_is_not_followed() {
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
