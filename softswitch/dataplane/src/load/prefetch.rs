// SPDX-License-Identifier: Apache-2.0
//! Where the index of a large array becomes known, a step that brings the cells near: the memory's delays of several
//! arrays then pass at the same time, not one after the other. It changes nothing that a program can see.

use super::{COUNTER_BYTES, Loader, METER_BYTES};
use crate::ir::{ArrayRef, Flat, Prefetch, Slot, Step};
use std::collections::HashMap;

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
    let mut wanted: Vec<Prefetch> = Vec::new();
    let mut want = |index: Slot, array: ArrayRef, by: u32| {
        let place = match wanted.iter().position(|w| w.index == index) {
            Some(place) => place,
            None => {
                wanted.push(Prefetch {
                    index,
                    arrays: Vec::new(),
                });
                wanted.len() - 1
            }
        };
        let arrays = &mut wanted[place].arrays;
        if large(array) && !arrays.contains(&(array, by)) {
            arrays.push((array, by));
        }
    };
    // An index made of another by bits on its right leads to cells beside each other.
    let made_of: HashMap<u32, (Slot, u32)> = flat
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Concat { to, high, by, .. } => Some((to.offset, (*high, *by))),
            _ => None,
        })
        .collect();
    for step in &flat.steps {
        let (index, array) = match step {
            Step::Count { counter, index } => (*index, ArrayRef::Counter(*counter)),
            Step::Meter { meter, index, .. } => (*index, ArrayRef::Meter(*meter)),
            Step::ReadRegister {
                register, index, ..
            }
            | Step::WriteRegister {
                register, index, ..
            } => (*index, ArrayRef::Register(*register)),
            _ => continue,
        };
        match made_of.get(&index.offset) {
            Some((high, by)) => want(*high, array, *by),
            None => want(index, array, 0),
        }
    }
    wanted.retain(|w| !w.arrays.is_empty());

    let mut places = Vec::with_capacity(flat.steps.len());
    let mut steps = Vec::with_capacity(flat.steps.len());
    for step in &flat.steps {
        places.push(u32::try_from(steps.len()).unwrap_or(u32::MAX));
        steps.push(*step);
        let Some(to) = written(step) else { continue };
        if let Some(place) = wanted.iter().position(|w| w.index == to) {
            steps.push(Step::Prefetch(u32::try_from(place).unwrap_or(u32::MAX)));
        }
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
    flat.prefetches = wanted;
}

/// The slot that a step writes and that may be an index.
fn written(step: &Step) -> Option<Slot> {
    match step {
        Step::Copy { to, .. }
        | Step::AddConst { to, .. }
        | Step::Concat { to, .. }
        | Step::SetArg { to, .. }
        | Step::Set { to, .. }
        | Step::Hash { to, .. } => Some(*to),
        _ => None,
    }
}
