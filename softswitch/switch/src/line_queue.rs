// SPDX-License-Identifier: Apache-2.0
//! Lines of a log that a thread of its own writes, so that whoever logs, the dataplane thread among them, does not wait for
//! long for a reader that has stalled: lines for which the queue has no room are dropped, and their number is logged.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of lines that wait at most: the reader may pause for some thousand lines.
const QUEUED_BYTES: usize = 1 << 20;

/// Lines that wait to be written.
pub struct LineQueue {
    state: Mutex<State>,
    changed: Condvar,
    /// Time in which lines are gathered, to be written with one system call.
    gathering: Duration,
    /// Longest wait of who logs for room, once until the reader takes something.
    patience: Duration,
}

struct State {
    lines: Vec<u8>,
    /// Lines that were dropped since the thread took some last.
    lost: u64,
    has_thread: bool,
    /// Somebody has waited for room in vain since then.
    is_stalled: bool,
    /// The thread writes lines that it has taken.
    is_writing: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.lost == 0
    }

    fn is_full_for(&self, line: &[u8]) -> bool {
        self.lines.len() + line.len() > QUEUED_BYTES
    }
}

impl LineQueue {
    /// An empty one, without a thread.
    pub const fn new(gathering: Duration, patience: Duration) -> Self {
        Self {
            gathering,
            patience,
            state: Mutex::new(State {
                lines: Vec::new(),
                lost: 0,
                has_thread: false,
                is_stalled: false,
                is_writing: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread, if it does not run yet. It inherits the privileges of the caller.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub fn start(
        &'static self,
        name: &str,
        mut output: impl Write + Send + 'static,
    ) -> io::Result<()> {
        if std::mem::replace(&mut self.lock().has_thread, true) {
            return Ok(());
        }
        let spawned = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || self.run(&mut output));
        self.lock().has_thread = spawned.is_ok();
        spawned.map(drop)
    }

    /// Adds a line, or counts it as lost; false when there is no thread to write it.
    pub fn add(&self, line: &[u8]) -> bool {
        let mut state = self.lock();
        if !state.has_thread {
            return false;
        }
        if state.is_full_for(line) && !state.is_stalled {
            let full = |state: &mut State| state.is_full_for(line);
            let waited = self.changed.wait_timeout_while(state, self.patience, full);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.is_stalled = state.is_full_for(line);
        }
        let was_idle = state.is_idle();
        if state.is_full_for(line) {
            state.lost += 1;
        } else {
            state.lines.extend_from_slice(line);
        }
        if was_idle {
            self.changed.notify_all();
        }
        true
    }

    /// Writes lines as they come, for ever.
    fn run(&self, output: &mut impl Write) {
        loop {
            let waited = self.changed.wait_while(self.lock(), |s| s.is_idle());
            drop(waited);
            std::thread::sleep(self.gathering);
            let mut state = self.lock();
            let mut lines = std::mem::take(&mut state.lines);
            let lost = std::mem::take(&mut state.lost);
            state.is_writing = true;
            state.is_stalled = false;
            drop(state);
            self.changed.notify_all();
            if lost > 0 {
                // Writing to memory does not fail. What was dropped came after the lines of a full queue.
                let _ = writeln!(
                    lines,
                    "{lost} lines of the log are missing here: it was not read in time"
                );
            }
            // A full disk, or a reader that has gone, is no reason to stop.
            let _ = output.write_all(&lines).and_then(|()| output.flush());
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }

    /// Waits until all lines are written, for `patience` at most.
    pub fn flush(&self, patience: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.is_idle();
        let state = self.lock();
        if state.has_thread {
            // Who is still busy then is left behind.
            drop(self.changed.wait_timeout_while(state, patience, is_busy));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A reader that takes what was written when it is asked for.
    struct Reader(mpsc::SyncSender<Vec<u8>>);

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = self.0.send(bytes.to_vec());
            taken.map(|()| bytes.len()).map_err(io::Error::other)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn leaked(patience: Duration) -> &'static LineQueue {
        Box::leak(Box::new(LineQueue::new(Duration::ZERO, patience)))
    }

    #[test]
    fn a_slow_reader_misses_no_line_of_a_queue_that_waits_for_it() {
        let queue = leaked(Duration::from_secs(600));
        let (sender, reader) = mpsc::sync_channel(0);
        queue.start("test", Reader(sender)).unwrap();
        const LINES: usize = 5 * QUEUED_BYTES / 1024;
        let adding = std::thread::spawn(|| (0..LINES).all(|_| queue.add(&[b'x'; 1024])));
        let mut read_bytes = 0;
        while read_bytes < LINES * 1024 {
            let Ok(lines) = reader.recv_timeout(Duration::from_secs(20)) else {
                break;
            };
            read_bytes += lines.len();
        }
        assert!(adding.join().unwrap());
        assert_eq!((read_bytes, queue.lock().lost), (LINES * 1024, 0));
    }

    #[test]
    fn a_stalled_reader_is_waited_for_once() {
        let queue = leaked(Duration::from_millis(1));
        let (sender, _reader) = mpsc::sync_channel(0);
        queue.start("test", Reader(sender)).unwrap();
        while !queue.lock().is_stalled {
            queue.add(&[b'x'; 1024]);
        }
        // Who waited again would wait for ever.
        let queue_that_waits = leaked(Duration::MAX);
        queue_that_waits.lock().has_thread = true;
        queue_that_waits.lock().is_stalled = true;
        queue_that_waits.lock().lines = vec![b'x'; QUEUED_BYTES];
        assert!(queue_that_waits.add(b"x"));
        assert_eq!(queue_that_waits.lock().lost, 1);
    }

    #[test]
    fn who_logs_does_not_wait_for_a_reader_that_has_stalled_and_what_is_dropped_is_counted() {
        let queue = leaked(Duration::ZERO);
        // No room: the thread waits in `write` until the other end is read.
        let (sender, reader) = mpsc::sync_channel(0);
        queue.start("test", Reader(sender)).unwrap();
        queue.add(b"first\n");
        while !queue.lock().is_writing {
            std::thread::yield_now();
        }
        let line = [b'x'; 1024];
        let room = QUEUED_BYTES / line.len();
        for _ in 0..room + 7 {
            queue.add(&line);
        }
        queue.flush(Duration::from_millis(1));
        assert_eq!(queue.lock().lost, 7);
        assert_eq!(reader.recv().unwrap(), b"first\n");
        let rest = String::from_utf8(reader.recv().unwrap()).unwrap();
        let (lines, said) = rest.split_at(QUEUED_BYTES);
        assert!(lines.bytes().all(|byte| byte == b'x'));
        assert!(said.starts_with("7 lines of the log are missing here"));
        queue.flush(Duration::from_secs(20));
        queue.add(b"last\n");
        assert_eq!(reader.recv().unwrap(), b"last\n");
    }
}
