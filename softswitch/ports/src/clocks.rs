// SPDX-License-Identifier: Apache-2.0
//! The system's clocks.

use std::time::{SystemTime, UNIX_EPOCH};

/// Readings of which the fastest counts: an interruption of all of them is unlikely.
const READINGS: usize = 3;

/// `CLOCK_REALTIME` in ns since the epoch; 0 for an earlier time.
pub fn realtime_ns() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since_epoch.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// `CLOCK_MONOTONIC`, ns.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call fills the timespec; it cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A clock minus another one, ns, accurate to half the time of the fastest reading. An interruption between the readings
/// of the two clocks would add to the difference, so the fastest of several counts.
pub fn difference_ns(clock_ns: impl Fn() -> u64, other_ns: impl Fn() -> u64) -> i128 {
    let readings = (0..READINGS).map(|_| {
        let before_ns = other_ns();
        let clock_ns = i128::from(clock_ns());
        let took_ns = other_ns() - before_ns;
        let middle_ns = i128::from(before_ns + took_ns / 2);
        (took_ns, clock_ns - middle_ns)
    });
    readings
        .min_by_key(|(took_ns, _)| *took_ns)
        .map_or(0, |(_, difference_ns)| difference_ns)
}
