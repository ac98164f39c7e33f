// SPDX-License-Identifier: Apache-2.0
//! The log on standard error, written by a thread of its own ([`LineQueue`]).
//!
//! The thread starts when the program has given up its privileges, since a thread keeps what it began with. Until then lines
//! are written at once.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::line_queue::LineQueue;

/// Longest wait for the reader at the end of the program.
const PATIENCE: Duration = Duration::from_secs(1);

static QUEUE: LineQueue = LineQueue::new(Duration::ZERO, Duration::ZERO);

/// Starts the thread, if it does not run yet. It inherits the privileges of the caller.
///
/// # Errors
/// When the system cannot create a thread; lines are then still written at once.
pub fn start() -> io::Result<()> {
    QUEUE.start("stderr", io::stderr())
}

/// A writer of whole lines, for `tracing_subscriber`.
pub fn writer() -> impl Write {
    Lines
}

/// Whether lines may have colours: on a terminal, unless NO_COLOR is set (<https://no-color.org>). In a file they would be
/// escape sequences between the words that readers search for.
#[must_use]
pub fn has_colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Writes a last line, and waits a second at most until all lines are written.
pub fn end(line: Option<&str>) {
    if let Some(line) = line {
        add(format!("{line}\n").as_bytes());
    }
    QUEUE.flush(PATIENCE);
}

fn add(line: &[u8]) {
    if !QUEUE.add(line) {
        // A full disk, or a reader that has gone, is no reason to stop.
        let _ = io::stderr().write_all(line);
    }
}

struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        add(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
