// SPDX-License-Identifier: Apache-2.0
//! The loop of the dataplane thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use tokio::sync::mpsc as tokio_mpsc;
use tracing::warn;
use weir_ports::Interface;
use weir_ports::arrivals::{ArrivalClock, Source, earliest};
use weir_ports::clocks::realtime_ns;
use weir_ports::trunk::Trunk;

use super::ahead::{Ahead, Wait};
use super::clock::Clock;
use super::forwarder::Forwarder;
use super::handle::{Command, Core};
use super::wait::{WaitSet, Waker, Woken, set_exact_timers};
use crate::node::{Notification, Output};

/// Frames handled before commands and due output.
const BATCH_FRAMES: usize = 64;
/// Commands run before the next frames.
const BATCH_COMMANDS: usize = 16;
/// After a burst of at least so many frames, more are likely within the next microseconds.
const LEAST_BURST_FRAMES: usize = 2;
/// The rings are left alone for so long after a burst: the kernel fills a ring faster while nobody reads it, and sends several
/// frames for little more than one. Less than a wake-up takes, and no change to a frame's time of arrival.
const GATHER_NS: u64 = 5_000;
/// Time after which frames that an interface had no room for are sent again, and congested send threads checked again.
const RESEND_INTERVAL_NS: u64 = 50_000;
/// Interval of attempts to reopen an interface that disappeared.
const REOPEN_INTERVAL_NS: u64 = 200_000_000;

pub struct EventLoop<F> {
    core: Core<F>,
    commands: mpsc::Receiver<Command<F>>,
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    notifications: tokio_mpsc::Sender<Notification>,
    clock: Clock,
    ahead: Option<Ahead>,
    arrivals: ArrivalClock,
    waits: WaitSet,
    reopen_at_ns: u64,
    /// Frames of the last batch.
    taken: usize,
}

impl<F: Forwarder> EventLoop<F> {
    pub fn new(
        core: Core<F>,
        commands: mpsc::Receiver<Command<F>>,
        waker: Arc<Waker>,
        stop: Arc<AtomicBool>,
        notifications: tokio_mpsc::Sender<Notification>,
        clock: Clock,
        ahead: Option<Ahead>,
    ) -> Self {
        Self {
            core,
            commands,
            waker,
            stop,
            notifications,
            clock,
            ahead,
            arrivals: ArrivalClock::default(),
            waits: WaitSet::default(),
            reopen_at_ns: 0,
            taken: 0,
        }
    }

    /// Runs until `stop` is set; returns the thread's state.
    pub fn run(mut self) -> Core<F> {
        set_exact_timers();
        while !self.stop.load(Ordering::Acquire) {
            let before_ns = self.clock.now_ns();
            // While the send threads are congested, arriving frames wait in the receive rings.
            let congested = self.core.interfaces.iter().any(Interface::is_congested);
            let mut busy = !congested && self.run_frames();
            // The switch's time must not pass frames that still wait in the rings: one that arrived since the last batch, perhaps
            // while this thread was interrupted, must be metered at its own time stamp.
            let seen_ns = if busy || congested { 0 } else { before_ns };
            let now_ns = self.core.now_ns.max(self.arrivals.last_ns());
            self.core.now_ns = now_ns.max(seen_ns);
            busy |= self.run_commands();
            // Output caused by the frames and commands.
            self.advance(self.core.now_ns);
            let lookahead_ns = self.lookahead_ns();
            if !busy && !congested && lookahead_ns > 0 {
                // Not `before_ns`: a wait that a frame ended is known to have ended since the frame was taken.
                self.release(self.clock.now_ns() + lookahead_ns);
            }
            self.core.interfaces.iter_mut().for_each(Interface::flush);
            busy |= self.hold_full();
            self.reopen_lost();
            if !busy && !self.gather() {
                self.wait(congested, lookahead_ns);
            }
        }
        self.core.interfaces.iter_mut().for_each(Interface::end);
        self.core
    }

    /// Lets frames gather after a burst; false if they are better waited for. In virtual time nothing arrives meanwhile.
    fn gather(&mut self) -> bool {
        let taken = std::mem::take(&mut self.taken);
        if taken < LEAST_BURST_FRAMES || !self.clock.is_real() {
            return false;
        }
        let until_ns = self.clock.now_ns() + GATHER_NS;
        let next_ns = self.core.node.next_event_ns();
        if next_ns.is_some_and(|next_ns| next_ns <= until_ns) {
            return false;
        }
        while self.clock.now_ns() < until_ns {
            std::hint::spin_loop();
        }
        true
    }

