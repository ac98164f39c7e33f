// SPDX-License-Identifier: Apache-2.0
//! Merges the frames of several ports in the order in which the kernel stamped them.

#[cfg(test)]
mod tests;

/// A queue of received frames, oldest first.
pub trait Source {
    /// Time of arrival of the oldest frame (ns, `CLOCK_REALTIME`), if there is one.
    fn oldest_ns(&self) -> Option<u64>;
}

/// Index of the source with the oldest frame of all; the first of them when stamps are equal.
pub fn earliest<S: Source>(sources: &[S]) -> Option<usize> {
    sources
        .iter()
        .enumerate()
        .filter_map(|(index, source)| Some((source.oldest_ns()?, index)))
        .min()
        .map(|(_, index)| index)
}

/// Converts kernel time stamps to the switch's clock.
///
/// The switch runs on `CLOCK_MONOTONIC`, because a policer must not see a step of the wall clock; the kernel stamps
/// frames with `CLOCK_REALTIME`. The caller measures the difference of the two for each batch, so a step of the wall
/// clock affects only the frames that wait in the rings at that moment, and their times are clamped.
#[derive(Debug, Default)]
pub struct ArrivalClock {
    last_ns: u64,
}

impl ArrivalClock {
    /// The latest result.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Time of arrival on the switch's clock of a frame stamped `realtime_ns`, where the two clocks differ by
    /// `realtime_minus_switch_ns`. Never less than an earlier result, never more than `now_ns`.
    pub fn arrival_ns(
        &mut self,
        realtime_ns: u64,
        realtime_minus_switch_ns: i128,
        now_ns: u64,
    ) -> u64 {
        let converted = i128::from(realtime_ns) - realtime_minus_switch_ns;
        let converted = u64::try_from(converted.max(0)).unwrap_or(u64::MAX);
        self.last_ns = converted.min(now_ns).max(self.last_ns);
        self.last_ns
    }
}
