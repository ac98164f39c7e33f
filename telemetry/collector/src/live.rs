// SPDX-License-Identifier: Apache-2.0
//! The current state of each policer, from the reports: for the metrics, not for the files.

use rustc_hash::FxHashMap;
use weir_report::{Domain, Report, drop_reason};

/// Policers beyond this number share one entry: the numbers come from outside, and each entry takes memory.
pub(crate) const MAX_POLICERS: usize = 4096;
/// The same bound for switches, and for pairs of switch and drop reason.
const MAX_NODES: usize = 1024;

/// Green, yellow, red, and any other.
pub(crate) const COLOURS: usize = 4;

/// A policer of a switch; `None` for all beyond [`MAX_POLICERS`].
pub(crate) type PolicerKey = Option<(u32, u16)>;

/// Reports and their packets' bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) packets: u64,
    /// Of the frames without FCS, as metered.
    pub(crate) bytes: u64,
}

/// A queue's state in the newest report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueState {
    /// In the target's unit.
    pub(crate) occupancy: u32,
    /// Time in the switch, for a packet that was dequeued.
    pub(crate) delay_ns: Option<u64>,
}

/// One policer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policer {
    /// By colour (the last entry for unknown colours), and by whether the packets were dropped.
    pub(crate) reports: [[Tally; 2]; COLOURS],
    /// Packets metered by the cell up to the newest report, from its packet number.
    pub(crate) packets: u64,
    pub(crate) queue: Option<QueueState>,
}

/// The state of all policers, queues and drop reasons.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) policers: FxHashMap<PolicerKey, Policer>,
    /// Dropped packets by switch and drop reason.
    pub(crate) drops: FxHashMap<(u32, u8), u64>,
    /// Packets in the gaps that queues report, by switch.
    pub(crate) queue_lost: FxHashMap<u32, u64>,
}

impl Live {
    /// Counts a report of `node_id`.
    pub(crate) fn note(&mut self, node_id: u32, report: &Report<'_>) {
        let reason = report.baseline.drop.map(|cause| cause.reason);
        if let (true, Some(reason)) = (report.dropped, reason) {
            count(&mut self.drops, (node_id, reason), 1);
        }
        let Domain::Weir(weir) = report.domain else {
            return;
        };
        if let Some(lost) = weir.queue_lost {
            count(&mut self.queue_lost, node_id, lost.into());
        }
        let Some(verdict) = weir.verdict else { return };
        let key = Some((node_id, verdict.policer));
        let many = self.policers.len() >= MAX_POLICERS;
        let key = key.filter(|_| !many || self.policers.contains_key(&key));
        let policer = self.policers.entry(key).or_default();
        let colour = usize::from(verdict.colour).min(COLOURS - 1);
        let tally = &mut policer.reports[colour][usize::from(report.dropped)];
        tally.packets += 1;
        tally.bytes += u64::from(weir.wire_length.unwrap_or(0));
        if let (Some(number), Some(_)) = (weir.packet_number, key) {
            policer.packets = unwrapped(policer.packets, number);
        }
        // A packet dropped in ingress was never enqueued.
        if !report.dropped || reason == Some(drop_reason::QUEUE) {
            policer.queue = queue_state(report).or(policer.queue);
        }
    }
}

fn queue_state(report: &Report<'_>) -> Option<QueueState> {
    let baseline = &report.baseline;
    let times = baseline.ingress_ns.zip(baseline.egress_ns);
    Some(QueueState {
        occupancy: baseline.queue?.level,
        delay_ns: times.and_then(|(came, left)| left.checked_sub(came)),
    })
}

fn count<K: std::hash::Hash + Eq>(counts: &mut FxHashMap<K, u64>, key: K, by: u64) {
    if let Some(count) = counts.get_mut(&key) {
        *count += by;
    } else if counts.len() < MAX_NODES {
        counts.insert(key, by);
    }
}

/// The 64-bit count whose low half is `number` and which is nearest to `before`, so that neither a late report nor the
/// wrap of the number makes it jump. When a switch restarts its numbers, the count restarts too.
fn unwrapped(before: u64, number: u32) -> u64 {
    /// A number lower by more than this, or by more than half, means a restart and not a late report.
    const LATE: u32 = 1 << 20;
    #[allow(clippy::cast_possible_truncation, reason = "the low half is compared")]
    let low = before as u32;
    let ahead = number.wrapping_sub(low);
    if ahead < 1 << 31 {
        before + u64::from(ahead)
    } else if low.wrapping_sub(number) <= LATE.min(low / 2) {
        before
    } else {
        number.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_numbers_are_followed_across_wrap_reordering_and_restart() {
        assert_eq!(unwrapped(0, 7), 7);
        assert_eq!(unwrapped(1000, 990), 1000);
        assert_eq!(unwrapped(u64::from(u32::MAX), 4), (1 << 32) + 4);
        // A restart: far below the last number.
        assert_eq!(unwrapped(1_000_000, 1), 1);
    }
}
