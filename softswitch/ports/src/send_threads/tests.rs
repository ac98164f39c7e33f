// SPDX-License-Identifier: Apache-2.0
//! The ring and the threads, with outlets that remember what they were handed. With the feature `explore` shuttle runs these tests
//! in many orders of the threads' steps, and Miri with what weak memory allows (`docs/fuzzing.md`).

use super::sync::Condvar;
use super::*;

/// A ring of so few bytes that frames wrap around its end and find it full.
const SMALL_RING: usize = 200;
const EXPLORING: bool = cfg!(feature = "explore");
const FRAMES: u32 = if EXPLORING {
    9
} else if cfg!(miri) {
    30
} else {
    20_000
};

/// Runs a test, with the feature `explore` in many orders of the threads' steps.
fn explored(test: impl Fn() + Send + Sync + 'static) {
    #[cfg(feature = "explore")]
    {
        let test = Arc::new(test);
        for preemptions in 1..=3 {
            let test = Arc::clone(&test);
            shuttle::check_pct(move || test(), 1000, preemptions);
        }
        shuttle::check_random(move || test(), 1000);
    }
    #[cfg(not(feature = "explore"))]
    test();
}

/// Frames that an interface has sent, and whether it is closed.
#[derive(Debug, Default)]
struct Wire {
    sent: Mutex<Vec<Vec<u8>>>,
    closed: AtomicBool,
    changed: Condvar,
}

impl Wire {
    /// Waits for frames; a thread that nobody wakes leaves it waiting forever, which shuttle finds.
    fn wait_for(&self, frames: usize) {
        let sent = self.sent.lock().unwrap();
        drop(self.changed.wait_while(sent, |sent| sent.len() < frames));
    }

    fn wait_until_closed(&self) {
        let sent = self.sent.lock().unwrap();
        let open = |_: &mut _| !self.closed.load(Ordering::Acquire);
        drop(self.changed.wait_while(sent, open));
    }

    fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }
}

/// An interface that takes a limited number of frames at a time.
#[derive(Debug, Default)]
struct Memory {
    batch: Vec<Vec<u8>>,
    wire: Arc<Wire>,
    /// Frames that one flush finds room for.
    room: usize,
    errno: Option<i32>,
}

impl Outlet for Memory {
    fn push(&mut self, frame: &[u8]) -> bool {
        self.batch.push(frame.to_vec());
        self.batch.len() >= 4
    }

    fn waiting(&self) -> usize {
        self.batch.len()
    }

    fn flush(&mut self) -> Sent {
        let mut sent = Sent::default();
        for frame in self.batch.drain(..self.room.min(self.batch.len())) {
            let error = self.errno.map(io::Error::from_raw_os_error);
            let accepted = error.is_none();
            sent.add(frame.len(), error);
            if accepted {
                self.wire.sent.lock().unwrap().push(frame);
            }
        }
        self.wire.changed.notify_all();
        sent
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let sent = self.wire.sent.lock();
        self.wire.closed.store(true, Ordering::Release);
        drop(sent);
        self.wire.changed.notify_all();
    }
}

fn running(count: usize) -> SendThreads<Memory> {
    let mut threads = SendThreads::prepare(count);
    threads.run().unwrap();
    threads
}

struct Port {
    ring: RemoteSender,
    tally: Arc<Tally>,
    wire: Arc<Wire>,
}

fn open(threads: &SendThreads<Memory>, room: usize, errno: Option<i32>) -> Port {
    let (tally, wire) = (Arc::<Tally>::default(), Arc::<Wire>::default());
    let memory = Memory {
        batch: Vec::new(),
        wire: Arc::clone(&wire),
        room,
        errno,
    };
    let thread = threads.next_thread().unwrap();
    let ring = RemoteSender::with_ring(thread, memory, 60, Arc::clone(&tally), SMALL_RING).unwrap();
    Port { ring, tally, wire }
}

/// A frame of 1 to 60 bytes that tells its number.
fn frame(number: u32) -> Vec<u8> {
    let length = 1 + (number * 7 % 60) as usize;
    let bytes = number.to_le_bytes().into_iter().cycle();
    bytes.take(length).collect()
}

fn put(port: &mut Port, frame: &[u8]) {
    while !port.ring.push(frame) {
        assert!(port.ring.wake().is_none());
        thread::yield_now();
    }
}

