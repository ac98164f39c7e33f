// SPDX-License-Identifier: Apache-2.0
//! The log on standard error. A thread of its own writes it, so that whoever logs, the dataplane thread among them, does not
//! wait for a reader that has stalled: lines for which the queue has no room are dropped, and their number is logged.
//!
//! The thread starts when the program has given up its privileges, since a thread keeps what it began with. Until then lines
//! are written at once.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of lines that wait at most: the reader may pause for some thousand lines.
const QUEUED_BYTES: usize = 1 << 20;
/// Longest wait for the reader at the end of the program.
const PATIENCE: Duration = Duration::from_secs(1);

static QUEUE: Queue = Queue::new();

/// Starts the thread, if it does not run yet. It inherits the privileges of the caller.
///
/// # Errors
/// When the system cannot create a thread.
pub fn start() -> io::Result<()> {
    if std::mem::replace(&mut QUEUE.lock().has_thread, true) {
        return Ok(());
    }
    let write = || QUEUE.run(&mut io::stderr());
    let spawned = std::thread::Builder::new()
        .name("stderr".to_owned())
        .spawn(write);
    // Without it, the reason why the program ends is written at once.
    QUEUE.lock().has_thread = spawned.is_ok();
    spawned.map(drop)
}

/// A writer of whole lines, for `tracing_subscriber`.
pub fn writer() -> impl Write {
    Lines(&QUEUE)
}

/// Writes a last line, and waits a second at most until all lines are written.
pub fn end(line: Option<&str>) {
    if let Some(line) = line {
        QUEUE.add(format!("{line}\n").as_bytes());
    }
    QUEUE.flush(PATIENCE);
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    lines: Vec<u8>,
    /// Lines that were dropped since the thread took some last.
    lost: u64,
    has_thread: bool,
    /// The thread writes lines that it has taken.
    is_writing: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.lost == 0
    }
}

impl Queue {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                lines: Vec::new(),
                lost: 0,
                has_thread: false,
                is_writing: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, line: &[u8]) {
        let mut state = self.lock();
        if !state.has_thread {
            drop(state);
            // A full disk, or a reader that has gone, is no reason to stop.
            let _ = io::stderr().write_all(line);
            return;
        }
        let was_idle = state.is_idle();
        if state.lines.len() + line.len() > QUEUED_BYTES {
            state.lost += 1;
        } else {
            state.lines.extend_from_slice(line);
        }
        if was_idle {
            self.changed.notify_all();
        }
    }

    /// Writes lines as they come, for ever.
    fn run(&self, output: &mut impl Write) {
        loop {
            let waited = self.changed.wait_while(self.lock(), |s| s.is_idle());
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            let mut lines = std::mem::take(&mut state.lines);
            let lost = std::mem::take(&mut state.lost);
            state.is_writing = true;
            drop(state);
            if lost > 0 {
                // Writing to memory does not fail. What was dropped came after the lines of a full queue.
                let _ = writeln!(
                    lines,
                    "{lost} lines of the log are missing here: standard error was not read in time"
                );
            }
            // As above.
            let _ = output.write_all(&lines);
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }

    fn flush(&self, patience: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.is_idle();
        let state = self.lock();
        if state.has_thread {
            // Who is still busy then is left behind.
            drop(self.changed.wait_timeout_while(state, patience, is_busy));
        }
    }
}

struct Lines(&'static Queue);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.add(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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

    #[test]
    fn who_logs_does_not_wait_for_a_reader_that_has_stalled_and_what_is_dropped_is_counted() {
        let queue: &'static Queue = Box::leak(Box::new(Queue::new()));
        queue.lock().has_thread = true;
        // No room: the thread waits in `write` until the other end is read.
        let (sender, reader) = mpsc::sync_channel(0);
        std::thread::spawn(move || queue.run(&mut Reader(sender)));
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
