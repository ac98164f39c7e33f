// SPDX-License-Identifier: Apache-2.0
//! Threads that do the kernel's part of sending, which is the larger part of a frame's cost, on other cores.
//!
//! Each open port has a ring of bytes between the thread that forwards and one of these threads: one writes, one
//! reads, nobody locks or allocates. A frame is its length and its bytes.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};

use super::sender::Sender;
use super::tally::Tally;

/// Frames of one port before another port of the thread gets its turn.
const BATCH_FRAMES: usize = 64;
/// When frames that an interface had no room for are tried again.
const RESEND_INTERVAL: Duration = Duration::from_micros(50);
/// Room of a ring: some milliseconds of short frames, some hundred long ones.
const RING_BYTES: usize = 512 << 10;
/// Room at least, in longest frames: half of it is for the output of frames that were taken in already.
const RING_LONGEST_FRAMES: usize = 64;
const LENGTH_BYTES: usize = size_of::<u32>();

/// The threads of a switch; without any, whoever forwards a frame also sends it.
#[derive(Debug, Default)]
pub struct SendThreads {
    threads: Vec<SendThread>,
    /// Ports that were given a thread.
    ports: AtomicUsize,
    joins: Mutex<Vec<JoinHandle<()>>>,
    /// All that was handed over is to be sent, then the threads end.
    stop: Arc<AtomicBool>,
}

/// One of the threads, for the ports that send through it.
#[derive(Debug, Clone)]
pub struct SendThread {
    lines: mpsc::Sender<Line>,
    thread: Thread,
}

impl SendThreads {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// When the system gives no more.
    pub fn start(count: usize) -> io::Result<Self> {
        let mut started = Self::default();
        for number in 0..count {
            let (lines, new_lines) = mpsc::channel();
            let stop = Arc::clone(&started.stop);
            let join = thread::Builder::new()
                .name(format!("send-{number}"))
                .spawn(move || run(&new_lines, &stop))?;
            let thread = join.thread().clone();
            started.threads.push(SendThread { lines, thread });
            let joins = started.joins.get_mut();
            joins.unwrap_or_else(PoisonError::into_inner).push(join);
        }
        Ok(started)
    }

    /// The thread for the next port: they take turns.
    pub fn next_thread(&self) -> Option<&SendThread> {
        let turn = self.ports.fetch_add(1, Ordering::Relaxed);
        self.threads.get(turn.checked_rem(self.threads.len())?)
    }

    /// Ends the threads when they have sent what they were given, of ports that were closed before.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let mut joins = self.joins.lock().unwrap_or_else(PoisonError::into_inner);
        for join in joins.drain(..) {
            join.thread().unpark();
            // One that panicked has said so, and its ports were lost then.
            let _ = join.join();
        }
    }
}

impl Drop for SendThreads {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The forwarding end of a ring: frames for one open interface.
#[derive(Debug)]
pub struct RemoteSender {
    /// None when it was closed.
    frames: Option<Producer<u8>>,
    thread: Thread,
    /// Frames that the thread was not told of yet.
    untold: bool,
    gone: Arc<AtomicI32>,
}

impl RemoteSender {
    /// Gives the way out of an interface to a thread, which counts in `tally` what becomes of the frames.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn new(
        to: &SendThread,
        sender: Sender,
        max_frame_bytes: usize,
        tally: Arc<Tally>,
    ) -> io::Result<Self> {
        let longest_bytes = LENGTH_BYTES + max_frame_bytes;
        let (producer, frames) =
            RingBuffer::new(RING_BYTES.max(RING_LONGEST_FRAMES * longest_bytes));
        let gone = Arc::default();
        let line = Line {
            frames,
            sender,
            tally,
            gone: Arc::clone(&gone),
            joined: Vec::with_capacity(max_frame_bytes),
        };
        to.lines.send(line).map_err(|_| ended())?;
        to.thread.unpark();
        Ok(Self {
            frames: Some(producer),
            thread: to.thread.clone(),
            untold: false,
            gone,
        })
    }

    /// Puts a frame into the ring; false when there is no room. The thread may not hear of it before
    /// [`RemoteSender::tell`].
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
            let places = first.iter_mut().chain(second);
            places.zip(bytes).for_each(|(place, byte)| *place = byte);
        }
        // At once and as a whole: a thread that is awake sends it.
        chunk.commit_all();
        self.untold = true;
        true
    }

    /// Less than half of the ring is free: whoever forwards must wait, or frames will find no room.
    pub fn is_congested(&self) -> bool {
        self.frames.as_ref().is_some_and(|frames| {
            let half = frames.buffer().capacity() / 2;
            frames.cached_slots() < half && frames.slots() < half
        })
    }

    /// Wakes the thread if it sleeps and there is something new. Why the interface can take no more frames, if so.
    pub fn tell(&mut self) -> Option<io::Error> {
        if std::mem::take(&mut self.untold) {
            self.thread.unpark();
        }
        if self.frames.as_ref().is_some_and(Producer::is_abandoned) {
            return Some(ended());
        }
        match self.gone.load(Ordering::Relaxed) {
            0 => None,
            errno => Some(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Lets the thread send what is in the ring, count what the interface does not take, and close the interface.
    pub fn close(&mut self) {
        drop(self.frames.take());
        // After the ring was left, so that the thread finds it so.
        self.thread.unpark();
    }
}

impl Drop for RemoteSender {
    fn drop(&mut self) {
        self.close();
    }
}

fn ended() -> io::Error {
    io::Error::other("its sending thread has ended")
}

/// The sending end of a ring.
struct Line {
    frames: Consumer<u8>,
    sender: Sender,
    tally: Arc<Tally>,
    /// Why the interface is gone, as an `errno`; 0 while it is there.
    gone: Arc<AtomicI32>,
    /// A frame that lies partly at the end and partly at the beginning of the ring.
    joined: Vec<u8>,
}

impl Line {
    /// Sends up to a batch of frames, and those that found no room before; true when there were new ones.
    fn send(&mut self) -> bool {
        let taken = (0..BATCH_FRAMES).take_while(|_| self.take()).count();
        self.flush();
        taken > 0
    }

    /// Gives the oldest frame to the sender; false when there is none.
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
            self.gone.store(errno, Ordering::Relaxed);
        }
    }

    /// Sends no more when the forwarding end has left and the ring is empty; true then.
    fn ends(&mut self) -> bool {
        // In this order: nothing is put into a ring that was left.
        if !self.frames.is_abandoned() || !self.frames.is_empty() {
            return false;
        }
        self.flush();
        self.tally.add_errors(self.sender.waiting() as u64);
        true
    }
}

/// The loop of a thread.
fn run(new_lines: &mpsc::Receiver<Line>, stop: &AtomicBool) {
    let mut lines: Vec<Line> = Vec::new();
    loop {
        // In this order: no port is opened any more when the threads are told to end.
        let stopping = stop.load(Ordering::Acquire);
        lines.extend(new_lines.try_iter());
        let mut busy = false;
        for line in &mut lines {
            busy |= line.send();
        }
        if busy {
            continue;
        }
        lines.retain_mut(|line| !line.ends());
        if lines.is_empty() && stopping {
            return;
        }
        // Whoever has something new says so after it is there: then the wait ends at once.
        if lines.iter().any(|line| line.sender.waiting() > 0) {
            thread::park_timeout(RESEND_INTERVAL);
        } else {
            thread::park();
        }
    }
}
