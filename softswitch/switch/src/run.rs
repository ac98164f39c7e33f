// SPDX-License-Identifier: Apache-2.0
//! Starts the parts of the switch, supervises them, and stops them at the end.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing::warn;
use weir_dataplane::{LoadError, Program};
use weir_ports::OpenError;

use crate::cli::{Cli, Command};
use crate::links::client::{self, ClientError};
use crate::links::port::PortError;
use crate::prepared::{Prepared, PreparedWires};
use crate::stats::Snapshot;
use crate::tls::TlsError;
use crate::wire::PairError;
use weir_engine::engine::{Core, Engine, Forwarder, Handle};
use weir_engine::node::failure::Failure;

/// Packet-ins and digest lists queued from the dataplane to the service.
pub(crate) const QUEUED_NOTIFICATIONS: usize = 4096;
const STATS_INTERVAL: Duration = Duration::from_millis(200);

/// The reason why the switch could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The ports given on the command line.
    #[error("--port: {0}")]
    Ports(Box<PortError>),
    /// A port's interface.
    #[error("--port: {0}")]
    Interface(#[from] OpenError),
    /// The program's file cannot be read.
    #[error("--json: cannot read {path}: {error}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The program cannot be run.
    #[error("--json: {path}: {error}", path = path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The loader's error.
        error: LoadError,
    },
    /// The switch refused the program.
    #[error("--json: {path}: {failure}", path = path.display())]
    Program {
        /// The file.
        path: PathBuf,
        /// The switch's reason.
        failure: Failure,
    },
    /// The dataplane refused a port's configuration.
    #[error("--port: {0}")]
    Node(#[from] Failure),
    /// The pairs of a wire.
    #[error("--pair: {0}")]
    Pairs(Box<PairError>),
    /// The command that reads and changes links.
    #[error("{0}")]
    Links(Box<ClientError>),
    /// The service's address.
    #[error("{option}: cannot listen on {address}: {error}")]
    Listen {
        /// The option that names it.
        option: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
    /// The service's certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The service's transport.
    #[error("the service failed: {0}")]
    Service(#[from] tonic::transport::Error),
    /// A file of statistics that cannot be written at the end.
    #[error("--stats: cannot write {path}: {error}", path = path.display())]
    Stats {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The system could not create a thread, signal handler or event descriptor.
    #[error("cannot start: {0}")]
    System(io::Error),
    /// A defect in the switch.
    #[error("the dataplane thread exited unexpectedly; its error is above")]
    DataplaneLost,
}

/// Runs the command to its end.
///
/// Not `async`: its callers would then compile the service a second time. Sockets are opened and files read before there is a
/// thread besides this one, because giving up privileges acts on this thread and those that it starts.
///
/// # Errors
/// [`RunError`], whose text says what to change.
pub fn run(mut cli: Cli) -> Result<(), RunError> {
    match cli.command.take() {
        None => {
            let switch = Prepared::new(cli)?;
            on_threads(switch.run())
        }
        Some(Command::Wire(options)) => {
            let wires = PreparedWires::new(options)?;
            on_threads(wires.run())
        }
        Some(Command::Links(command)) => on_threads(async {
            let done = client::run(command).await;
            done.map_err(|error| RunError::Links(Box::new(error)))
        }),
    }
}

/// Runs the control of a switch to its end.
fn on_threads(work: impl Future<Output = Result<(), RunError>>) -> Result<(), RunError> {
    // Two threads for control; the dataplane has a separate thread.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(RunError::System)?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

/// Prints a line. The reader may have closed standard output already; that is no reason to stop.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Serves until a stop signal, watches the dataplane thread, and writes the final statistics.
pub(crate) async fn supervise<
    F: Forwarder,
    S: Future<Output = Result<(), tonic::transport::Error>>,
>(
    engine: Engine<F>,
    stats: Option<PathBuf>,
    mut stop: Stop,
    serve: impl FnOnce(oneshot::Receiver<()>) -> S,
) -> Result<(), RunError> {
    let (end_watch, ended) = oneshot::channel();
    let mut watch = tokio::spawn(watch(engine.handle(), stats.clone(), ended));
    let (end_service, stopped) = oneshot::channel();
    let serving = serve(stopped);
    tokio::pin!(serving);
    let mut lost = false;
    let served = tokio::select! {
        served = &mut serving => served,
        () = stop.wait() => {
            drop(end_service);
            serving.await
        }
        _ = &mut watch => {
            lost = true;
            drop(end_service);
            serving.await
        }
    };
    if !lost {
        // The last periodic file must be complete before the final one replaces it.
        drop(end_watch);
        lost = watch.await.is_err();
    }
    let cores = engine.stop();
    let (Some(mut cores), false) = (cores, lost) else {
        return Err(RunError::DataplaneLost);
    };
    if let Some(path) = stats {
        // Before the sockets are closed, which takes a while with hundreds of them.
        Snapshot::sum(cores.iter_mut().map(Snapshot::take).collect())
            .write(&path)
            .map_err(|error| RunError::Stats { path, error })?;
    }
    close(cores);
    Ok(served?)
}

/// Closes the sockets of all forwarding threads. The kernel waits some milliseconds at each, so the threads do it at once.
fn close<F: Forwarder>(cores: Vec<Core<F>>) {
    thread::scope(|scope| {
        for core in cores {
            scope.spawn(move || drop(core));
        }
    });
}

/// The program of a file, and the file's bytes.
pub(crate) fn load(path: &Path) -> Result<(Program, Vec<u8>), RunError> {
    let json = std::fs::read(path).map_err(|error| RunError::Read {
        path: path.to_owned(),
        error,
    })?;
    let program = Program::from_json(&json).map_err(|error| RunError::Load {
        path: path.to_owned(),
        error,
    })?;
    Ok((program, json))
}

/// Watches the dataplane thread and writes the statistics periodically. Returns when the thread has exited, or between two
/// files when `ended` is signalled.
async fn watch<F: Forwarder>(
    engine: Handle<F>,
    path: Option<PathBuf>,
    mut ended: oneshot::Receiver<()>,
) {
    let mut ticks = tokio::time::interval(STATS_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut warned = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = &mut ended => return,
        }
        let Ok(each) = engine.call_each(Snapshot::take::<F>).await else {
            return;
        };
        let snapshot = Snapshot::sum(each);
        let Some(path) = path.clone() else { continue };
        let written = tokio::task::spawn_blocking(move || {
            snapshot.write(&path).map_err(|error| (path, error))
        })
        .await;
        match written {
            Ok(Err((path, error))) if !warned => {
                warned = true;
                warn!(
                    "--stats: cannot write {}: {error}; will retry",
                    path.display()
                );
            }
            Ok(Ok(())) => warned = false,
            _ => {}
        }
    }
}

/// SIGINT and SIGTERM.
pub(crate) struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
