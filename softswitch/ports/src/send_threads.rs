// SPDX-License-Identifier: Apache-2.0
//! Threads that make the system calls for sending, the larger part of a frame's cost, on other cores.
//!
//! Each open port has a single-producer, single-consumer ring of bytes from the forwarding thread to one of these
//! threads, without locks or allocation. The ring holds for each frame its length and its bytes.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use self::sync::{
    AtomicBool, AtomicI32, AtomicUsize, Consumer, JoinHandle, Mutex, Producer, RingBuffer, Thread,
    mpsc, thread,
};
use super::departures::Departures;
use super::sender::Sender;
use super::tally::{Sent, Tally};

mod sync;
#[cfg(test)]
mod tests;

/// Frames of one port that a thread sends before it serves its next port.
const BATCH_FRAMES: usize = 64;
/// Time after which frames that an interface had no room for are sent again.
const RESEND_INTERVAL: Duration = Duration::from_micros(50);
/// Size of a ring: some milliseconds of short frames, some hundred long ones.
const RING_BYTES: usize = 512 << 10;
/// Smallest size, in frames of maximum length: half of it is for the output of frames that were already received.
const RING_LONGEST_FRAMES: usize = 64;
/// Most threads of a switch.
pub const MAX_SEND_THREADS: u8 = 64;
const LENGTH_BYTES: usize = size_of::<u32>();

/// A sender of frames, as the threads use it.
pub trait Outlet: Send + 'static {
    /// Adds a frame to the batch; true when the batch is full.
    fn push(&mut self, frame: &[u8]) -> bool;
    /// Frames that wait to be sent.
    fn waiting(&self) -> usize;
    /// Sends the batch without blocking; a frame that finds no room may stay for the next call.
    fn flush(&mut self) -> Sent;
}

impl Outlet for Sender {
    fn push(&mut self, frame: &[u8]) -> bool {
        Self::push(self, frame, 0)
    }

    fn waiting(&self) -> usize {
        Self::waiting(self)
    }

    fn flush(&mut self) -> Sent {
        Self::flush(self)
    }
}

/// The send threads of a switch; without any, the forwarding thread sends.
#[derive(Debug)]
pub struct SendThreads<S: Outlet = Sender> {
    threads: Vec<SendThread<S>>,
    /// The other ends of those that do not run yet, in the same order.
    prepared: Mutex<Vec<mpsc::Receiver<PortQueue<S>>>>,
    /// Ports that were assigned a thread.
    ports: AtomicUsize,
    joins: Mutex<Vec<JoinHandle<()>>>,
    /// Set when the threads are to send what is in their rings and exit.
    stop: Arc<AtomicBool>,
    way: Way,
}

/// The way of frames into the kernel.
#[derive(Debug, Clone, Default)]
pub enum Way {
    /// The fastest available, past the queueing discipline: the switch has its own queues.
    #[default]
    Fastest,
    /// Ahead of time, through one socket of all ports; the kernel keeps the frames until their departure times.
    Departures(Arc<Departures>),
    /// Through the queueing discipline of the interface, where the port also receives what others send through it.
    Queueing,
}

/// One of the threads, for the ports that send through it.
#[derive(Debug)]
pub struct SendThread<S: Outlet = Sender> {
    ports: mpsc::Sender<PortQueue<S>>,
    thread: Sleeper,
}

/// A thread to wake; none until it runs.
#[derive(Debug, Clone, Default)]
struct Sleeper(Arc<OnceLock<Thread>>);

