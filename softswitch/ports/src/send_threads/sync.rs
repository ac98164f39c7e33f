// SPDX-License-Identifier: Apache-2.0
//! The ring, threads, locks and atomics of the send threads. In tests with the feature `explore` a scheduler of shuttle
//! chooses, before each of their operations, which thread makes the next one.

#[cfg(not(all(test, feature = "explore")))]
pub(super) use self::system::*;

#[cfg(all(test, feature = "explore"))]
pub(super) use self::explored::*;

#[cfg(not(all(test, feature = "explore")))]
mod system {
    pub use rtrb::{Consumer, Producer, RingBuffer};
    #[cfg(test)]
    pub use std::sync::Condvar;
    pub use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
    pub use std::sync::{Mutex, mpsc};
    pub use std::thread::{self, JoinHandle, Thread};
}

#[cfg(all(test, feature = "explore"))]
mod explored {
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    pub use shuttle::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize};
    pub use shuttle::sync::{Condvar, Mutex, mpsc};
    pub use shuttle::thread::{JoinHandle, Thread};

    /// Threads; shuttle models no time, so that a wait for a while is a yield.
    pub mod thread {
        pub use shuttle::thread::{Builder, park, yield_now};

        pub fn park_timeout(_: super::Duration) {
            yield_now();
        }
    }

    /// Makes rings whose ends let another thread come before each operation.
    pub struct RingBuffer;

    impl RingBuffer {
        #[expect(clippy::new_ret_no_self, reason = "as rtrb's")]
        pub fn new<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
            let (producer, consumer) = rtrb::RingBuffer::new(capacity);
            (End(producer), End(consumer))
        }
    }

    pub type Producer<T> = End<rtrb::Producer<T>>;
    pub type Consumer<T> = End<rtrb::Consumer<T>>;

    /// One end of a ring; each use of it is a step.
    #[derive(Debug)]
    pub struct End<E>(E);

    /// Lets the scheduler choose another thread; no time passes.
    fn step() {
        shuttle::thread::sleep(Duration::ZERO);
    }

    impl<E> Deref for End<E> {
        type Target = E;

        fn deref(&self) -> &E {
            step();
            &self.0
        }
    }

    impl<E> DerefMut for End<E> {
        fn deref_mut(&mut self) -> &mut E {
            step();
            &mut self.0
        }
    }

    /// Closing an end, which is seen at the other, is a step too.
    impl<E> Drop for End<E> {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                step();
            }
        }
    }
}
