// SPDX-License-Identifier: Apache-2.0
//! The selectively acknowledged ranges above the cumulative acknowledgment.

use std::collections::VecDeque;

/// More than a receiver reports. Further ranges count once they are acknowledged cumulatively.
const MOST_RANGES: usize = 1 << 14;

/// Sorted ranges that neither overlap nor touch.
///
/// Each ACK repeats blocks of earlier ACKs. Because the covered ranges are known, only the new part of an ACK costs time.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    ranges: VecDeque<(u64, u64)>,
}

impl Ranges {
    /// Adds `start..end` and appends the parts that are new to `fresh`, in order.
    pub(crate) fn insert(&mut self, start: u64, end: u64, fresh: &mut Vec<(u64, u64)>) {
        if start >= end || self.ranges.len() >= MOST_RANGES {
            return;
        }
        let first = self.ranges.partition_point(|range| range.1 < start);
        let mut merged = (start, end);
        let mut covered_to = start;
        let mut last = first;
        while let Some(&(low, high)) = self.ranges.get(last).filter(|range| range.0 <= end) {
            if low > covered_to {
                fresh.push((covered_to, low));
            }
            covered_to = covered_to.max(high);
            merged = (merged.0.min(low), merged.1.max(high));
            last += 1;
        }
        if covered_to < end {
            fresh.push((covered_to, end));
        }
        if last == first {
            self.ranges.insert(first, merged);
            return;
        }
        if let Some(range) = self.ranges.get_mut(first) {
            *range = merged;
        }
        if last > first + 1 {
            self.ranges.drain(first + 1..last);
        }
    }

    /// Bytes of `start..end` that are covered.
    pub(super) fn covered_bytes(&self, start: u64, end: u64) -> u64 {
        let below = self.ranges.iter().take_while(|range| range.0 < end);
        below
            .map(|range| range.1.min(end).saturating_sub(range.0.max(start)))
            .sum()
    }

    /// The end of the last range.
    pub(crate) fn end(&self) -> Option<u64> {
        self.ranges.back().map(|range| range.1)
    }

    /// Forgets the ranges below `edge`.
    pub(crate) fn drop_below(&mut self, edge: u64) {
        while self.ranges.front().is_some_and(|range| range.1 <= edge) {
            self.ranges.pop_front();
        }
    }
}