#[test]
fn frames_leave_once_and_in_order_whatever_their_lengths_and_however_many_ports_a_thread_has() {
    explored(|| {
        let threads = running(2);
        let mut ports: Vec<Port> = (0..3).map(|_| open(&threads, 8, None)).collect();
        for number in 0..FRAMES {
            for port in &mut ports {
                put(port, &frame(number));
            }
            if number % 5 == 0 {
                for port in &mut ports {
                    assert!(port.ring.wake().is_none());
                }
            }
        }
        for port in &mut ports {
            port.ring.close();
        }
        threads.stop();
        let all: Vec<Vec<u8>> = (0..FRAMES).map(frame).collect();
        let bytes: usize = all.iter().map(Vec::len).sum();
        for port in ports {
            assert!(port.wire.take() == all);
            assert_eq!(port.tally.packets(), u64::from(FRAMES));
            assert_eq!(port.tally.bytes(), bytes as u64);
            assert_eq!(port.tally.errors(), 0);
        }
    });
}

#[test]
fn frames_wait_for_a_thread_that_starts_later() {
    explored(|| {
        let mut threads = SendThreads::prepare(1);
        let mut port = open(&threads, 8, None);
        let all: Vec<Vec<u8>> = (0..4).map(frame).collect();
        for frame in &all {
            assert!(port.ring.push(frame));
        }
        assert!(port.ring.wake().is_none());
        threads.run().unwrap();
        port.ring.close();
        threads.stop();
        assert!(port.wire.take() == all);
    });
}

#[test]
fn a_frame_without_another_after_it_leaves_once_the_thread_is_woken() {
    explored(|| {
        let threads = running(1);
        let mut port = open(&threads, 8, None);
        for number in 0..FRAMES.min(1000) {
            put(&mut port, &frame(number));
            assert!(port.ring.wake().is_none());
            port.wire.wait_for(number as usize + 1);
        }
        drop(port);
        threads.stop();
    });
}

#[test]
fn a_frame_that_was_put_just_before_its_port_is_closed_leaves_and_the_sender_is_closed() {
    explored(|| {
        let threads = running(1);
        let rounds = if EXPLORING { 1 } else { FRAMES.min(2000) };
        for number in 0..rounds {
            let mut port = open(&threads, 8, None);
            // The thread, woken by the new port, is then at another of its steps each time.
            (0..number % 20).for_each(|_| thread::yield_now());
            assert!(port.ring.push(&frame(number)));
            port.ring.close();
            // Nobody else wakes the thread.
            port.wire.wait_until_closed();
            assert_eq!((port.tally.packets(), port.tally.errors()), (1, 0));
        }
    });
}

#[test]
fn frames_that_find_no_room_are_sent_again() {
    explored(|| {
        let threads = running(1);
        let mut port = open(&threads, 1, None);
        let count = FRAMES.min(200);
        for number in 0..count {
            put(&mut port, &frame(number));
        }
        assert!(port.ring.wake().is_none());
        port.wire.wait_for(count as usize);
        let all: Vec<Vec<u8>> = (0..count).map(frame).collect();
        assert!(port.wire.take() == all);
        drop(port.ring);
        threads.stop();
    });
}

#[test]
fn a_port_is_told_that_its_interface_is_gone_and_the_frames_count_as_errors() {
    explored(|| {
        let threads = running(1);
        let mut port = open(&threads, 8, Some(libc::ENETDOWN));
        assert!(port.ring.push(&frame(0)));
        let error = loop {
            match port.ring.wake() {
                Some(error) => break error,
                None => thread::yield_now(),
            }
        };
        assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
        assert!(port.ring.push(&frame(1)));
        port.ring.close();
        assert!(!port.ring.push(&frame(2)));
        threads.stop();
        assert_eq!((port.tally.packets(), port.tally.errors()), (0, 2));
    });
}

#[test]
fn frames_that_never_find_room_count_as_errors_when_the_port_is_closed() {
    explored(|| {
        let threads = running(1);
        let mut port = open(&threads, 0, None);
        for number in 0..3 {
            put(&mut port, &frame(number));
        }
        port.ring.close();
        threads.stop();
        assert_eq!((port.tally.packets(), port.tally.errors()), (0, 3));
    });
}

#[test]
fn a_ring_that_is_half_full_is_congested_and_a_frame_without_room_is_refused() {
    explored(|| {
        let threads = running(1);
        let mut port = open(&threads, 8, None);
        let long = [1; 60];
        // The thread was woken when the port was opened, and may take frames until it has found the ring empty.
        while !port.ring.is_congested() {
            assert!(port.ring.push(&long));
        }
        while port.ring.push(&long) {}
        assert!(port.ring.wake().is_none());
        while port.ring.is_congested() {
            thread::yield_now();
        }
        assert!(port.ring.push(&long));
        drop(port);
        threads.stop();
    });
}

#[test]
fn a_thread_that_has_ended_is_told_as_an_error() {
    explored(|| {
        let threads = running(1);
        threads.stop();
        let thread = threads.next_thread().unwrap();
        let opened = RemoteSender::new(thread, Memory::default(), 60, Arc::default());
        assert!(opened.is_err());
    });
}
