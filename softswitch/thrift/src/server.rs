// SPDX-License-Identifier: Apache-2.0
//! The services on a TCP port: a thread for each connection, as bmv2 has.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime;
use tracing::{debug, warn};
use weir_dataplane::{EntryHandle, Switch, TableId};
use weir_engine::engine::{Core, Handle, Stopped};
use weir_ports::{Interface, OpenError};

use crate::dispatch::{Backend, Identity, answer};
use crate::state::State;
use crate::wire::{self, Limits};

/// Connections at a time; further ones are closed at once.
const MAX_CONNECTIONS: usize = 64;
/// How long a call may take to arrive after its first byte. Between calls a peer may be silent, as bmv2's command line is.
const CALL_TIME: Duration = Duration::from_secs(60);
/// How long the peer may keep an answer from being sent.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Wait after a failure to accept, which is for want of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The engine, from the thread of a connection.
struct Remote {
    engine: Handle,
    runtime: runtime::Handle,
    /// Locked on the dataplane thread only.
    state: Arc<Mutex<State>>,
}

impl Backend for Remote {
    fn run<R: Send + 'static>(
        &mut self,
        operation: impl FnOnce(&mut State, &mut Core) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let state = Arc::clone(&self.state);
        let run = move |core: &mut Core| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            operation(&mut state, core)
        };
        self.runtime.block_on(self.engine.call(run))
    }

    fn open(&mut self, number: u32, interface: &str) -> Result<Interface, OpenError> {
        self.engine.open(number, interface)
    }
}

/// The services, listening but not yet serving.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    notifications: Arc<str>,
    numbers: EntryNumbers,
}

/// The numbers that the services give to entries.
#[derive(Debug, Clone, Default)]
pub struct EntryNumbers(Arc<Mutex<State>>);

impl EntryNumbers {
    /// The handle of an entry of a table, in the program of that number. To be called on the dataplane thread only, and not
    /// within a call of the services, which holds the lock.
    pub fn handle(&self, program: u64, switch: &Switch, table: TableId, entry: EntryHandle) -> i32 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.begin(program);
        let handles = state.tables.entry(table).or_default();
        handles.handle(switch, table, entry)
    }
}

impl Server {
    /// Listens at an address (port 0: any free one).
    ///
    /// # Errors
    /// The system's reason.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            notifications: Arc::default(),
            numbers: EntryNumbers::default(),
        })
    }

    /// Names the nanomsg socket that publishes notifications.
    #[must_use]
    pub fn with_notifications(self, address: &str) -> Self {
        let notifications = address.into();
        Self {
            notifications,
            ..self
        }
    }

    /// Shares the numbers of entries.
    #[must_use]
    pub fn with_entry_numbers(self, numbers: EntryNumbers) -> Self {
        Self { numbers, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves on threads of its own until the process ends. Call it within a Tokio runtime. After the engine has stopped
    /// all calls are refused.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub fn serve(self, engine: Handle, device_id: u64) -> io::Result<()> {
        if !self.address.ip().is_loopback() {
            warn!(
                "Thrift on {} is not encrypted and asks for no password: whoever reaches it controls the switch",
                self.address
            );
        }
        let identity = Identity {
            device_id,
            thrift_port: self.address.port(),
            notifications: self.notifications,
        };
        let runtime = runtime::Handle::current();
        let (listener, state) = (self.listener, self.numbers.0);
        let open = Arc::new(AtomicUsize::new(0));
        let accept = move || loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    debug!("Thrift: cannot accept: {error}");
                    std::thread::sleep(ACCEPT_RETRY);
                    continue;
                }
            };
            if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                open.fetch_sub(1, Ordering::Relaxed);
                warn!("Thrift: refused a connection beyond {MAX_CONNECTIONS}");
                continue;
            }
            let remote = Remote {
                engine: engine.clone(),
                runtime: runtime.clone(),
                state: Arc::clone(&state),
            };
            let counted = Counted(Arc::clone(&open));
            let identity = identity.clone();
            let serve = move || {
                let _counted = counted;
                serve_connection(stream, &identity, remote);
            };
            let thread = std::thread::Builder::new().name("thrift".to_owned());
            if let Err(error) = thread.spawn(serve) {
                warn!("Thrift: cannot serve a connection: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("thrift-accept".to_owned());
        thread.spawn(accept).map(drop)
    }
}

