// SPDX-License-Identifier: Apache-2.0
//! From start to end: bind, say ready, receive until told to stop, drain, finish the files.

use std::fs;
use std::io::{self, Write, stdout};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use parquet::file::metadata::KeyValue;

use crate::args::Args;
use crate::error::CollectorError;
use crate::intake::Intake;
use crate::rows::{SCHEMA_VERSION, schema};
use crate::socket::{ReportSocket, unix_ns};
use crate::storage::{ParquetFile, partial_name};
use crate::summary::Summary;
use crate::writer::Writer;

/// A row group is written at least this often while reports come.
const ROW_GROUP_INTERVAL: Duration = Duration::from_secs(1);
/// A row group is written when its inner packets have this many bytes, so that jumbo frames do not take all memory.
const ROW_GROUP_INNER_BYTES: usize = 16 << 20;

/// Collects until a signal or a limit; the line to print at the end.
///
/// # Errors
/// [`CollectorError`]; files that are whole by then stay, see `StorageError::Write`.
pub fn run(args: &Args) -> Result<String, CollectorError> {
    // First of all, so that a signal during start-up is kept and no thread takes it.
    let signals = stop_signals()?;
    let socket = ReportSocket::bind(args.listen, args.receive_buffer)?;
    // Reserves the name, so that an unwritable folder is known now and not at the end.
    write_file(&partial_name(&args.accounting), "")?;
    let schema = schema();
    let file = ParquetFile::create(&args.output, &schema, file_metadata(args))?;
    let ready = format!("weir-collector: listening on {}\n", socket.address());
    if let Err(error) = say_ready(&ready, args.ready_file.as_deref()) {
        file.abandon();
        return Err(error);
    }
    let writer = Writer::start(file).map_err(|source| CollectorError::System {
        what: "start the storage thread",
        source,
    })?;
    let intake = Intake::new(socket.address());
    let mut collector = Collector {
        args,
        schema,
        signals,
        socket,
        intake,
        writer,
        rows: 0,
        row_group_due: None,
    };
    // Whatever ended the reception, what came before it is to be kept.
    let received = collector.receive_until_stopped();
    let finished = collector.finish();
    received.and(finished)
}

struct Collector<'a> {
    args: &'a Args,
    schema: SchemaRef,
    signals: SignalFd,
    socket: ReportSocket,
    intake: Intake,
    writer: Writer,
    /// Rows handed to the writer.
    rows: u64,
    /// When the rows that wait must be written; `None` while there are none.
    row_group_due: Option<Instant>,
}