impl Sleeper {
    fn wake(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

impl<S: Outlet> Clone for SendThread<S> {
    fn clone(&self) -> Self {
        Self {
            ports: self.ports.clone(),
            thread: self.thread.clone(),
        }
    }
}

impl<S: Outlet> Default for SendThreads<S> {
    fn default() -> Self {
        Self {
            threads: Vec::new(),
            prepared: Mutex::default(),
            ports: AtomicUsize::default(),
            joins: Mutex::default(),
            stop: Arc::default(),
            way: Way::default(),
        }
    }
}

impl<S: Outlet> SendThreads<S> {
    /// `count` threads for ports to choose from, which [`SendThreads::run`] starts: a thread that runs before the program gives
    /// up its privileges would keep them.
    pub fn prepare(count: usize) -> Self {
        let channels = (0..count).map(|_| mpsc::channel());
        let (threads, prepared) = channels
            .map(|(ports, new_ports)| {
                let thread = Sleeper::default();
                (SendThread { ports, thread }, new_ports)
            })
            .unzip();
        let mut made = Self::default();
        made.threads = threads;
        made.prepared = Mutex::new(prepared);
        made
    }

    /// Starts the threads that do not run yet; they first send what waits for them. Ports may be opened before, but no frame may be
    /// sent meanwhile on another thread.
    ///
    /// # Errors
    /// When the system cannot create another thread.
    pub fn run(&mut self) -> io::Result<()> {
        let joins = self.joins.get_mut();
        let joins = joins.unwrap_or_else(PoisonError::into_inner);
        let prepared = self.prepared.get_mut();
        let prepared = prepared.unwrap_or_else(PoisonError::into_inner);
        let running = self.threads.len() - prepared.len();
        let waiting = self.threads[running..].iter().zip(prepared.drain(..));
        for (number, (to, new_ports)) in (running..).zip(waiting) {
            let stop = Arc::clone(&self.stop);
            let join = thread::Builder::new()
                .name(format!("send-{number}"))
                .spawn(move || run(&new_ports, &stop))?;
            // Not set before, because only this sets it; the thread looks for ports before it sleeps first.
            let _ = to.thread.0.set(join.thread().clone());
            joins.push(join);
        }
        Ok(())
    }

    /// No threads; the kernel keeps the frames until their departure times.
    pub fn with_departures() -> Self {
        let mut none = Self::default();
        none.way = Way::Departures(Arc::default());
        none
    }

    /// No threads; frames pass the queueing disciplines of their interfaces, and wait where those are slower.
    pub fn with_queueing() -> Self {
        let mut none = Self::default();
        none.way = Way::Queueing;
        none
    }

    /// The way of the frames.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// The thread for the next port, in rotation.
    pub fn next_thread(&self) -> Option<&SendThread<S>> {
        let turn = self.ports.fetch_add(1, Ordering::Relaxed);
        self.threads.get(turn.checked_rem(self.threads.len())?)
    }

    /// Stops the threads after they have sent the frames in their rings; call it after the ports were closed.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let mut joins = self.joins.lock().unwrap_or_else(PoisonError::into_inner);
        for join in joins.drain(..) {
            join.thread().unpark();
            // A panic was printed when it happened, and the thread's ports failed then.
            let _ = join.join();
        }
    }
}

impl<S: Outlet> Drop for SendThreads<S> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The forwarding thread's end of a ring: frames for one open interface.
#[derive(Debug)]
pub struct RemoteSender {
    /// None after [`RemoteSender::close`].
    frames: Option<Producer<u8>>,
    thread: Sleeper,
    /// There are frames since the last [`RemoteSender::wake`].
    wake_pending: bool,
    interface_error: Arc<AtomicI32>,
}

impl RemoteSender {
    /// Moves an interface's sender to a thread, which counts the results in `tally`.
    ///
    /// # Errors
    /// When the thread has exited.
    pub fn new<S: Outlet>(
        to: &SendThread<S>,
        sender: S,
        max_frame_bytes: usize,
        tally: Arc<Tally>,
    ) -> io::Result<Self> {
        let longest_bytes = LENGTH_BYTES + max_frame_bytes;
        let ring_bytes = RING_BYTES.max(RING_LONGEST_FRAMES * longest_bytes);
        Self::with_ring(to, sender, max_frame_bytes, tally, ring_bytes)
    }

    fn with_ring<S: Outlet>(
        to: &SendThread<S>,
        sender: S,
        max_frame_bytes: usize,
        tally: Arc<Tally>,
        ring_bytes: usize,
    ) -> io::Result<Self> {
        let (producer, frames) = RingBuffer::new(ring_bytes);
        let interface_error = Arc::default();
        let queue = PortQueue {
            frames,
            sender,
            tally,
            interface_error: Arc::clone(&interface_error),
            joined: Vec::with_capacity(max_frame_bytes),
        };
        to.ports.send(queue).map_err(|_| thread_exited())?;
        to.thread.wake();
        Ok(Self {
            frames: Some(producer),
            thread: to.thread.clone(),
            wake_pending: false,
            interface_error,
        })
    }

    /// Puts a frame into the ring; false when there is no room. A sleeping thread sends it only after
    /// [`RemoteSender::wake`].
    pub fn push(&mut self, frame: &[u8]) -> bool {
        let Some(frames) = &mut self.frames else {
            return false;
        };
        let Ok(length) = u32::try_from(frame.len()) else {
            return false;
        };
        let Ok(mut chunk) = frames.write_chunk(LENGTH_BYTES + frame.len()) else {
            return false;
        };
        let (first, second) = chunk.as_mut_slices();
        if let Some((head, rest)) = first.split_first_chunk_mut()
            && rest.len() == frame.len()
        {
            *head = length.to_ne_bytes();
            rest.copy_from_slice(frame);
        } else {
            let bytes = length
                .to_ne_bytes()
                .into_iter()
                .chain(frame.iter().copied());
            let slots = first.iter_mut().chain(second);
            slots.zip(bytes).for_each(|(slot, byte)| *slot = byte);
        }
        // Length and frame are committed together, so the thread never reads half a frame.
        chunk.commit_all();
        self.wake_pending = true;
        true
    }