    /// Runs a batch of commands; true when there may be more.
    fn run_commands(&mut self) -> bool {
        for _ in 0..BATCH_COMMANDS {
            let Ok(command) = self.commands.try_recv() else {
                return false;
            };
            command(&mut self.core);
        }
        true
    }

    /// Handles a batch of frames; true when there are more.
    fn run_frames(&mut self) -> bool {
        if earliest(&self.core.interfaces).is_none() {
            return self.core.trunk.is_some() && self.run_trunk();
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.received();
        }
        let offset_ns = self.clock.realtime_minus_switch_ns();
        let mut now_ns = self.clock.now_ns();
        let Core {
            node, interfaces, ..
        } = &mut self.core;
        // Of the same reading of the wall clock, which so cancels out of the arrivals of a port that stamps without it.
        let clocks_ns = offset_ns - self.clock.monotonic_minus_switch_ns();
        for interface in interfaces.iter_mut() {
            interface.set_clocks(clocks_ns);
        }
        let taken = &mut self.taken;
        *taken = 0;
        node.receive_batch(|receive| {
            for _ in 0..BATCH_FRAMES {
                let Some(index) = earliest(interfaces) else {
                    return false;
                };
                let interface = &mut interfaces[index];
                let stamp_ns = interface.oldest_ns().unwrap_or_default();
                // A later stamp than the last clock reading: the frame arrived during this batch, so read the clock again.
                let since_start_ns = i128::from(stamp_ns) - offset_ns;
                if since_start_ns > i128::from(now_ns) {
                    self.clock.saw_frame(since_start_ns as u64);
                    now_ns = self.clock.now_ns();
                }
                let arrival_ns = self.arrivals.arrival_ns(stamp_ns, offset_ns, now_ns);
                // The node handles what was due before the frame's arrival first; frames sent thereby leave with the batch.
                let port = interface.number();
                interface.take(|frame| receive(port, frame, arrival_ns));
                *taken += 1;
            }
            true
        })
    }

    /// Handles a batch of frames of ports without interfaces; true when there are more.
    #[cold]
    fn run_trunk(&mut self) -> bool {
        let offset_ns = self.clock.realtime_minus_switch_ns();
        let Core { node, trunk, .. } = &mut self.core;
        let Some(trunk) = trunk else { return false };
        node.receive_batch(|receive| {
            for _ in 0..BATCH_FRAMES {
                let Some(arrival) = trunk.take() else {
                    return false;
                };
                let now_ns = self.clock.now_ns();
                let arrival_ns = self
                    .arrivals
                    .arrival_ns(arrival.realtime_ns, offset_ns, now_ns);
                receive(arrival.port, &arrival.frame, arrival_ns);
            }
            true
        })
    }

    fn lookahead_ns(&self) -> u64 {
        let ahead = self.ahead.as_ref();
        ahead.map_or(0, |ahead| ahead.lookahead_ns(&self.core))
    }

    fn advance(&mut self, now_ns: u64) {
        let (node, mut output) = self.node_and_output();
        node.advance(now_ns, &mut output);
    }

    fn release(&mut self, until_ns: u64) {
        let (node, mut output) = self.node_and_output();
        node.release(until_ns, &mut output);
    }

    /// Holds the queues of ports whose interfaces take no more frames, until they do; true when more frames can leave at once.
    fn hold_full(&mut self) -> bool {
        let mut more = false;
        for index in 0..self.core.interfaces.len() {
            let interface = &self.core.interfaces[index];
            if interface.is_held() || interface.full_fd().is_some() {
                more |= self.hold(index);
            }
        }
        more
    }

    #[cold]
    fn hold(&mut self, index: usize) -> bool {
        let now_ns = self.core.now_ns;
        let port = self.core.interfaces[index].number();
        for _ in 0..BATCH_FRAMES {
            let interface = &mut self.core.interfaces[index];
            if interface.full_fd().is_some() {
                // Not only once: a new program's switch knows nothing of it.
                self.core.node.hold_port(port, true, now_ns);
                interface.set_held(true);
                return false;
            }
            // One at a time, so that the rest is in the port's queues, and not on its way, when the interface is full again.
            if !self.core.node.release_held(port) {
                self.core.node.hold_port(port, false, now_ns);
                interface.set_held(false);
                return false;
            }
            self.advance(now_ns);
            self.core.interfaces[index].flush();
        }
        true
    }

