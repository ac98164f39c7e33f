// SPDX-License-Identifier: Apache-2.0
//! The switch's clock: nanoseconds of `CLOCK_MONOTONIC` since the start.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

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

    /// `CLOCK_REALTIME` minus this clock.
    pub fn realtime_minus_switch_ns(&self) -> i128 {
        // A wall clock before 1970 only makes the stamps clamp to the present.
        let realtime = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        i128::try_from(realtime).unwrap_or(i128::MAX) - i128::from(self.now_ns())
    }
}
