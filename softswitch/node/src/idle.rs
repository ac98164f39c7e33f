// SPDX-License-Identifier: Apache-2.0
//! `IdleTimeoutNotification`: entries that no packet hit for their timeout.

use std::collections::BTreeMap;

use weir_p4runtime::p4::v1;

use weir_dataplane::{EntryHandle, TableId};

use super::pipeline::Pipeline;
use super::publish::{Event, Idle};
use super::{Node, Notification, Output, matching};

/// Timers checked between two batches of frames.
const TIMERS_PER_TURN: usize = 256;

impl Node {
    /// Notifies of the entries that became idle by `now_ns`, with one notification for each table.
    pub(super) fn notify_idle(&mut self, now_ns: u64, output: &mut impl Output) {
        let told = self.pipeline.is_some() || self.learning.is_some();
        let Some(switch) = self.switch.as_mut().filter(|_| told) else {
            return;
        };
        if switch.next_idle_ns().is_none_or(|at_ns| at_ns > now_ns) {
            return;
        }
        let mut expired: BTreeMap<TableId, Vec<EntryHandle>> = BTreeMap::new();
        switch.drain_idle(now_ns, TIMERS_PER_TURN, |table, entry| {
            expired.entry(table).or_default().push(entry);
        });
        for (table, entries) in &expired {
            if let (Some(learning), Some(switch)) = (&mut self.learning, &self.switch) {
                learning.publish(Event::Idle(Idle {
                    switch,
                    program: self.programs,
                    table: *table,
                    entries,
                }));
            }
            let Some(pipeline) = &self.pipeline else {
                continue;
            };
            let Some(view) = pipeline.tables.values().find(|view| view.id == *table) else {
                continue;
            };
            let entry = |handle: &EntryHandle| self.idle_entry(pipeline, view.p4info_id, *handle);
            let notification = v1::IdleTimeoutNotification {
                table_entry: entries.iter().filter_map(entry).collect(),
                timestamp: i64::try_from(now_ns).unwrap_or(i64::MAX),
            };
            output.notify(Notification::IdleTimeout(notification), now_ns);
        }
    }

    /// Key, metadata and timeout of an entry.
    fn idle_entry(
        &self,
        pipeline: &Pipeline,
        table: u32,
        handle: EntryHandle,
    ) -> Option<v1::TableEntry> {
        let (view, switch) = (pipeline.tables.get(&table)?, self.switch.as_ref()?);
        let entry = switch.entry(view.id, handle).ok()?;
        let metadata = self.entries.get(&(view.id, handle));
        let metadata = metadata.cloned().unwrap_or_default();
        let timeout_ns = switch.idle_timeout(view.id, handle).ok()?;
        Some(v1::TableEntry {
            table_id: table,
            r#match: matching::to_p4runtime(&view.fields, &entry.key),
            priority: entry.priority,
            controller_metadata: metadata.number,
            metadata: metadata.bytes,
            idle_timeout_ns: i64::try_from(timeout_ns).unwrap_or(i64::MAX),
            ..v1::TableEntry::default()
        })
    }
}
