// SPDX-License-Identifier: Apache-2.0
//! The log in bmv2's form: `[12:34:56.789] [bmv2] [D] [thread 1234] text`, on standard output or in a file.

use std::cell::RefCell;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Context;
use tracing_subscriber::prelude::*;

use super::options::{self, LogOptions, LogTo};
use crate::line_queue::LineQueue;
use crate::stderr;

/// Sends the program's messages to where the options say; without a log, warnings go to standard error.
///
/// # Errors
/// When the log's file cannot be written.
pub(super) fn install(options: &LogOptions) -> Result<(), String> {
    let writer: Box<dyn Write + Send> = match &options.to {
        LogTo::Nowhere => {
            let lines = tracing_subscriber::fmt::layer()
                .with_writer(stderr::writer)
                .with_ansi(stderr::has_colours())
                .with_target(false)
                .without_time()
                .log_internal_errors(false);
            let shown = Targets::new()
                .with_default(LevelFilter::WARN)
                .with_target("weir", LevelFilter::INFO)
                .with_target("packet", LevelFilter::OFF);
            tracing_subscriber::registry()
                .with(lines.with_filter(shown))
                .init();
            return Ok(());
        }
        LogTo::Console => Box::new(io::stdout()),
        LogTo::File {
            path,
            max_bytes,
            max_files,
        } => {
            let file = Rotating::open(path.clone(), *max_bytes, *max_files);
            Box::new(file.map_err(|error| {
                format!("--log-file: cannot write {}.txt: {error}", path.display())
            })?)
        }
    };
    let level = match options.level {
        options::Level::Trace => LevelFilter::TRACE,
        options::Level::Debug => LevelFilter::DEBUG,
        options::Level::Info => LevelFilter::INFO,
        options::Level::Warn => LevelFilter::WARN,
        options::Level::Error => LevelFilter::ERROR,
        options::Level::Off => LevelFilter::OFF,
    };
    // Libraries log what no reader of bmv2's log expects.
    let shown = Targets::new()
        .with_default(LevelFilter::WARN.min(level))
        .with_target("weir", level)
        .with_target("packet", level)
        .with_target("program", level);
    LOG.start("log", writer)
        .map_err(|error| format!("--log-console, --log-file: {error}"))?;
    tracing_subscriber::registry()
        .with(Lines(&LOG).with_filter(shown))
        .init();
    Ok(())
}

/// The log, if there is one. A system call per line would make a logged packet several times as slow, so lines are
/// gathered. bmv2 waits for its reader for ever: here a reader that is slower than packets come slows them down, so that no
/// line is missing, and one that has stopped does not stop the switch.
static LOG: LineQueue = LineQueue::new(Duration::from_millis(5), PATIENCE);
/// Longest wait for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes the lines that are left, before the program ends.
pub(super) fn flush() {
    LOG.flush(PATIENCE);
}

/// Adds one line per event.
struct Lines(&'static LineQueue);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let letter = match *event.metadata().level() {
            Level::TRACE => 'T',
            Level::DEBUG => 'D',
            Level::INFO => 'I',
            Level::WARN => 'W',
            Level::ERROR => 'E',
        };
        let (time, millis) = now();
        let thread = THREAD.with(|thread| *thread);
        let text = &message.0;
        let line = format!("[{time}.{millis:03}] [bmv2] [{letter}] [thread {thread}] {text}\n");
        self.0.add(line.as_bytes());
    }
}

thread_local! {
    // SAFETY: a plain system call without arguments.
    static THREAD: libc::pid_t = unsafe { libc::gettid() };
    /// The last second that this thread logged, and its text.
    static SECOND: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string does not fail.
            let _ = fmt::Write::write_fmt(&mut self.0, format_args!("{value:?}"));
        }
    }
}

/// The time of day, and its milliseconds.
fn now() -> (String, u32) {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let second = since_epoch.as_secs();
    let text = SECOND.with_borrow_mut(|(last, text)| {
        if *last != second {
            *last = second;
            *text = time_of_day(second as libc::time_t);
        }
        text.clone()
    });
    (text, since_epoch.subsec_millis())
}

fn time_of_day(second: libc::time_t) -> String {
    // SAFETY: an all-zero value of a plain C structure, which the call fills; both pointers are valid.
    let local = unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const second, &raw mut local);
        local
    };
    format!(
        "{:02}:{:02}:{:02}",
        local.tm_hour, local.tm_min, local.tm_sec
    )
}

/// A file `PATH.txt` that becomes `PATH.1.txt` when it is full, as bmv2's does.
struct Rotating {
    path: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
    max_files: usize,
}

impl Rotating {
    fn open(path: PathBuf, max_bytes: u64, max_files: usize) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(numbered(&path, 0))?;
        let bytes = file.metadata()?.len();
        Ok(Self {
            path,
            file,
            bytes,
            max_bytes,
            max_files,
        })
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (0..self.max_files).rev() {
            match std::fs::rename(
                numbered(&self.path, number),
                numbered(&self.path, number + 1),
            ) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = File::create(numbered(&self.path, 0))?;
        self.bytes = 0;
        Ok(())
    }
}

/// The name of a log's file; the current one has number 0.
fn numbered(path: &std::path::Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(match number {
        0 => ".txt".to_owned(),
        _ => format!(".{number}.txt"),
    });
    PathBuf::from(name)
}

impl Write for Rotating {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes > 0 && self.bytes + bytes.len() as u64 > self.max_bytes {
            self.rotate()?;
        }
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_full_log_file_is_renamed_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("switch.log");
        let mut file = Rotating::open(path, 10, 2).unwrap();
        for text in ["first.\n", "second\n", "third.\n", "fourth\n"] {
            file.write_all(text.as_bytes()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name));
        assert_eq!(read("switch.log.txt").unwrap(), "fourth\n");
        assert_eq!(read("switch.log.1.txt").unwrap(), "third.\n");
        assert_eq!(read("switch.log.2.txt").unwrap(), "second\n");
        assert!(read("switch.log.3.txt").is_err());
    }

    #[test]
    fn lines_have_the_form_of_bmv2() {
        #[derive(Clone)]
        struct Kept(Arc<Mutex<Vec<u8>>>);
        impl Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let kept = Kept(Arc::default());
        let queue: &'static LineQueue =
            Box::leak(Box::new(LineQueue::new(Duration::ZERO, PATIENCE)));
        queue.start("test", kept.clone()).unwrap();
        let subscriber = tracing_subscriber::registry().with(Lines(queue));
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(target: "packet", number = 7, "Egress port is 2");
        });
        queue.flush(Duration::from_secs(600));
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(text.ends_with("] Egress port is 2\n"), "{text}");
        assert!(text.contains("] [bmv2] [D] [thread "), "{text}");
        assert_eq!(text.find("] "), Some(13), "{text}");
    }
}
