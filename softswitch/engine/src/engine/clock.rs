// SPDX-License-Identifier: Apache-2.0
//! The switch's clock: nanoseconds of `CLOCK_MONOTONIC` since the start.

use std::cell::Cell;
use std::time::Instant;

use weir_dataplane::Port;
use weir_ports::clocks::{difference_ns, monotonic_ns, realtime_ns};

/// Waits after which a clock of virtual time is read: each ends one or two microseconds late, which would add up.
const WAITS_PER_READING: u32 = 8;
/// After shorter waits it is always read: a train of frames must not leave more slowly than its line carries it.
const SHORT_WAIT_NS: u64 = 20_000;

/// The kind of the system's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// Passes at any moment.
    Real,
    /// Passes only while everything waits (User-Mode Linux, `time-travel=inf-cpu`). The clock is hardly read there: a
    /// reading is a system call, the dearest part of a frame, and takes 256 ns of the virtual time.
    Virtual {
        /// Frames are given to the kernel ahead of time, with their departure times, except those to this port, which may
        /// leave late.
        ahead_except: Option<Port>,
    },
}

/// The clock. A clone continues to show the same time.
#[derive(Clone)]
pub struct Clock {
    start: Instant,
    monotonic_minus_switch_ns: i128,
    held: Option<Held>,
}

/// The state of a clock of virtual time, which replaces most readings.
#[derive(Clone)]
struct Held {
    now_ns: Cell<u64>,
    realtime_minus_switch_ns: i128,
    waits: Cell<u32>,
}

impl Clock {
    /// A clock that shows 0 now.
    pub fn start(time: Time) -> Self {
        let mut clock = Self {
            start: Instant::now(),
            monotonic_minus_switch_ns: 0,
            held: None,
        };
        if time != Time::Real {
            // Measured once: nobody sets the guest's clock while the switch runs.
            let realtime_minus_switch_ns = clock.realtime_minus_switch_ns();
            // Arrivals and departures have the same error, so a frame's time in the switch has none.
            clock.monotonic_minus_switch_ns =
                realtime_minus_switch_ns - difference_ns(realtime_ns, monotonic_ns);
            clock.held = Some(Held {
                realtime_minus_switch_ns,
                now_ns: Cell::new(clock.now_ns()),
                waits: Cell::new(0),
            });
        } else {
            clock.monotonic_minus_switch_ns = difference_ns(monotonic_ns, || clock.now_ns());
        }
        clock
    }

    /// Whether time passes at any moment.
    pub fn is_real(&self) -> bool {
        self.held.is_none()
    }

    /// Time since the start, ns (64 bits hold 584 years).
    pub fn now_ns(&self) -> u64 {
        match &self.held {
            Some(held) => held.now_ns.get(),
            None => self.read_ns(),
        }
    }

    fn read_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Tells a clock of virtual time that a frame arrived at `at_ns`.
    pub fn saw_frame(&self, at_ns: u64) {
        if let Some(held) = &self.held {
            held.now_ns.set(held.now_ns.get().max(at_ns));
            held.waits.set(0);
        }
    }

    /// Tells a clock of virtual time that a wait lasted until `at_ns`; None: something else than the time ended it.
    pub fn waited_until(&self, at_ns: Option<u64>) {
        let Some(held) = &self.held else { return };
        let waits = held.waits.get() + 1;
        let long = |at_ns: &u64| *at_ns >= held.now_ns.get() + SHORT_WAIT_NS;
        let at_ns = at_ns.filter(|at_ns| waits < WAITS_PER_READING && long(at_ns));
        held.waits.set(if at_ns.is_some() { waits } else { 0 });
        let now_ns = at_ns.unwrap_or_else(|| self.read_ns());
        held.now_ns.set(held.now_ns.get().max(now_ns));
    }

    /// `CLOCK_REALTIME` minus this clock, ns.
    pub fn realtime_minus_switch_ns(&self) -> i128 {
        if let Some(held) = &self.held {
            return held.realtime_minus_switch_ns;
        }
        // With a wall clock before 1970, arrival times are clamped to the present.
        difference_ns(realtime_ns, || self.now_ns())
    }

    /// `CLOCK_MONOTONIC` minus this clock, ns: always the same.
    pub fn monotonic_minus_switch_ns(&self) -> i128 {
        self.monotonic_minus_switch_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIRTUAL: Time = Time::Virtual { ahead_except: None };
    const LATER_NS: u64 = 3_600_000_000_000;

    #[test]
    fn virtual_time_follows_frames_and_timeouts_without_readings() {
        let clock = Clock::start(VIRTUAL);
        let begin_ns = clock.now_ns();
        std::thread::yield_now();
        assert_eq!(clock.now_ns(), begin_ns);
        clock.saw_frame(begin_ns + 10);
        assert_eq!(clock.now_ns(), begin_ns + 10);
        let later_ns = begin_ns + 10 + SHORT_WAIT_NS;
        clock.waited_until(Some(later_ns));
        assert_eq!(clock.now_ns(), later_ns);
        clock.saw_frame(begin_ns + 20);
        assert_eq!(clock.now_ns(), later_ns);
    }

    #[test]
    fn virtual_time_is_read_after_short_waits_after_many_and_after_those_without_a_time() {
        let clock = Clock::start(VIRTUAL);
        let begin_ns = clock.now_ns();
        clock.waited_until(None);
        assert!((begin_ns..LATER_NS).contains(&clock.now_ns()));
        // Times in the future show for which waits the clock was not read.
        clock.waited_until(Some(clock.now_ns() + LATER_NS));
        let claimed_ns = clock.now_ns();
        assert!(claimed_ns >= LATER_NS);
        clock.waited_until(Some(claimed_ns + SHORT_WAIT_NS - 1));
        assert_eq!(clock.now_ns(), claimed_ns);
        let unread = (1..=u64::from(WAITS_PER_READING))
            .take_while(|wait| {
                let at_ns = claimed_ns + wait * SHORT_WAIT_NS;
                clock.waited_until(Some(at_ns));
                clock.now_ns() == at_ns
            })
            .count();
        assert_eq!(unread, WAITS_PER_READING as usize - 1);
    }

    #[test]
    fn in_real_time_the_clock_is_read() {
        let clock = Clock::start(Time::Real);
        clock.saw_frame(LATER_NS);
        clock.waited_until(Some(LATER_NS));
        assert!(clock.now_ns() < LATER_NS);
    }
}
