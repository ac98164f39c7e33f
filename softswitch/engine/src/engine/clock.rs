// SPDX-License-Identifier: Apache-2.0
//! The switch's clock: nanoseconds of `CLOCK_MONOTONIC` since the start.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Readings of which the fastest counts: an interruption of all of them is unlikely.
const READINGS: usize = 3;

/// `CLOCK_REALTIME` in ns since the epoch; 0 for an earlier time.
pub fn realtime_ns() -> i64 {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)
}

/// The clock.
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that shows 0 now.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Time since the start, ns (64 bits hold 584 years).
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// `CLOCK_REALTIME` minus this clock, ns, accurate to half the time of the fastest reading. An interruption between
    /// the readings of the two clocks would add to the difference, so the fastest of several counts.
    pub fn realtime_minus_switch_ns(&self) -> i128 {
        let readings = (0..READINGS).map(|_| {
            let before_ns = self.now_ns();
            // With a wall clock before 1970, arrival times are clamped to the present.
            let realtime_ns = i128::from(realtime_ns());
            let took_ns = self.now_ns() - before_ns;
            let middle_ns = i128::from(before_ns + took_ns / 2);
            (took_ns, realtime_ns - middle_ns)
        });
        readings
            .min_by_key(|(took_ns, _)| *took_ns)
            .map_or(0, |(_, difference_ns)| difference_ns)
    }
}
