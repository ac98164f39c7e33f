// SPDX-License-Identifier: Apache-2.0
//! Departures ahead of time, in virtual time: few wake-ups for many frames.
//!
//! A frame that arrives after this moment reaches the end of its link after the least delay of all links, the lookahead.
//! So what leaves until then is known now, and the kernel is given each of these frames with its departure time, which
//! the queueing discipline fq keeps. For a lookahead the switch can sleep: frames that arrive meanwhile
//! have the kernel's time stamps. (Lookahead as in conservative parallel simulation: K. M. Chandy, J. Misra, IEEE TSE
//! SE-5(5), 1979.)

use weir_dataplane::Port;
use weir_ports::Interface;

use super::forwarder::Forwarder;
use super::handle::Core;

/// The lookahead is at most this, because arriving frames need room in the rings.
const MOST_NS: u64 = 1_000_000;
/// Part of the lookahead by which the switch wakes early, because a wait ends some microseconds late.
const EARLY: u64 = 8;

/// Departures ahead of time.
pub struct Ahead {
    /// The port whose frames may leave late by the lookahead, and whose delay does not count.
    late_port: Port,
    /// Frames were received since the last wait, so more are likely.
    receiving: bool,
}

/// The limits of a wait.
pub struct Wait {
    /// Whether arriving frames end it.
    pub for_frames: bool,
    /// The time that ends it, ns.
    pub until_ns: Option<u64>,
}

impl Ahead {
    pub fn new(late_port: Port) -> Self {
        Self {
            late_port,
            receiving: false,
        }
    }

    /// Records that frames were received.
    pub fn received(&mut self) {
        self.receiving = true;
    }

    /// The lookahead in ns; 0 if the frames of some port have no delay.
    pub fn lookahead_ns<F: Forwarder>(&self, core: &Core<F>) -> u64 {
        let numbers = core.interfaces.iter().map(Interface::number);
        let links = numbers
            .filter(|number| *number != self.late_port)
            .filter_map(|number| core.node.link(number));
        links
            .map(|link| link.delay_ns)
            .min()
            .unwrap_or(0)
            .min(MOST_NS)
    }

    /// The wait at `now_ns` with this lookahead, where nothing is due before `event_ns`.
    pub fn wait(&mut self, now_ns: u64, lookahead_ns: u64, event_ns: Option<u64>) -> Wait {
        if lookahead_ns == 0 {
            return Wait {
                for_frames: true,
                until_ns: event_ns,
            };
        }
        if std::mem::take(&mut self.receiving) {
            return Wait {
                for_frames: false,
                until_ns: Some(now_ns + lookahead_ns - lookahead_ns / EARLY),
            };
        }
        // A departure is output well before its time. Anything else has its time when it is done late, too.
        let half_ns = lookahead_ns / 2;
        Wait {
            for_frames: true,
            until_ns: event_ns.map(|at_ns| at_ns.saturating_sub(half_ns).max(now_ns + half_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn after_frames_only_the_time_ends_a_wait() {
        let mut ahead = Ahead::new(9);
        ahead.received();
        let wait = ahead.wait(100 * MS, MS, Some(100 * MS + 1));
        assert!(!wait.for_frames);
        let until_ns = wait.until_ns.unwrap();
        assert!((100 * MS + MS / 2..101 * MS).contains(&until_ns));
        assert!(ahead.wait(until_ns, MS, None).for_frames);
    }

    #[test]
    fn an_idle_switch_wakes_before_the_next_departure_and_never_at_once() {
        let mut ahead = Ahead::new(9);
        let wait = ahead.wait(100 * MS, MS, Some(119 * MS));
        assert!(wait.for_frames);
        assert_eq!(wait.until_ns, Some(119 * MS - MS / 2));
        let wait = ahead.wait(100 * MS, MS, Some(100 * MS));
        assert_eq!(wait.until_ns, Some(100 * MS + MS / 2));
        assert_eq!(ahead.wait(100 * MS, MS, None).until_ns, None);
    }

    #[test]
    fn without_a_lookahead_each_frame_and_each_event_ends_a_wait() {
        let mut ahead = Ahead::new(9);
        ahead.received();
        let wait = ahead.wait(100 * MS, 0, Some(100 * MS + 1));
        assert!(wait.for_frames);
        assert_eq!(wait.until_ns, Some(100 * MS + 1));
    }
}
