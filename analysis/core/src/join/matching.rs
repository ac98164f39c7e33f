// SPDX-License-Identifier: Apache-2.0
//! Finds the sent packet of an arrival or a drop report.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::joined::{FlowIndex, Joined, PacketRow};
use super::key::{Arrival, MatchKey};
use super::reports::Drop;
use crate::segment::Segment;

/// Sent packets by key, and the clock offsets and delays from the unambiguous matches.
pub(super) struct Matcher<'a> {
    rows: FxHashMap<MatchKey, SmallVec<[u32; 1]>>,
    /// Host that sent each flow.
    senders: &'a [Option<u32>],
    /// Longest difference between the receiver's and the sender's time stamp, per pair of hosts.
    pub(super) longest_delay_ns: FxHashMap<(u32, u32), i64>,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(
        keys: &[MatchKey],
        packets: &[PacketRow],
        senders: &'a [Option<u32>],
    ) -> Self {
        let mut rows: FxHashMap<MatchKey, SmallVec<[u32; 1]>> = FxHashMap::default();
        rows.reserve(keys.len());
        for (row, key) in (0..).zip(keys) {
            rows.entry(*key).or_default().push(row);
        }
        for repeated in rows.values_mut().filter(|rows| rows.len() > 1) {
            repeated.sort_by_key(|&row| packets[row as usize].sent_ns);
        }
        Self {
            rows,
            senders,
            longest_delay_ns: FxHashMap::default(),
        }
    }

    fn sender(&self, key: &MatchKey) -> u32 {
        self.senders
            .get(key.flow as usize)
            .copied()
            .flatten()
            .unwrap_or(u32::MAX)
    }

    /// Median difference between the events' clock and the sender's, per sender and observer, from keys that occur once.
    fn offsets(
        &self,
        packets: &[PacketRow],
        events: impl Iterator<Item = (MatchKey, u32, i64)>,
    ) -> FxHashMap<(u32, u32), i64> {
        let mut differences: FxHashMap<(u32, u32), Vec<i64>> = FxHashMap::default();
        for (key, observer, time_ns) in events {
            if let Some(&[row]) = self.rows.get(&key).map(SmallVec::as_slice) {
                let pair = (self.sender(&key), observer);
                differences
                    .entry(pair)
                    .or_default()
                    .push(time_ns - packets[row as usize].sent_ns);
            }
        }
        let median = |mut values: Vec<i64>| {
            let middle = values.len() / 2;
            *values.select_nth_unstable(middle).1
        };
        differences
            .into_iter()
            .map(|(pair, values)| (pair, median(values)))
            .collect()
    }

    /// Enters arrivals into their rows.
    pub(super) fn arrivals(&mut self, joined: &mut Joined, arrivals: &[Arrival]) {
        let events = arrivals
            .iter()
            .map(|arrival| (arrival.key, arrival.host, arrival.time_ns));
        let offsets = self.offsets(&joined.packets, events);
        for arrival in arrivals {
            let pair = (self.sender(&arrival.key), arrival.host);
            let expected_ns = offsets.get(&pair).map(|offset| arrival.time_ns - offset);
            let packets = &joined.packets;
            let open = |row: &u32| packets[*row as usize].received_ns.is_none();
            let Some(row) = self.nearest(&arrival.key, expected_ns, packets, open) else {
                joined.unmatched.received += 1;
                continue;
            };
            let packet = &mut joined.packets[row as usize];
            packet.received_ns = Some(arrival.time_ns);
            packet.received_record = Some(arrival.record);
            let delay_ns = arrival.time_ns - packet.sent_ns;
            let longest = self.longest_delay_ns.entry(pair).or_insert(delay_ns);
            *longest = delay_ns.max(*longest);
        }
    }

    /// Enters drop reports into their rows; after the arrivals, so that packets that arrived are matched last.
    pub(super) fn drops(
        &mut self,
        joined: &mut Joined,
        drops: &[(Option<Segment>, Drop)],
        index: &FlowIndex,
    ) {
        let keyed: Vec<Option<(MatchKey, &Drop)>> = drops
            .iter()
            .map(|(segment, drop)| {
                let segment = segment.as_ref()?;
                let flow = *index.by_key.get(&segment.key)?;
                Some((MatchKey::new(flow, segment), drop))
            })
            .collect();
        let events = keyed
            .iter()
            .flatten()
            .map(|(key, drop)| (*key, 0, drop.clock_ns));
        let offsets = self.offsets(&joined.packets, events);
        for (keyed, (segment, _)) in keyed.iter().zip(drops) {
            if segment.is_none() {
                joined.unmatched.reports_not_ip += 1;
                continue;
            }
            let Some((key, drop)) = keyed else {
                joined.unmatched.reports += 1;
                continue;
            };
            let expected_ns = offsets
                .get(&(self.sender(key), 0))
                .map(|offset| drop.clock_ns - offset);
            let packets = &joined.packets;
            let undropped = |row: &u32| packets[*row as usize].drop.is_none();
            let missing =
                |row: &u32| undropped(row) && packets[*row as usize].received_ns.is_none();
            let row = self
                .nearest(key, expected_ns, packets, missing)
                .or_else(|| self.nearest(key, expected_ns, packets, undropped));
            match row {
                Some(row) => joined.packets[row as usize].drop = Some(**drop),
                None => joined.unmatched.reports += 1,
            }
        }
    }

    /// Enters the ingress times of packets that passed; after the drops. A report without a packet is left out.
    pub(super) fn passed(&self, joined: &mut Joined, passed: &[(Segment, u64)], index: &FlowIndex) {
        let keyed: Vec<(MatchKey, u64)> = passed
            .iter()
            .filter_map(|(segment, time_ns)| {
                let flow = *index.by_key.get(&segment.key)?;
                Some((MatchKey::new(flow, segment), *time_ns))
            })
            .collect();
        let clock = |time_ns: u64| i64::try_from(time_ns).unwrap_or(i64::MAX);
        let events = keyed.iter().map(|&(key, time_ns)| (key, 0, clock(time_ns)));
        let offsets = self.offsets(&joined.packets, events);
        for (key, time_ns) in &keyed {
            let expected_ns = offsets
                .get(&(self.sender(key), 0))
                .map(|offset| clock(*time_ns).saturating_sub(*offset));
            let packets = &joined.packets;
            let open = |row: &u32| {
                let packet = &packets[*row as usize];
                packet.drop.is_none() && packet.passed_ns.is_none()
            };
            if let Some(row) = self.nearest(key, expected_ns, packets, open) {
                joined.packets[row as usize].passed_ns = Some(*time_ns);
            }
        }
    }

    /// The open row of this key nearest to the expected time; the first one if no clock offset is known.
    fn nearest(
        &self,
        key: &MatchKey,
        expected_ns: Option<i64>,
        packets: &[PacketRow],
        open: impl Fn(&u32) -> bool,
    ) -> Option<u32> {
        let rows = self.rows.get(key)?;
        let mut candidates = rows.iter().copied().filter(|row| open(row));
        match expected_ns {
            Some(expected_ns) => {
                candidates.min_by_key(|&row| (packets[row as usize].sent_ns - expected_ns).abs())
            }
            None => candidates.next(),
        }
    }
}
