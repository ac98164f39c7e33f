// SPDX-License-Identifier: Apache-2.0
//! Access to the dataplane threads from others: their state ([`Core`]) and how operations on it reach them ([`Handle`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tokio::sync::oneshot;
use tonic::Status;
use weir_ports::trunk::Trunk;
use weir_ports::{Interface, OpenError, Reception, SendThreads};

use super::forwarder::Forwarder;
use super::wait::Waker;
use crate::node::Node;

/// The state that a dataplane thread owns.
pub struct Core<F = Node> {
    /// The switch with its P4Runtime view, or wires.
    pub node: F,
    /// The switch's ports. Of several threads each receives from some of them; all send through all.
    pub interfaces: Vec<Interface>,
    /// The channel of ports without interfaces.
    pub trunk: Option<Trunk>,
    /// Time on the switch's clock, ns since its start, as of the running batch or command.
    pub now_ns: u64,
    /// Packet-ins and digest lists that reached no controller.
    pub notifications_lost: Arc<AtomicU64>,
}

pub(super) type Command<F = Node> = Box<dyn FnOnce(&mut Core<F>) + Send>;

/// The dataplane thread has exited: the switch is shutting down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the switch is shutting down")]
pub struct Stopped;

/// The way of operations to one dataplane thread.
pub(super) struct Access<F> {
    pub(super) commands: mpsc::Sender<Command<F>>,
    pub(super) waker: Arc<Waker>,
}

impl<F> Access<F> {
    /// Hands `operation` to the thread; its result is received when the thread has run it.
    fn submit<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Core<F>) -> R + Send + 'static,
    ) -> Result<oneshot::Receiver<R>, Stopped> {
        let (reply, result) = oneshot::channel();
        let command: Command<F> = Box::new(move |core| {
            // The caller may have been dropped meanwhile; then nobody receives the result.
            let _ = reply.send(operation(core));
        });
        self.commands.send(command).map_err(|_| Stopped)?;
        self.waker.wake();
        Ok(result)
    }
}

/// Runs operations on the dataplane threads.
pub struct Handle<F = Node> {
    /// One for each thread; at least one.
    pub(super) threads: Arc<[Access<F>]>,
    /// Held while an operation is handed to all threads.
    pub(super) for_each: Arc<Mutex<()>>,
    pub(super) notifications_lost: Arc<AtomicU64>,
    pub(super) send_threads: Arc<SendThreads>,
}

impl<F> Clone for Handle<F> {
    fn clone(&self) -> Self {
        Self {
            send_threads: Arc::clone(&self.send_threads),
            threads: Arc::clone(&self.threads),
            for_each: Arc::clone(&self.for_each),
            notifications_lost: Arc::clone(&self.notifications_lost),
        }
    }
}

impl<F: Forwarder> Handle<F> {
    /// Counts a packet-in or digest list that reached no controller.
    pub fn count_lost_notification(&self) {
        self.notifications_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of dataplane threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Opens an interface for a port that the dataplane thread will own. Call it on another thread: making the rings
    /// takes milliseconds, for which no frame should wait.
    ///
    /// # Errors
    /// As [`Interface::open`].
    pub fn open(&self, number: u32, interface: &str) -> Result<Interface, OpenError> {
        Interface::open(number, interface, Reception::Ring, &self.send_threads)
    }

    /// Runs `operation` on the first thread, as [`Handle::call_on`].
    ///
    /// # Errors
    /// As [`Handle::call_on`].
    pub async fn call<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Core<F>) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        self.call_on(0, operation).await
    }

    /// Runs `operation` on each thread; the results in their order. All threads run the operations of several callers in the same
    /// order, and an operation is run by all of them even if its caller is dropped meanwhile.
    ///
    /// # Errors
    /// As [`Handle::call_on`].
    pub async fn call_each<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Core<F>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, Stopped> {
        let submitted: Vec<_> = {
            let _same_order = self.for_each.lock().unwrap_or_else(PoisonError::into_inner);
            let submitted = self
                .threads
                .iter()
                .map(|access| access.submit(operation.clone()));
            submitted.collect::<Result<_, _>>()?
        };
        let mut results = Vec::with_capacity(submitted.len());
        for result in submitted {
            results.push(result.await.map_err(|_| Stopped)?);
        }
        Ok(results)
    }

    /// Runs `operation` on the thread of this number between two batches of frames and returns its result. Forwarding stops
    /// meanwhile, so keep it short and split long work into several calls.
    ///
    /// # Errors
    /// [`Stopped`] when the thread has exited, or there is none of this number.
    pub async fn call_on<R: Send + 'static>(
        &self,
        thread: usize,
        operation: impl FnOnce(&mut Core<F>) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let access = self.threads.get(thread).ok_or(Stopped)?;
        let result = access.submit(operation)?;
        result.await.map_err(|_| Stopped)
    }
}

impl From<Stopped> for Status {
    fn from(stopped: Stopped) -> Self {
        Self::unavailable(stopped.to_string())
    }
}