    /// Whether less than half of the ring is free: the forwarding thread must wait, or frames will find no room.
    pub fn is_congested(&self) -> bool {
        self.frames.as_ref().is_some_and(|frames| {
            let half = frames.buffer().capacity() / 2;
            frames.cached_slots() < half && frames.slots() < half
        })
    }

    /// Wakes the thread if there are new frames. Returns the error of an interface that accepts no more frames.
    pub fn wake(&mut self) -> Option<io::Error> {
        if std::mem::take(&mut self.wake_pending) {
            self.thread.wake();
        }
        if self.frames.as_ref().is_some_and(|ring| ring.is_abandoned()) {
            return Some(thread_exited());
        }
        match self.interface_error.load(Ordering::Relaxed) {
            0 => None,
            errno => Some(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Closes the ring: the thread sends what is in it, counts what the interface refuses, and closes the sender.
    pub fn close(&mut self) {
        drop(self.frames.take());
        // After the drop, so that the woken thread sees the ring abandoned.
        self.thread.wake();
    }
}

impl Drop for RemoteSender {
    fn drop(&mut self) {
        self.close();
    }
}

fn thread_exited() -> io::Error {
    io::Error::other("its send thread has exited")
}

/// The send thread's end of a ring.
#[derive(Debug)]
struct PortQueue<S> {
    frames: Consumer<u8>,
    sender: S,
    tally: Arc<Tally>,
    /// The `errno` of an interface that went down or away; 0 while it is up.
    interface_error: Arc<AtomicI32>,
    /// Buffer for a frame that wraps around the end of the ring.
    joined: Vec<u8>,
}

impl<S: Outlet> PortQueue<S> {
    /// Sends up to a batch of frames, and those that found no room before; true when some were new.
    fn send(&mut self) -> bool {
        let taken = (0..BATCH_FRAMES).take_while(|_| self.take()).count();
        self.flush();
        taken > 0
    }

    /// Moves the oldest frame from the ring to the sender; false when the ring is empty.
    fn take(&mut self) -> bool {
        let mut length = [0; LENGTH_BYTES];
        if self.frames.pop_entire_slice(&mut length).is_err() {
            return false;
        }
        // The length was committed together with its frame.
        let Ok(chunk) = self.frames.read_chunk(u32::from_ne_bytes(length) as usize) else {
            return false;
        };
        let (first, second) = chunk.as_slices();
        let full = if second.is_empty() {
            self.sender.push(first)
        } else {
            self.joined.clear();
            self.joined.extend_from_slice(first);
            self.joined.extend_from_slice(second);
            self.sender.push(&self.joined)
        };
        chunk.commit_all();
        if full {
            self.flush();
        }
        true
    }

    fn flush(&mut self) {
        if self.sender.waiting() == 0 {
            return;
        }
        let sent = self.sender.flush();
        self.tally.add(&sent);
        if let Some(errno) = sent.interface_gone() {
            self.interface_error.store(errno, Ordering::Relaxed);
        }
    }

    /// Whether the forwarding end is closed and the ring empty; then flushes once more and counts the rest as errors.
    fn finish_if_closed(&mut self) -> bool {
        // In this order: no frame is put into an abandoned ring.
        if !self.frames.is_abandoned() || !self.frames.is_empty() {
            return false;
        }
        self.flush();
        self.tally.add_errors(self.sender.waiting() as u64);
        true
    }
}

/// The loop of a thread.
fn run<S: Outlet>(new_ports: &mpsc::Receiver<PortQueue<S>>, stop: &AtomicBool) {
    let mut ports: Vec<PortQueue<S>> = Vec::new();
    loop {
        // Read before the new ports: no port is opened after `stop` is set.
        let stopping = stop.load(Ordering::Acquire);
        ports.extend(new_ports.try_iter());
        let mut busy = false;
        for port in &mut ports {
            busy |= port.send();
        }
        if busy {
            continue;
        }
        ports.retain_mut(|port| !port.finish_if_closed());
        if ports.is_empty() && stopping {
            return;
        }
        // The other side unparks this thread after a change, so `park` misses none.
        if ports.iter().any(|port| port.sender.waiting() > 0) {
            thread::park_timeout(RESEND_INTERVAL);
        } else {
            thread::park();
        }
    }
}
