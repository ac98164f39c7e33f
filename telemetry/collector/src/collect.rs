// SPDX-License-Identifier: Apache-2.0
//! From start to end: open the source, say ready, receive until a signal to stop, drain, finish the files.

use std::fs::{self, File};
use std::io::{Write, stderr, stdout};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use parquet::file::metadata::KeyValue;
use weir_privileges::{Files, NOTHING, confine};

use crate::args::Args;
use crate::columns::SCHEMA_VERSION;
use crate::error::CollectorError;
use crate::http::Endpoint;
use crate::intake::Intake;
use crate::page::{self, About};
use crate::process;
use crate::source::{Received, Source, unix_ns};
use crate::storage::{Format, Parts, Rotation, Storage, Writer, partial_name, rename_whole};
use crate::summary::Summary;

/// Longest time between two hand-overs to storage while reports arrive; stored rows survive `kill -9`.
const STORE_INTERVAL: Duration = Duration::from_secs(1);
/// Rows are handed to storage when their inner packets have this many bytes: a bound on memory for jumbo frames.
const STORE_INNER_BYTES: usize = 16 << 20;

/// Collects until a signal, a limit or the end of a capture; returns the line to print at the end.
///
/// # Errors
/// [`CollectorError`]; files that are whole stay, see `StorageError::Write`.
pub fn run(args: &Args) -> Result<String, CollectorError> {
    process::keep_freed_memory();
    // First, so that a signal during start-up stays pending and no thread receives it.
    let signals = stop_signals()?;
    let source = Source::open(args)?;
    let endpoint = args.metrics.map(Endpoint::bind).transpose()?;
    // Reserves the name: an unwritable folder is an error now and not at the end.
    let accounting = partial_name(&args.accounting);
    write_file(&accounting, "")?;
    let started = start_storage(args, &source, endpoint.as_ref());
    let storage = started.inspect_err(|_| {
        // The file is empty. If it cannot be removed, the error of the start is the one to report.
        let _ = fs::remove_file(&accounting);
    })?;
    let failed = |what| move |source| CollectorError::System { what, source };
    // The files of the output and of the accounts are written until the end; capture and sockets are open.
    let _ = confine(
        NOTHING,
        &Files::beside([args.output.as_path(), &args.accounting]),
    );
    let writer = Writer::start(storage).map_err(failed("start the storage thread"))?;
    let about = About {
        source: source.to_string(),
        run_id: args.run_id.clone().unwrap_or_default(),
    };
    let intake = Arc::<Mutex<Intake>>::default();
    if let Some(endpoint) = endpoint {
        let (about, intake, stored) = (about.clone(), Arc::clone(&intake), writer.stored());
        endpoint
            .serve(move || page::render(&about, &lock(&intake), &stored))
            .map_err(failed("start the metrics thread"))?;
    }
    let mut collector = Collector {
        args,
        signals,
        source,
        about,
        intake,
        writer,
        store_due: None,
    };
    // Whatever ended the reception, the reports received before it are kept.
    let received = collector.receive_until_stopped();
    let finished = collector.finish();
    received.and(finished)
}

/// Creates the first file, gives up what is not needed any more, then prints the ready lines.
fn start_storage(
    args: &Args,
    source: &Source,
    endpoint: Option<&Endpoint>,
) -> Result<Storage, CollectorError> {
    let format = Format {
        key_values: file_metadata(args),
        row_group_rows: usize::try_from(args.row_group.get()).unwrap_or(usize::MAX),
    };
    let rotation = Rotation {
        bytes: args.rotate_bytes.map(u64::from),
        age: args
            .rotate_seconds
            .map(|seconds| Duration::from_secs(seconds.get().into())),
    };
    let storage = Storage::open(Parts::new(&args.output, rotation), format, |line| {
        let _ = writeln!(stderr(), "weir-collector: {line}");
    })?;
    // Capture and sockets are open; these files are written from now on.
    let written = [&args.output, &args.accounting].into_iter();
    let files = Files::beside(written.chain(&args.ready_file).map(PathBuf::as_path));
    let confined = confine(NOTHING, &files);
    if !confined.is_whole() {
        let _ = writeln!(stderr(), "weir-collector: {confined}");
    }
    if let Err(error) = say_ready(source, endpoint, args.ready_file.as_deref()) {
        storage.abandon();
        return Err(error);
    }
    Ok(storage)
}

struct Collector<'a> {
    args: &'a Args,
    signals: SignalFd,
    source: Source,
    about: About,
    /// Shared with the metrics endpoint.
    intake: Arc<Mutex<Intake>>,
    writer: Writer,
    /// Deadline for storing the waiting rows; `None` while there are none.
    store_due: Option<Instant>,
}

