// SPDX-License-Identifier: Apache-2.0
//! The dataplane thread: it alone owns the switch and the ports, so no packet ever waits for a lock. Programs whose packets
//! share no state may have several such threads, which share nothing either.
//!
//! It takes frames from the rings in order of arrival; events due before a frame are handled before it. Control
//! operations are closures that the thread runs between two batches of frames ([`Handle::call`]).

mod ahead;
mod clock;
mod event_loop;
mod forwarder;
mod handle;
mod inline;
mod wait;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::sync::mpsc as tokio_mpsc;
use weir_ports::{Interface, SendThreads};

use crate::node::{Node, Notification};
use ahead::Ahead;
use clock::Clock;
pub use clock::Time;
use event_loop::EventLoop;
pub use forwarder::Forwarder;
use handle::Access;
pub use handle::{Core, Handle, Stopped};
pub use inline::{Event, Inline, PastError};
use wait::Waker;
use weir_dataplane::Wire;

/// The running dataplane threads.
pub struct Engine<F = Node> {
    handle: Handle<F>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Core<F>>>,
}

/// The switch or wires, and the ports, that a dataplane thread will own.
pub type Owned<F> = (F, Vec<Interface>);

// Not one generic function: its caller would compile the event loop, and callers are compiled without optimisation.
impl Engine<Node> {
    /// Starts a thread for each of `owned`: one, or several that each receive from some of the ports and have the same program
    /// and entries ([`crate::node::NodeConfig::one_of_several`]). Packet-ins and digest lists go to `notifications`; when that
    /// channel is full they are dropped and counted, because forwarding does not wait for a controller. The interfaces were
    /// opened with `send_threads`.
    ///
    /// # Errors
    /// When the system cannot create a thread or an event descriptor.
    pub fn start(
        owned: Vec<Owned<Node>>,
        send_threads: SendThreads,
        notifications: tokio_mpsc::Sender<Notification>,
        time: Time,
    ) -> io::Result<Self> {
        Self::launch(owned, send_threads, notifications, time)
    }
}

impl Engine<Wire> {
    /// Starts the thread of wires, which have no controller to notify; otherwise as [`Engine::start`].
    ///
    /// # Errors
    /// When the system cannot create a thread or an event descriptor.
    pub fn start_wires(
        wires: Wire,
        interfaces: Vec<Interface>,
        send_threads: SendThreads,
    ) -> io::Result<Self> {
        let (notifications, _) = tokio_mpsc::channel(1);
        let owned = vec![(wires, interfaces)];
        Self::launch(owned, send_threads, notifications, Time::Real)
    }
}

impl<F: Forwarder> Engine<F> {
    fn launch(
        owned: Vec<Owned<F>>,
        send_threads: SendThreads,
        notifications: tokio_mpsc::Sender<Notification>,
        time: Time,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let notifications_lost = Arc::new(AtomicU64::new(0));
        let clock = Clock::start(time);
        let (mut accesses, mut threads) = (Vec::new(), Vec::new());
        for (node, interfaces) in owned {
            let (commands, queue) = mpsc::channel();
            let waker = Arc::new(Waker::new()?);
            let core = Core {
                node,
                interfaces,
                trunk: None,
                now_ns: 0,
                notifications_lost: Arc::clone(&notifications_lost),
            };
            let event_loop = EventLoop::new(
                core,
                queue,
                Arc::clone(&waker),
                Arc::clone(&stop),
                notifications.clone(),
                clock.clone(),
                match time {
                    Time::Virtual { ahead_except } => ahead_except.map(Ahead::new),
                    Time::Real => None,
                },
            );
            let name = match threads.len() {
                0 => "dataplane".to_owned(),
                number => format!("dataplane-{number}"),
            };
            let thread = std::thread::Builder::new().name(name);
            threads.push(thread.spawn(move || event_loop.run())?);
            accesses.push(Access { commands, waker });
        }
        Ok(Self {
            handle: Handle {
                threads: accesses.into(),
                for_each: Arc::default(),
                notifications_lost,
                send_threads: Arc::new(send_threads),
            },
            stop,
            threads,
        })
    }

    /// Access to the threads.
    pub fn handle(&self) -> Handle<F> {
        self.handle.clone()
    }

    /// Stops the threads and returns their states, after all frames are sent and counted; None when a thread panicked.
    pub fn stop(self) -> Option<Vec<Core<F>>> {
        self.stop.store(true, Ordering::Release);
        self.handle
            .threads
            .iter()
            .for_each(|access| access.waker.wake());
        // A thread that panicked has dropped its ports too, so the send threads stop in both cases.
        let cores: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        self.handle.send_threads.stop();
        cores.into_iter().collect::<Result<_, _>>().ok()
    }
}