impl Collector<'_> {
    fn receive_until_stopped(&mut self) -> Result<(), CollectorError> {
        let stop_at = self
            .args
            .duration
            .map(|seconds| Instant::now() + Duration::from_secs(seconds.get().into()));
        loop {
            let now = Instant::now();
            if self.wait(now, stop_at)? || stop_at.is_some_and(|stop_at| now >= stop_at) {
                return self.drain();
            }
            self.receive_batch()?;
            if self.writer.has_stopped() || self.has_enough() {
                self.socket.look_up_kernel_drops();
                return Ok(());
            }
        }
    }

    /// Waits for a datagram, or until something is due. True when told to stop.
    fn wait(&self, now: Instant, stop_at: Option<Instant>) -> Result<bool, CollectorError> {
        let due = [self.row_group_due, stop_at].into_iter().flatten().min();
        let longest = due.map_or(ROW_GROUP_INTERVAL, |due| {
            due.saturating_duration_since(now).min(ROW_GROUP_INTERVAL)
        });
        // Rounded up: poll must not return just before what is due, over and over.
        let milliseconds = longest.as_millis() + 1;
        let timeout = PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX);
        let mut waited = [
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut waited, timeout) {
            Ok(_) => Ok(waited[1].any().unwrap_or(false)),
            Err(nix::errno::Errno::EINTR) => Ok(false),
            Err(errno) => Err(CollectorError::System {
                what: "wait for datagrams",
                source: errno.into(),
            }),
        }
    }

    /// Takes in what the socket held when it was told to stop. What comes later is not waited for, so that a sender
    /// that never pauses cannot keep the collector alive.
    fn drain(&mut self) -> Result<(), CollectorError> {
        let told_ns = unix_ns();
        // Not again at the end: drops behind the last datagram that is taken in are not this collection's.
        self.socket.look_up_kernel_drops();
        loop {
            let later = self
                .receive_batch()?
                .is_none_or(|last_ns| last_ns > told_ns);
            if later || self.writer.has_stopped() {
                return Ok(());
            }
        }
    }

    /// Takes in one batch and hands its rows on when that is due. When the last datagram came; `None` for none.
    fn receive_batch(&mut self) -> Result<Option<i64>, CollectorError> {
        self.socket.receive()?;
        let mut last_ns = None;
        for datagram in self.socket.datagrams() {
            self.intake.take_in(&datagram);
            last_ns = Some(datagram.received_ns);
        }
        let now = Instant::now();
        let rows = &self.intake.rows;
        if rows.len() > 0 {
            let due = *self.row_group_due.get_or_insert(now + ROW_GROUP_INTERVAL);
            let full =
                rows.len() >= usize::try_from(self.args.row_group.get()).unwrap_or(usize::MAX);
            if full || rows.inner_bytes() >= ROW_GROUP_INNER_BYTES || now >= due {
                self.write_rows()?;
            }
        }
        Ok(last_ns)
    }

    /// Hands the waiting rows to storage. That storage has failed is known at the end, with its cause.
    fn write_rows(&mut self) -> Result<(), CollectorError> {
        self.row_group_due = None;
        let length = self.intake.rows.len();
        if length == 0 {
            return Ok(());
        }
        let batch = self.intake.rows.take(&self.schema)?;
        if self.writer.write(batch).is_ok() {
            self.rows += length as u64;
        }
        Ok(())
    }

    fn has_enough(&self) -> bool {
        self.args
            .count
            .is_some_and(|count| self.intake.accounting.totals().received >= count.get())
    }

    /// Finishes both files; the line that says what came.
    fn finish(mut self) -> Result<String, CollectorError> {
        self.write_rows()?;
        let kernel_drops = self.socket.kernel_drops();
        let mut summary = Summary::new(&self.intake.accounting, self.rows, kernel_drops);
        let in_file = KeyValue::new("weir.accounting".to_owned(), summary.to_json()?);
        let stored = self.writer.finish(in_file);
        if let Err(error) = &stored {
            summary.complete = false;
            summary.rows = error.rows_kept();
        }
        let accounting = write_whole(&self.args.accounting, &summary.to_json()?);
        stored?;
        accounting?;
        Ok(format!(
            "weir-collector: {summary}; {} rows in {}",
            summary.rows,
            self.args.output.display()
        ))
    }
}

/// Blocks SIGTERM and SIGINT and gives them as something to wait for.
fn stop_signals() -> Result<SignalFd, CollectorError> {
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    let failed = |errno: nix::Error| CollectorError::System {
        what: "take over signals",
        source: errno.into(),
    };
    signals.thread_block().map_err(failed)?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map_err(failed)
}

/// What is known of the file before the first report.
fn file_metadata(args: &Args) -> Vec<KeyValue> {
    let version = KeyValue::new("weir.schema_version".to_owned(), SCHEMA_VERSION.to_owned());
    let run_id = args
        .run_id
        .clone()
        .map(|run_id| KeyValue::new("weir.run_id".to_owned(), run_id));
    [Some(version), run_id].into_iter().flatten().collect()
}

fn say_ready(line: &str, file: Option<&Path>) -> Result<(), CollectorError> {
    // Nobody may be reading; that is no reason not to collect.
    let _ = stdout().write_all(line.as_bytes());
    let _ = stdout().flush();
    file.map_or(Ok(()), |file| write_whole(file, line))
}

/// Writes a file under its partial name, then gives it its own.
fn write_whole(path: &Path, text: &str) -> Result<(), CollectorError> {
    let partial = partial_name(path);
    write_file(&partial, text)?;
    fs::rename(&partial, path).map_err(|source| CollectorError::File {
        path: path.to_owned(),
        source,
    })
}

fn write_file(path: &Path, text: &str) -> Result<(), CollectorError> {
    let written: io::Result<()> = fs::write(path, text);
    written.map_err(|source| CollectorError::File {
        path: path.to_owned(),
        source,
    })
}