impl Collector<'_> {
    fn receive_until_stopped(&mut self) -> Result<(), CollectorError> {
        let stop_at = self
            .args
            .duration
            .map(|seconds| Instant::now() + Duration::from_secs(seconds.get().into()));
        loop {
            let now = Instant::now();
            let told_to_stop = match self.wait(now, stop_at) {
                Ok(told_to_stop) => told_to_stop,
                // The interface is gone; the reports that it received before are still in its ring.
                Err(gone) => return self.drain().and(Err(gone)),
            };
            if told_to_stop || stop_at.is_some_and(|stop_at| now >= stop_at) || self.gather()? {
                return self.drain();
            }
            let received = self.receive_gathered()?;
            if received == Received::End {
                return Ok(());
            }
            if self.writer.has_stopped() || self.has_enough() {
                self.source.look_up_kernel_drops();
                return Ok(());
            }
        }
    }

    /// Waits for a datagram, a signal or the next deadline. True on a signal to stop.
    fn wait(&mut self, now: Instant, stop_at: Option<Instant>) -> Result<bool, CollectorError> {
        let due = [self.store_due, stop_at].into_iter().flatten().min();
        let longest = due.map_or(STORE_INTERVAL, |due| {
            due.saturating_duration_since(now).min(STORE_INTERVAL)
        });
        // Rounded up: otherwise poll would return repeatedly just before the deadline.
        let milliseconds = longest.as_millis() + 1;
        let source = self.source.waits_for();
        let timeout = if source.is_some() {
            PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX)
        } else {
            PollTimeout::ZERO
        };
        let mut waited = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        waited.extend(source.map(|source| PollFd::new(source, PollFlags::POLLIN)));
        match poll(&mut waited, timeout) {
            Ok(ready) => {
                let told_to_stop = waited[0].any().unwrap_or(false);
                let events = waited.get(1).and_then(PollFd::revents);
                let failed = events.is_some_and(|events| events.contains(PollFlags::POLLERR));
                if failed || ready == 0 {
                    self.source.check()?;
                }
                Ok(told_to_stop)
            }
            Err(nix::errno::Errno::EINTR) => Ok(false),
            Err(errno) => Err(wait_failed(errno)),
        }
    }

    /// Lets further datagrams arrive, for as long as the command line says. True on a signal to stop.
    fn gather(&self) -> Result<bool, CollectorError> {
        if self.args.gather == 0 || self.source.waits_for().is_none() {
            return Ok(false);
        }
        let mut waited = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waited, PollTimeout::from(self.args.gather)) {
            Ok(ready) => Ok(ready > 0),
            Err(nix::errno::Errno::EINTR) => Ok(false),
            Err(errno) => Err(wait_failed(errno)),
        }
    }

    /// Receives the datagrams that the source held at the signal to stop. Later ones are not waited for, so that a sender
    /// that never pauses cannot keep the collector running.
    fn drain(&mut self) -> Result<(), CollectorError> {
        let told_ns = unix_ns();
        // Not again at the end: drops after the last datagram received do not belong to this collection.
        self.source.look_up_kernel_drops();
        let mut holds_back = self.source.holds_back();
        // The rest of a capture is not read: its times cannot be compared with the clock.
        while self.source.waits_for().is_some() {
            match self.receive()? {
                Received::Until(last_ns) if last_ns <= told_ns && !self.writer.has_stopped() => {}
                Received::Nothing if holds_back.is_some() => {
                    self.wait_for_source(holds_back.take().unwrap_or_default())?;
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Waits for a datagram, regardless of signals.
    fn wait_for_source(&self, longest: Duration) -> Result<(), CollectorError> {
        let source = self.source.waits_for();
        let mut waited: Vec<_> = source
            .map(|source| PollFd::new(source, PollFlags::POLLIN))
            .into_iter()
            .collect();
        let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::ZERO);
        match poll(&mut waited, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(wait_failed(errno)),
        }
    }

    /// Receives what has gathered by now, however many batches that are; without `--gather`, one batch.
    fn receive_gathered(&mut self) -> Result<Received, CollectorError> {
        let gathered_ns = unix_ns();
        loop {
            let received = self.receive()?;
            match received {
                Received::Until(last_ns)
                    if self.args.gather > 0
                        && last_ns <= gathered_ns
                        && !self.writer.has_stopped()
                        && !self.has_enough() => {}
                _ => return Ok(received),
            }
        }
    }

    /// Receives the available datagrams, up to a bound, and hands rows to storage when that is due.
    fn receive(&mut self) -> Result<Received, CollectorError> {
        let now = Instant::now();
        let (received, due) = {
            let mut intake = lock(&self.intake);
            let received = self.source.receive(|datagram| intake.receive(datagram))?;
            intake.outside.kernel_drops = self.source.kernel_drops();
            intake.outside.ignored = self.source.ignored();
            let rows = &intake.rows;
            let full =
                rows.len() >= usize::try_from(self.args.row_group.get()).unwrap_or(usize::MAX);
            let since =
                (rows.len() > 0).then(|| *self.store_due.get_or_insert(now + STORE_INTERVAL));
            let due = full
                || rows.inner_bytes() >= STORE_INNER_BYTES
                || since.is_some_and(|due| now >= due);
            (received, due)
        };
        if due {
            self.store_rows()?;
        }
        Ok(received)
    }

    /// Hands the waiting rows to storage. A failure of storage is reported at the end, with its cause.
    fn store_rows(&mut self) -> Result<(), CollectorError> {
        self.store_due = None;
        // Once a second this costs nothing, and it shows drops also while no datagram arrives.
        self.source.look_up_kernel_drops();
        let mut intake = lock(&self.intake);
        intake.outside.kernel_drops = self.source.kernel_drops();
        let length = intake.rows.len() as u64;
        if length == 0 {
            return Ok(());
        }
        let batch = intake.rows.take();
        intake.outside.rows += length;
        let accounts = self.summary(&intake).to_json()?;
        drop(intake);
        if self.writer.write(batch, accounts).is_err() {
            lock(&self.intake).outside.rows -= length;
        }
        Ok(())
    }

    fn has_enough(&self) -> bool {
        self.args
            .count
            .is_some_and(|count| lock(&self.intake).accounting.totals().received >= count.get())
    }

    fn summary(&self, intake: &Intake) -> Summary {
        Summary::new(&self.about.source, &intake.accounting, intake.outside)
    }

    /// Finishes all files; returns the line with the counts.
    fn finish(mut self) -> Result<String, CollectorError> {
        self.store_rows()?;
        let mut summary = self.summary(&lock(&self.intake));
        summary.ended = true;
        let stored = self.writer.stored();
        let (result, whole_rows) = self.writer.finish(summary.to_json()?);
        summary.files = Some(stored.files.load(Ordering::Relaxed));
        if result.is_err() {
            summary.complete = false;
            summary.rows = whole_rows;
        }
        let accounting = write_whole(&self.args.accounting, &summary.to_json()?);
        result?;
        accounting?;
        let cut = if self.source.truncated() {
            "; the capture ends inside a frame"
        } else {
            ""
        };
        Ok(format!(
            "weir-collector: {summary}; {} rows in {}{cut}",
            summary.rows,
            self.args.output.display()
        ))
    }
}

fn wait_failed(errno: nix::errno::Errno) -> CollectorError {
    CollectorError::System {
        what: "wait for datagrams",
        source: errno.into(),
    }
}

/// A poisoned lock is still valid: no holder panics while the accounts are inconsistent.
fn lock(intake: &Mutex<Intake>) -> MutexGuard<'_, Intake> {
    intake.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks SIGTERM and SIGINT and returns a descriptor to poll for them.
fn stop_signals() -> Result<SignalFd, CollectorError> {
    let signals: SigSet = [Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    let failed = |errno: nix::Error| CollectorError::System {
        what: "take over signals",
        source: errno.into(),
    };
    signals.thread_block().map_err(failed)?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map_err(failed)
}

/// The file's metadata that is known before the first report.
fn file_metadata(args: &Args) -> Vec<KeyValue> {
    let version = KeyValue::new("weir.schema_version".to_owned(), SCHEMA_VERSION.to_owned());
    let run_id = args
        .run_id
        .clone()
        .map(|run_id| KeyValue::new("weir.run_id".to_owned(), run_id));
    [Some(version), run_id].into_iter().flatten().collect()
}

fn say_ready(
    source: &Source,
    endpoint: Option<&Endpoint>,
    file: Option<&Path>,
) -> Result<(), CollectorError> {
    let mut lines = format!("weir-collector: {source}\n");
    if let Some(endpoint) = endpoint {
        let address = endpoint.address();
        lines += &format!("weir-collector: metrics at http://{address}/metrics\n");
    }
    // A closed stdout must not stop the collection.
    let _ = stdout().write_all(lines.as_bytes());
    let _ = stdout().flush();
    file.map_or(Ok(()), |file| write_whole(file, &lines))
}

/// Writes a file under its partial name, then renames it.
fn write_whole(path: &Path, text: &str) -> Result<(), CollectorError> {
    let partial = partial_name(path);
    write_file(&partial, text)?;
    rename_whole(&partial, path).map_err(|source| CollectorError::File {
        path: path.to_owned(),
        source,
    })
}

fn write_file(path: &Path, text: &str) -> Result<(), CollectorError> {
    let written = File::create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|source| CollectorError::File {
        path: path.to_owned(),
        source,
    })
}
