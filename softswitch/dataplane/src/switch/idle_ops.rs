// SPDX-License-Identifier: Apache-2.0
//! Control of idle timeouts, for tables that have them.

use super::Switch;
use crate::control::EntryHandle;
use crate::error::ControlError;
use crate::info::TableId;
use crate::tables::TableState;

impl Switch {
    /// Sets the time without a hit after which an entry is reported; 0: never. Times below 1 ms count as 1 ms. The time
    /// runs from now on.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`, `InvalidValue` for a table without idle timeouts.
    pub fn set_idle_timeout(
        &mut self,
        table: TableId,
        handle: EntryHandle,
        timeout_ns: u64,
    ) -> Result<(), ControlError> {
        self.idle_timeout(table, handle)?;
        let now_ns = self.now_ns;
        if let Some(idle) = self.state_mut(table)?.idle_mut() {
            idle.set(handle.0, timeout_ns, now_ns);
        }
        Ok(())
    }

    /// The idle timeout of an entry, ns; 0: never.
    ///
    /// # Errors
    /// As `set_idle_timeout`.
    pub fn idle_timeout(&self, table: TableId, handle: EntryHandle) -> Result<u64, ControlError> {
        let (view, _) = self.table_entry(table, handle)?;
        let idle = view
            .state
            .idle()
            .ok_or_else(|| ControlError::InvalidValue {
                what: format!("table {}", view.info.name),
                reason: "the program declares no idle timeout for it".into(),
            })?;
        Ok(idle.timeout_ns(handle.0))
    }

    /// Time since the last hit of an entry (since its insertion, before one), ns.
    ///
    /// # Errors
    /// As `set_idle_timeout`.
    pub fn idle_ns(&self, table: TableId, handle: EntryHandle) -> Result<u64, ControlError> {
        let last_hit_ns = self.last_hit_ns(table, handle)?;
        Ok(self.now_ns.saturating_sub(last_hit_ns))
    }

    /// Time of the last hit of an entry (of its insertion, before one), ns.
    ///
    /// # Errors
    /// As `set_idle_timeout`.
    pub fn last_hit_ns(&self, table: TableId, handle: EntryHandle) -> Result<u64, ControlError> {
        self.idle_timeout(table, handle)?;
        let idle = self.table_view(table)?.state.idle();
        Ok(idle.map_or(0, |idle| idle.last_hit_ns(handle.0)))
    }

    /// The earliest time at which [`Switch::drain_idle`] may report an entry. It is no event of the dataplane and
    /// affects no packet.
    pub fn next_idle_ns(&self) -> Option<u64> {
        let timers = self.tables.iter().filter_map(TableState::idle);
        timers
            .filter_map(crate::tables::idle::IdleTimers::next_ns)
            .min()
    }

    /// Reports entries whose idle timeout has passed by `now_ns`; their time starts again. Checks at most
    /// `budget` timers, so call it again while `next_idle_ns` is not after `now_ns`.
    pub fn drain_idle(
        &mut self,
        now_ns: u64,
        mut budget: usize,
        mut report: impl FnMut(TableId, EntryHandle),
    ) {
        for (table, state) in (0_u32..).zip(&mut self.tables) {
            let Some(idle) = state.idle_mut() else {
                continue;
            };
            while let Some(slot) = idle.expired(now_ns, &mut budget) {
                report(TableId(table), EntryHandle(slot));
            }
        }
    }
}
