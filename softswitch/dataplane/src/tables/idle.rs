// SPDX-License-Identifier: Apache-2.0
//! Idle timeouts of a table's entries. A hit only records its time; a timer checks that time when it expires.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The shortest timeout; it bounds the rate of notifications.
const MIN_TIMEOUT_NS: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, Default)]
struct Idle {
    /// As configured; 0: never.
    timeout_ns: u64,
    last_hit_ns: u64,
    /// Start of the running timeout: insertion, change, notification or last hit.
    since_ns: u64,
    /// Time of the entry's timer in the heap; 0 without one.
    due_ns: u64,
}

/// The timers of one table.
#[derive(Debug, Default)]
pub(crate) struct IdleTimers {
    slots: Vec<Idle>,
    /// Earliest first; a timer whose time differs from its entry's `due_ns` is stale.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl IdleTimers {
    /// Adds an entry.
    pub(crate) fn start(&mut self, slot: u32, timeout_ns: u64, now_ns: u64) {
        let at = slot as usize;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, Idle::default());
        }
        self.slots[at] = Idle {
            last_hit_ns: now_ns,
            ..Idle::default()
        };
        self.set(slot, timeout_ns, now_ns);
    }

    /// Changes a timeout and restarts it.
    pub(crate) fn set(&mut self, slot: u32, timeout_ns: u64, now_ns: u64) {
        if let Some(idle) = self.slots.get_mut(slot as usize) {
            idle.timeout_ns = timeout_ns;
            idle.since_ns = now_ns;
            idle.due_ns = 0;
            self.arm(slot);
        }
    }

    /// Removes an entry.
    pub(crate) fn stop(&mut self, slot: u32) {
        if let Some(idle) = self.slots.get_mut(slot as usize) {
            *idle = Idle::default();
        }
    }

    #[inline]
    pub(crate) fn hit(&mut self, slot: u32, now_ns: u64) {
        if let Some(idle) = self.slots.get_mut(slot as usize) {
            // Packets of a burst may hit in another order than that of their times.
            idle.last_hit_ns = idle.last_hit_ns.max(now_ns);
        }
    }

    pub(crate) fn timeout_ns(&self, slot: u32) -> u64 {
        self.slots.get(slot as usize).map_or(0, |i| i.timeout_ns)
    }

    pub(crate) fn last_hit_ns(&self, slot: u32) -> u64 {
        self.slots.get(slot as usize).map_or(0, |i| i.last_hit_ns)
    }

    /// The earliest time at which a timer may expire.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((due_ns, _))| *due_ns)
    }

    /// The next entry whose timeout has passed by `now_ns`; its timeout starts again. Checks at most `budget` timers.
    pub(crate) fn expired(&mut self, now_ns: u64, budget: &mut usize) -> Option<u32> {
        while let Some(Reverse((due_ns, slot))) = self.heap.peek().copied()
            && due_ns <= now_ns
            && *budget > 0
        {
            *budget -= 1;
            self.heap.pop();
            let Some(idle) = self.slots.get_mut(slot as usize) else {
                continue;
            };
            if idle.due_ns != due_ns {
                continue;
            }
            let expires_ns = idle.last_hit_ns.max(idle.since_ns) + idle.effective_ns();
            let expired = expires_ns <= now_ns;
            if expired {
                idle.since_ns = now_ns;
            }
            self.arm(slot);
            if expired {
                return Some(slot);
            }
        }
        None
    }

    fn arm(&mut self, slot: u32) {
        let Some(idle) = self.slots.get_mut(slot as usize) else {
            return;
        };
        if idle.timeout_ns > 0 {
            let start_ns = idle.last_hit_ns.max(idle.since_ns);
            idle.due_ns = start_ns.saturating_add(idle.effective_ns());
            self.heap.push(Reverse((idle.due_ns, slot)));
        }
        // Changed timeouts leave stale timers behind, which may be due in days.
        if self.heap.len() > 2 * self.slots.len() + 64 {
            let armed = (0..).zip(&self.slots).filter(|(_, idle)| idle.due_ns > 0);
            self.heap = armed
                .map(|(slot, idle)| Reverse((idle.due_ns, slot)))
                .collect();
        }
    }
}

impl Idle {
    fn effective_ns(&self) -> u64 {
        // At most an i64, so that sums with times stay within a u64.
        self.timeout_ns.clamp(MIN_TIMEOUT_NS, i64::MAX as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn expired(timers: &mut IdleTimers, now_ns: u64) -> Vec<u32> {
        let mut budget = 100;
        std::iter::from_fn(|| timers.expired(now_ns, &mut budget)).collect()
    }

    #[test]
    fn an_entry_expires_one_timeout_after_its_last_hit_and_again_after_another() {
        let mut timers = IdleTimers::default();
        timers.start(0, SECOND_NS, 0);
        timers.hit(0, SECOND_NS / 2);
        assert_eq!(timers.next_ns(), Some(SECOND_NS));
        assert_eq!(expired(&mut timers, SECOND_NS), [0_u32; 0]);
        assert_eq!(timers.next_ns(), Some(SECOND_NS * 3 / 2));
        assert_eq!(expired(&mut timers, SECOND_NS * 3 / 2), [0]);
        assert_eq!(timers.last_hit_ns(0), SECOND_NS / 2);
        assert_eq!(expired(&mut timers, SECOND_NS * 2), [0_u32; 0]);
        assert_eq!(expired(&mut timers, SECOND_NS * 5 / 2), [0]);
    }

    #[test]
    fn timers_do_not_grow_with_the_number_of_changes() {
        let mut timers = IdleTimers::default();
        timers.start(0, SECOND_NS, 0);
        timers.start(1, 3_600 * SECOND_NS, 0);
        for change in 0..10_000 {
            timers.set(1, (3_600 + change) * SECOND_NS, change);
        }
        assert!(timers.heap.len() < 100);
        assert_eq!(expired(&mut timers, SECOND_NS), [0]);
        assert_eq!(expired(&mut timers, 20_000 * SECOND_NS), [0, 1]);
    }

    #[test]
    fn a_changed_timeout_and_a_reused_slot_void_the_timer_before() {
        let mut timers = IdleTimers::default();
        timers.start(0, SECOND_NS, 0);
        timers.set(0, 5 * SECOND_NS, 0);
        assert_eq!(expired(&mut timers, SECOND_NS), [0_u32; 0]);
        timers.stop(0);
        timers.start(0, 0, SECOND_NS);
        assert_eq!(expired(&mut timers, 100 * SECOND_NS), [0_u32; 0]);
        assert_eq!(timers.next_ns(), None);
    }

    #[test]
    fn a_budget_bounds_the_timers_that_are_checked() {
        let mut timers = IdleTimers::default();
        for slot in 0..10 {
            timers.start(slot, SECOND_NS, 0);
        }
        let mut budget = 3;
        let mut found = 0;
        while timers.expired(SECOND_NS, &mut budget).is_some() {
            found += 1;
        }
        assert_eq!(found, 3);
        assert_eq!(expired(&mut timers, SECOND_NS).len(), 7);
    }
}