    fn node_and_output(&mut self) -> (&mut F, PortOutput<'_>) {
        let Core {
            node,
            interfaces,
            trunk,
            notifications_lost,
            ..
        } = &mut self.core;
        let output = PortOutput {
            interfaces,
            trunk,
            notifications: &self.notifications,
            lost: notifications_lost,
            monotonic_minus_switch_ns: self.clock.monotonic_minus_switch_ns(),
        };
        (node, output)
    }

    fn reopen_lost(&mut self) {
        let core = &mut self.core;
        if core.now_ns >= self.reopen_at_ns {
            self.reopen_at_ns = core.now_ns + REOPEN_INTERVAL_NS;
            for interface in &mut core.interfaces {
                interface.reopen_if_back();
                // While a port is down, groups use other members and replicas their backups.
                let up = interface.is_up();
                if let Err(failure) = core.node.set_port_up(interface.number(), up) {
                    warn!("port {}: {failure}", interface.number());
                }
            }
        }
    }

    /// Waits for the next frame, command or event; while `congested`, not for frames.
    fn wait(&mut self, congested: bool, lookahead_ns: u64) {
        let core = &self.core;
        self.waits.reset(&self.waker);
        let now_ns = self.clock.now_ns();
        let soon_ns = now_ns + RESEND_INTERVAL_NS;
        let next_ns = core.node.next_event_ns();
        let wait = match &mut self.ahead {
            Some(ahead) => ahead.wait(now_ns, lookahead_ns, next_ns),
            None => Wait {
                for_frames: true,
                until_ns: next_ns,
            },
        };
        let mut wake_at_ns = wait.until_ns;
        for (index, interface) in core.interfaces.iter().enumerate() {
            let again_at_ns = if !interface.is_up() {
                Some(self.reopen_at_ns)
            } else if congested {
                Some(soon_ns)
            } else if !wait.for_frames {
                None
            } else {
                for fd in interface.poll_fds() {
                    self.waits.add(index, fd);
                }
                // A full interface is polled for room.
                (interface.is_sending() && interface.full_fd().is_none()).then_some(soon_ns)
            };
            let follow_at_ns = interface.only_sends().then_some(self.reopen_at_ns);
            let at_ns = again_at_ns.into_iter().chain(follow_at_ns);
            wake_at_ns = at_ns.chain(wake_at_ns).min();
        }
        for fd in core.interfaces.iter().filter_map(Interface::full_fd) {
            self.waits.add_room(fd);
        }
        if let Some(trunk) = &core.trunk {
            self.waits.add_other(trunk.poll_fd());
        }
        let timeout_ns = wake_at_ns.map(|at_ns| at_ns.saturating_sub(now_ns));
        let woken = self.waits.wait(timeout_ns);
        if woken == Woken::Waker {
            self.waker.clear();
        }
        // The stamps of frames say when a wait for input ended.
        if woken != Woken::Input {
            let timeout_at_ns = wake_at_ns.filter(|_| woken == Woken::Timeout);
            self.clock.waited_until(timeout_at_ns);
        }
        for index in self.waits.failed() {
            self.core.interfaces[index].check();
        }
    }
}

struct PortOutput<'a> {
    interfaces: &'a mut [Interface],
    trunk: &'a mut Option<Trunk>,
    notifications: &'a tokio_mpsc::Sender<Notification>,
    lost: &'a AtomicU64,
    monotonic_minus_switch_ns: i128,
}

impl Output for PortOutput<'_> {
    fn transmit(&mut self, port: u32, frame: &[u8], time_ns: u64) {
        // Every port of the node has an interface or is carried by the trunk; with few ports a linear search is the fastest lookup.
        if let Some(interface) = self.interfaces.iter_mut().find(|i| i.number() == port) {
            let departure_ns = i128::from(time_ns) + self.monotonic_minus_switch_ns;
            interface.send(frame, departure_ns as u64);
        } else if let Some(trunk) = self.trunk {
            trunk.send(port, frame);
        }
    }

    fn notify(&mut self, mut notification: Notification, _time_ns: u64) {
        // P4Runtime's time stamps count from the epoch.
        let now_ns = || i64::try_from(realtime_ns()).unwrap_or(i64::MAX);
        match &mut notification {
            Notification::DigestList(list) => list.timestamp = now_ns(),
            Notification::IdleTimeout(idle) => idle.timestamp = now_ns(),
            Notification::PacketIn(_) => {}
        }
        if self.notifications.try_send(notification).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