/// One of the open connections.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve_connection(stream: TcpStream, identity: &Identity, mut backend: Remote) {
    let served = serve_calls(&stream, identity, &mut backend, CALL_TIME);
    if let Err(error) = served {
        debug!("Thrift: connection closed: {error}");
    }
}

fn serve_calls(
    mut stream: &TcpStream,
    identity: &Identity,
    backend: &mut impl Backend,
    call_time: Duration,
) -> Result<(), wire::WireError> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut calls = BufReader::new(Until { stream, end: None });
    loop {
        calls.get_mut().end = None;
        calls.fill_buf()?;
        calls.get_mut().end = Some(Instant::now() + call_time);
        let Some(call) = wire::read(&mut calls, Limits::default())? else {
            return Ok(());
        };
        if let Some(reply) = answer(call, identity, backend) {
            stream.write_all(&wire::write(&reply))?;
        }
    }
}

/// A connection from which reading ends at a deadline, if there is one. A peer whose host loses power in the middle of a call
/// closes nothing, and would keep its connection for ever.
struct Until<'a> {
    stream: &'a TcpStream,
    end: Option<Instant>,
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.end.map(|end| end.duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)?;
        self.stream.read(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Kind, Message, Struct};

    const CALL_TIME: Duration = Duration::from_millis(200);

    /// For calls that do not reach the switch.
    struct Nowhere;

    impl Backend for Nowhere {
        fn run<R: Send + 'static>(
            &mut self,
            _: impl FnOnce(&mut State, &mut Core) -> R + Send + 'static,
        ) -> Result<R, Stopped> {
            Err(Stopped)
        }

        fn open(&mut self, _: u32, _: &str) -> Result<Interface, OpenError> {
            unreachable!("no call of these tests opens an interface")
        }
    }

    /// A peer's end of a connection and the thread that serves the other.
    fn served() -> (
        TcpStream,
        std::thread::JoinHandle<Result<(), wire::WireError>>,
    ) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let identity = Identity {
            device_id: 0,
            thrift_port: 0,
            notifications: Arc::default(),
        };
        let serve = move || serve_calls(&stream, &identity, &mut Nowhere, CALL_TIME);
        (peer, std::thread::spawn(serve))
    }

    fn call() -> Vec<u8> {
        wire::write(&Message {
            kind: Kind::Call,
            name: "standard:fly".to_owned(),
            sequence: 1,
            body: Struct::default(),
        })
    }

    #[test]
    fn a_call_that_does_not_arrive_whole_ends_the_connection() {
        let (mut peer, thread) = served();
        let call = call();
        peer.write_all(&call[..call.len() - 1]).unwrap();
        // Not the end of the stream, and no byte: the peer is silent.
        let ended = thread.join().unwrap();
        assert!(
            matches!(ended, Err(wire::WireError::Io { .. })),
            "{ended:?}"
        );
    }

    #[test]
    fn a_call_of_which_a_byte_comes_now_and_then_ends_the_connection() {
        let (mut peer, thread) = served();
        for byte in call() {
            // An error means that the switch has ended the connection.
            if peer.write_all(&[byte]).is_err() {
                break;
            }
            std::thread::sleep(CALL_TIME / 8);
        }
        assert!(thread.join().unwrap().is_err());
    }

    #[test]
    fn a_peer_may_be_silent_between_calls() {
        let (mut peer, thread) = served();
        for _ in 0..2 {
            std::thread::sleep(2 * CALL_TIME);
            peer.write_all(&call()).unwrap();
            let reply = wire::read(&mut peer, Limits::default()).unwrap().unwrap();
            assert_eq!(reply.kind, Kind::Exception);
        }
        drop(peer);
        assert!(thread.join().unwrap().is_ok());
    }
}
