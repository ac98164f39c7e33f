// SPDX-License-Identifier: Apache-2.0
//! The dataplane thread: it alone owns the switch and the ports, so no packet ever waits for a lock.
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
pub use handle::{Core, Handle, Stopped};
pub use inline::{Event, Inline, PastError};
use wait::Waker;
use weir_dataplane::Wire;

/// The running dataplane thread.
pub struct Engine<F = Node> {
    handle: Handle<F>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Core<F>>,
}

// Not one generic function: its caller would compile the event loop, and callers are compiled without optimisation.
impl Engine<Node> {
    /// Starts the thread of a switch. Packet-ins and digest lists go to `notifications`; when that channel is full they
    /// are dropped and counted, because forwarding does not wait for a controller. `interfaces` were opened with
    /// `send_threads`.
    ///
    /// # Errors
    /// When the system cannot create a thread or an event descriptor.
    pub fn start(
        node: Node,
        interfaces: Vec<Interface>,
        send_threads: SendThreads,
        notifications: tokio_mpsc::Sender<Notification>,
        time: Time,
    ) -> io::Result<Self> {
        Self::launch(node, interfaces, send_threads, notifications, time)
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
        Self::launch(wires, interfaces, send_threads, notifications, Time::Real)
    }
}

impl<F: Forwarder> Engine<F> {
    fn launch(
        node: F,
        interfaces: Vec<Interface>,
        send_threads: SendThreads,
        notifications: tokio_mpsc::Sender<Notification>,
        time: Time,
    ) -> io::Result<Self> {
        let (commands, queue) = mpsc::channel();
        let waker = Arc::new(Waker::new()?);
        let stop = Arc::new(AtomicBool::new(false));
        let notifications_lost = Arc::new(AtomicU64::new(0));
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
            notifications,
            Clock::start(time),
            match time {
                Time::Virtual { ahead_except } => ahead_except.map(Ahead::new),
                Time::Real => None,
            },
        );
        let thread = std::thread::Builder::new()
            .name("dataplane".to_owned())
            .spawn(move || event_loop.run())?;
        Ok(Self {
            handle: Handle {
                commands,
                waker,
                notifications_lost,
                send_threads: Arc::new(send_threads),
            },
            stop,
            thread,
        })
    }

    /// Access to the thread.
    pub fn handle(&self) -> Handle<F> {
        self.handle.clone()
    }

    /// Stops the thread and returns its state, after all frames are sent and counted; None when the thread panicked.
    pub fn stop(self) -> Option<Core<F>> {
        self.stop.store(true, Ordering::Release);
        self.handle.waker.wake();
        // A thread that panicked has dropped its ports too, so the send threads stop in both cases.
        let core = self.thread.join().ok();
        self.handle.send_threads.stop();
        core
    }
}
