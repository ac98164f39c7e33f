// SPDX-License-Identifier: Apache-2.0
//! The dataplane thread: it alone owns the switch and the ports, so no packet ever waits for a lock.
//!
//! Frames come from the rings in order of arrival; what is due before a frame happens before it. Control
//! operations are closures that the thread runs between two batches of frames ([`Handle::call`]).

mod clock;
mod event_loop;
mod forwarder;
mod inline;
mod wait;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc as tokio_mpsc, oneshot};

use crate::node::{Node, Notification};
use clock::Clock;
use event_loop::EventLoop;
pub use forwarder::Forwarder;
pub use inline::Inline;
use wait::Waker;
use weir_ports::{Interface, OpenError, SendThreads};

/// What the dataplane thread owns.
pub struct Core<F = Node> {
    /// The switch with its P4Runtime view, or wires.
    pub node: F,
    /// Its ports.
    pub interfaces: Vec<Interface>,
    /// Time on the switch's clock, ns since its start, as of the running batch or command.
    pub now_ns: u64,
    /// Packet-ins and digest lists that reached no controller.
    pub notifications_lost: Arc<AtomicU64>,
}

type Command<F = Node> = Box<dyn FnOnce(&mut Core<F>) + Send>;

/// The dataplane thread has ended: the switch is shutting down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the switch is shutting down")]
pub struct Stopped;

/// Runs operations on the dataplane thread.
pub struct Handle<F = Node> {
    commands: mpsc::Sender<Command<F>>,
    waker: Arc<Waker>,
    notifications_lost: Arc<AtomicU64>,
    send_threads: Arc<SendThreads>,
}

impl<F> Clone for Handle<F> {
    fn clone(&self) -> Self {
        Self {
            send_threads: Arc::clone(&self.send_threads),
            commands: self.commands.clone(),
            waker: Arc::clone(&self.waker),
            notifications_lost: Arc::clone(&self.notifications_lost),
        }
    }
}

impl<F: Forwarder> Handle<F> {
    /// Counts a packet-in or digest list that reached no controller.
    pub fn count_lost_notification(&self) {
        self.notifications_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Opens an interface for a port that the thread will own. Making the rings takes milliseconds, for which no
    /// frame should wait; so this is for another thread.
    ///
    /// # Errors
    /// As [`Interface::open`].
    pub fn open(&self, number: u32, interface: &str) -> Result<Interface, OpenError> {
        Interface::open(number, interface, &self.send_threads)
    }

    /// Runs `operation` between two batches of frames and returns its result. It stops all forwarding while it
    /// runs, so keep it short and split long work into several calls.
    ///
    /// # Errors
    /// [`Stopped`] when the thread has ended.
    pub async fn call<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Core<F>) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let (reply, result) = oneshot::channel();
        let command: Command<F> = Box::new(move |core| {
            // The caller may have gone away meanwhile; then nobody wants the result.
            let _ = reply.send(operation(core));
        });
        self.commands.send(command).map_err(|_| Stopped)?;
        self.waker.wake();
        result.await.map_err(|_| Stopped)
    }
}

/// The running dataplane thread.
pub struct Engine<F = Node> {
    handle: Handle<F>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Core<F>>,
}

impl<F: Forwarder> Engine<F> {
    /// Starts the thread. Packet-ins and digest lists go to `notifications`; when that channel is full they are
    /// dropped and counted, because forwarding does not wait for a controller. `send_threads` are those that
    /// `interfaces` were opened with.
    ///
    /// # Errors
    /// When the system gives no thread or no event descriptor.
    pub fn start(
        node: F,
        interfaces: Vec<Interface>,
        send_threads: SendThreads,
        notifications: tokio_mpsc::Sender<Notification>,
    ) -> io::Result<Self> {
        let (commands, queue) = mpsc::channel();
        let waker = Arc::new(Waker::new()?);
        let stop = Arc::new(AtomicBool::new(false));
        let notifications_lost = Arc::new(AtomicU64::new(0));
        let core = Core {
            node,
            interfaces,
            now_ns: 0,
            notifications_lost: Arc::clone(&notifications_lost),
        };
        let event_loop = EventLoop::new(
            core,
            queue,
            Arc::clone(&waker),
            Arc::clone(&stop),
            notifications,
            Clock::start(),
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

    /// Stops the thread and returns what it owned, with all that it handed over sent and counted; None when the
    /// thread panicked.
    pub fn stop(self) -> Option<Core<F>> {
        self.stop.store(true, Ordering::Release);
        self.handle.waker.wake();
        // A thread that panicked has dropped its ports, so those that send end in both cases.
        let core = self.thread.join().ok();
        self.handle.send_threads.stop();
        core
    }
}
