// SPDX-License-Identifier: Apache-2.0
//! Waiting for frames, commands or a point in time; `ppoll(2)`, `eventfd(2)`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Wakes the dataplane thread from another thread.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        // SAFETY: a plain system call; the result is checked before it is owned.
        unsafe {
            let fd = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
            if fd < 0 {
                Err(io::Error::last_os_error())
            } else {
                Ok(Self {
                    event: OwnedFd::from_raw_fd(fd),
                })
            }
        }
    }

    /// Ends the current wait, or the next one.
    pub fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: pointer and length describe `one`. A full counter (EAGAIN) means that a wake-up is pending.
        unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Discards the wake-ups so far.
    pub fn clear(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: pointer and length describe `count`. EAGAIN means that there was none.
        unsafe {
            libc::read(
                self.event.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
    }
}

/// The cause of the end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The waker, and perhaps input.
    Waker,
    /// Input only, or room.
    Input,
    /// The time.
    Timeout,
    /// A signal.
    Interrupted,
}

/// The descriptors to wait for; kept between waits so that waiting allocates nothing.
#[derive(Default)]
pub struct WaitSet {
    descriptors: Vec<libc::pollfd>,
    ports: Vec<usize>,
}

impl WaitSet {
    /// Empties the set except for the waker.
    pub fn reset(&mut self, waker: &Waker) {
        self.ports.clear();
        self.descriptors.clear();
        self.descriptors.push(pollfd(waker.event.as_raw_fd()));
    }

    /// Waits for input on the descriptor of port `index` too.
    pub fn add(&mut self, index: usize, fd: RawFd) {
        self.ports.push(index);
        self.descriptors.push(pollfd(fd));
    }

    /// Waits for input on a descriptor that belongs to no port too; to be called after those of the ports.
    pub fn add_other(&mut self, fd: RawFd) {
        self.descriptors.push(pollfd(fd));
    }

    /// Waits for room in what a descriptor writes to; as [`WaitSet::add_other`].
    pub fn add_room(&mut self, fd: RawFd) {
        self.descriptors.push(libc::pollfd {
            events: libc::POLLOUT,
            ..pollfd(fd)
        });
    }

    /// Waits for input, room, a wake-up, or until `timeout_ns` has passed (None: no limit).
    pub fn wait(&mut self, timeout_ns: Option<u64>) -> Woken {
        let timeout = timeout_ns.map(|ns| libc::timespec {
            tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let timeout = timeout
            .as_ref()
            .map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: pointer and length describe `descriptors`; the timeout is null or a timespec that outlives the
        // call. After an error (EINTR) the caller checks everything again, as after any return.
        let ready = unsafe {
            libc::ppoll(
                self.descriptors.as_mut_ptr(),
                self.descriptors.len() as libc::nfds_t,
                timeout,
                std::ptr::null(),
            )
        };
        let waker = self.descriptors.first();
        match ready {
            0 => Woken::Timeout,
            1.. if waker.is_some_and(|waker| waker.revents & libc::POLLIN != 0) => Woken::Waker,
            1.. => Woken::Input,
            _ => Woken::Interrupted,
        }
    }

    /// Ports whose descriptor reported an error in the last wait.
    pub fn failed(&self) -> impl Iterator<Item = usize> + '_ {
        let ports = self.descriptors.iter().skip(1).zip(&self.ports);
        ports
            .filter(|(fd, _)| fd.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0)
            .map(|(_, p)| *p)
    }
}

fn pollfd(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Sets the calling thread's timer slack to the minimum: the default of 50 us would be added to every delay and shaping
/// interval.
pub fn set_exact_timers() {
    // SAFETY: a plain system call that changes an attribute of the calling thread. A failure only makes timers less
    // exact.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}
