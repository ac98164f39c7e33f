// SPDX-License-Identifier: Apache-2.0
//! Ports without network interfaces: one channel that carries the frames of all of them, such as a socket or files.
//!
//! Another thread gives received frames to an [`Inlet`]; the switch takes them from the [`Trunk`], and gives those that it
//! sends to a function.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::clocks::realtime_ns;

/// Frames that wait for the switch; a thread that has another waits for room, as a sender on a link does.
const WAITING_FRAMES: usize = 1_024;

/// A received frame.
#[derive(Debug)]
pub struct Arrival {
    /// Port at which it arrived.
    pub port: u32,
    /// Its bytes.
    pub frame: Vec<u8>,
    /// Time of arrival, ns of `CLOCK_REALTIME`.
    pub realtime_ns: u64,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    room: Condvar,
    event: OwnedFd,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Arrival>,
    /// The switch takes no more frames.
    closed: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that received frames go into; cheap to clone.
#[derive(Debug, Clone)]
pub struct Inlet(Arc<Shared>);

impl Inlet {
    /// Gives the switch a frame, after waiting for room; false when the switch has ended.
    pub fn push(&self, port: u32, frame: Vec<u8>) -> bool {
        let shared = &self.0;
        let full = |queue: &mut Queue| queue.frames.len() >= WAITING_FRAMES && !queue.closed;
        let waited = shared.room.wait_while(shared.queue(), full);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        if queue.closed {
            return false;
        }
        queue.frames.push_back(Arrival {
            port,
            frame,
            realtime_ns: realtime_ns(),
        });
        drop(queue);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: pointer and length describe `one`. A full counter (EAGAIN) means that a wake-up is pending.
        unsafe { libc::write(shared.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        true
    }
}

/// Sends a frame through a port; must not block.
pub type SendFrame = Box<dyn FnMut(u32, &[u8]) + Send>;

/// The end that the switch has.
pub struct Trunk {
    shared: Arc<Shared>,
    send: SendFrame,
    taken: VecDeque<Arrival>,
}

impl Trunk {
    /// A channel whose frames out go to `send`.
    ///
    /// # Errors
    /// When the system cannot create an event descriptor.
    pub fn new(send: SendFrame) -> io::Result<(Self, Inlet)> {
        // SAFETY: a plain system call; the result is checked before it is owned.
        let event = unsafe {
            let fd = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            room: Condvar::new(),
            event,
        });
        let trunk = Self {
            shared: Arc::clone(&shared),
            send,
            taken: VecDeque::new(),
        };
        Ok((trunk, Inlet(shared)))
    }

    /// The descriptor to poll for input.
    pub fn poll_fd(&self) -> RawFd {
        self.shared.event.as_raw_fd()
    }

    /// The oldest frame that was received.
    pub fn take(&mut self) -> Option<Arrival> {
        if self.taken.is_empty() {
            let mut count = [0_u8; 8];
            // SAFETY: pointer and length describe `count`. EAGAIN means that there was no wake-up.
            unsafe {
                libc::read(
                    self.shared.event.as_raw_fd(),
                    count.as_mut_ptr().cast(),
                    count.len(),
                )
            };
            std::mem::swap(&mut self.shared.queue().frames, &mut self.taken);
            self.shared.room.notify_all();
        }
        self.taken.pop_front()
    }

    /// Sends a frame through a port.
    pub fn send(&mut self, port: u32, frame: &[u8]) {
        (self.send)(port, frame);
    }
}

impl Drop for Trunk {
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_in_order_and_wake_the_switch() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&sent);
        let send = move |port: u32, frame: &[u8]| seen.lock().unwrap().push((port, frame.to_vec()));
        let (mut trunk, inlet) = Trunk::new(Box::new(send)).unwrap();
        let poll = |trunk: &Trunk| {
            let mut fd = libc::pollfd {
                fd: trunk.poll_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one valid descriptor, no wait.
            unsafe { libc::poll(&raw mut fd, 1, 0) }
        };
        assert_eq!(poll(&trunk), 0);
        assert!(inlet.push(7, vec![1]));
        assert!(inlet.push(8, vec![2]));
        assert_eq!(poll(&trunk), 1);
        let taken: Vec<_> = std::iter::from_fn(|| trunk.take()).collect();
        let taken: Vec<_> = taken.iter().map(|a| (a.port, a.frame.as_slice())).collect();
        assert_eq!(taken, [(7, &[1][..]), (8, &[2][..])]);
        assert_eq!(poll(&trunk), 0);
        trunk.send(9, &[3]);
        assert_eq!(*sent.lock().unwrap(), [(9, vec![3])]);
    }

    #[test]
    fn a_full_channel_makes_the_sender_wait_and_a_closed_one_lets_it_go() {
        let (mut trunk, inlet) = Trunk::new(Box::new(|_, _| {})).unwrap();
        let all = WAITING_FRAMES as u32 + 100;
        let pushing = std::thread::spawn(move || {
            assert!((0..all).all(|number| inlet.push(number, Vec::new())));
            inlet
        });
        let mut taken = 0;
        while taken < all {
            match trunk.take() {
                Some(arrival) => {
                    assert_eq!(arrival.port, taken);
                    taken += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        let inlet = pushing.join().unwrap();
        drop(trunk);
        assert!(!inlet.push(0, Vec::new()));
    }
}
