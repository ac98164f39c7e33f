// SPDX-License-Identifier: Apache-2.0
//! The switch's clock: nanoseconds of `CLOCK_MONOTONIC` since the start.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// An interruption of one of them is rare, of all of them rarer.
const READINGS: usize = 3;

/// `CLOCK_REALTIME` in ns since the epoch; 0 for a clock before it.
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

    /// Time since the start; 584 years fit.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// `CLOCK_REALTIME` minus this clock, to half of the shortest time that reading both took: a thread that is
    /// interrupted between the two readings would take the interruption for a difference of the clocks.
    pub fn realtime_minus_switch_ns(&self) -> i128 {
        let readings = (0..READINGS).map(|_| {
            let before_ns = self.now_ns();
            // A wall clock before 1970 only makes the stamps clamp to the present.
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
