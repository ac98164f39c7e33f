// SPDX-License-Identifier: Apache-2.0
//! nanomsg's protocol, as far as sockets of kind PAIR and PUB need it: SP connections over Unix sockets and TCP.
//!
//! Each side first sends `0 'S' 'P' 0`, its protocol (16 bits, network order) and 16 zero bits. A message is its length in
//! 64 bits, network order, and its bytes; over Unix sockets the byte 1 comes before the length. (sp-tcp-mapping-01,
//! sp-ipc-mapping-01 and sp-protocol-ids-01 of the nanomsg project.)

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Kinds of sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Messages to and from one peer, of the same kind.
    Pair,
    /// Messages to peers of kind SUB, which choose what they show their programs.
    Pub,
}

impl Kind {
    /// The greetings of both sides, version 0.
    fn greetings(self) -> [[u8; 8]; 2] {
        let greeting = |protocol| [0, b'S', b'P', 0, 0, protocol, 0, 0];
        match self {
            Self::Pair => [greeting(16); 2],
            Self::Pub => [greeting(32), greeting(33)],
        }
    }
}

/// Time in which a peer must greet, and a subscriber take a message.
const GREETING_TIME: Duration = Duration::from_secs(2);
/// Longest message, as nanomsg's default.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// The only kind of message over a Unix socket.
const IPC_MESSAGE: u8 = 1;

/// An address that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Ipc(PathBuf),
    /// A TCP address with its port.
    Tcp(String),
}

impl Address {
    /// Reads `ipc://PATH` and `tcp://ADDRESS:PORT`; the address `*` is all of the machine's.
    ///
    /// # Errors
    /// What would be valid.
    pub fn parse(given: &str) -> Result<Self, String> {
        let valid = "valid are like ipc:///tmp/packets.ipc and tcp://127.0.0.1:10001";
        if let Some(path) = given.strip_prefix("ipc://").filter(|path| !path.is_empty()) {
            return Ok(Self::Ipc(PathBuf::from(path)));
        }
        if let Some(address) = given.strip_prefix("tcp://") {
            let port = address
                .rsplit_once(':')
                .and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_some() {
                let all = address
                    .strip_prefix('*')
                    .map(|port| format!("0.0.0.0{port}"));
                return Ok(Self::Tcp(all.unwrap_or_else(|| address.to_owned())));
            }
        }
        Err(format!(
            "`{given}` is not the address of a nanomsg socket; {valid}"
        ))
    }
}

/// A socket that waits for peers.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket.
    Ipc(UnixListener),
    /// TCP.
    Tcp(TcpListener),
}

impl Listener {
    /// Binds an address. The file of a Unix socket that nobody listens on is replaced.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Ipc(path) => {
                remove_stale(path)?;
                UnixListener::bind(path).map(Self::Ipc)
            }
            Address::Tcp(address) => TcpListener::bind(address.as_str()).map(Self::Tcp),
        }
    }

    /// Whether others on the network can connect.
    pub fn is_open(&self) -> bool {
        let Self::Tcp(listener) = self else {
            return false;
        };
        listener
            .local_addr()
            .is_ok_and(|address| !address.ip().is_loopback())
    }

    /// Waits for the next peer and greets it.
    ///
    /// # Errors
    /// When it speaks another protocol, or says nothing in time.
    pub fn accept(&self, kind: Kind) -> io::Result<Peer> {
        let stream = match self {
            Self::Ipc(listener) => Stream::Ipc(listener.accept()?.0),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
        };
        let sending = Arc::default();
        Peer { stream, sending }.greeted(kind)
    }
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        // The address is in use, which `bind` says, or there is no such file.
        _ => Ok(()),
    }
}

#[derive(Debug)]
enum Stream {
    Ipc(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn set_read_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Ipc(stream) => stream.set_read_timeout(time),
            Self::Tcp(stream) => stream.set_read_timeout(time),
        }
    }
}

impl Stream {
    fn set_write_timeout(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Ipc(stream) => stream.set_write_timeout(time),
            Self::Tcp(stream) => stream.set_write_timeout(time),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Ipc(stream) => stream.read(bytes),
            Self::Tcp(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Ipc(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection to the peer.
#[derive(Debug)]
pub struct Peer {
    stream: Stream,
    /// Held while a message is sent: a write may stop in the middle of it, and another handle's must not begin there.
    sending: Arc<Mutex<()>>,
}

impl Peer {
    fn greeted(mut self, kind: Kind) -> io::Result<Self> {
        let [own, peers] = kind.greetings();
        self.stream.set_read_timeout(Some(GREETING_TIME))?;
        self.stream.write_all(&own)?;
        let mut greeting = [0; 8];
        self.stream.read_exact(&mut greeting)?;
        if greeting != peers {
            let reason = format!(
                "the peer greets with {greeting:02x?}; the peer of a {kind:?} socket of nanomsg does with {peers:02x?}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        self.stream.set_read_timeout(None)?;
        if kind == Kind::Pub {
            self.stream.set_write_timeout(Some(GREETING_TIME))?;
        }
        Ok(self)
    }

    /// Another handle of the same connection, so that one thread sends while another receives.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Self> {
        let stream = match &self.stream {
            Stream::Ipc(stream) => Stream::Ipc(stream.try_clone()?),
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
        };
        let sending = Arc::clone(&self.sending);
        Ok(Self { stream, sending })
    }

    /// Ends the connection for all its handles.
    pub fn close(&self) {
        // An error means that it has ended already.
        let _ = match &self.stream {
            Stream::Ipc(stream) => stream.shutdown(Shutdown::Both),
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// When the connection ends, or the peer breaks the protocol.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        let unix = matches!(self.stream, Stream::Ipc(_));
        receive(&mut self.stream, unix)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the connection ends.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(9 + message.len());
        if matches!(self.stream, Stream::Ipc(_)) {
            bytes.push(IPC_MESSAGE);
        }
        bytes.extend((message.len() as u64).to_be_bytes());
        bytes.extend_from_slice(message);
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        self.stream.write_all(&bytes)
    }
}

/// Reads a message from a Unix socket or from TCP.
///
/// # Errors
/// When the stream ends, or the peer breaks the protocol.
pub fn receive(stream: &mut impl Read, unix: bool) -> io::Result<Vec<u8>> {
    let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    if unix {
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        if kind != [IPC_MESSAGE] {
            return Err(invalid(format!(
                "a message of kind {}; {IPC_MESSAGE} is valid",
                kind[0]
            )));
        }
    }
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_be_bytes(length);
    let fits = usize::try_from(length)
        .ok()
        .filter(|bytes| *bytes <= MAX_MESSAGE_BYTES);
    let length = fits.ok_or_else(|| {
        invalid(format!(
            "a message of {length} bytes; at most {MAX_MESSAGE_BYTES} are valid"
        ))
    })?;
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// A peer and its end of the connection, both greeted.
#[cfg(test)]
pub fn connected(kind: Kind) -> (Peer, TcpStream) {
    let listener = Listener::bind(&Address::Tcp("127.0.0.1:0".to_owned())).unwrap();
    let Listener::Tcp(tcp) = &listener else {
        unreachable!()
    };
    let mut other = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
    let (own, peers) = match kind {
        Kind::Pair => (b"\0SP\0\0\x10\0\0", b"\0SP\0\0\x10\0\0"),
        Kind::Pub => (b"\0SP\0\0\x20\0\0", b"\0SP\0\0\x21\0\0"),
    };
    other.write_all(peers).unwrap();
    let peer = listener.accept(kind).unwrap();
    let mut greeting = [0; 8];
    other.read_exact(&mut greeting).unwrap();
    assert_eq!(greeting, *own);
    (peer, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_nanomsg() {
        assert_eq!(
            Address::parse("ipc:///tmp/x.ipc"),
            Ok(Address::Ipc("/tmp/x.ipc".into()))
        );
        assert_eq!(
            Address::parse("tcp://*:100"),
            Ok(Address::Tcp("0.0.0.0:100".to_owned()))
        );
        assert_eq!(
            Address::parse("tcp://[::1]:1"),
            Ok(Address::Tcp("[::1]:1".to_owned()))
        );
        for wrong in [
            "",
            "ipc://",
            "tcp://host",
            "tcp://host:x",
            "inproc://a",
            "/tmp/x",
        ] {
            let reason = Address::parse(wrong).unwrap_err();
            assert!(reason.contains("valid are like"), "{reason}");
        }
    }

    #[test]
    fn messages_have_their_length_before_them() {
        let (mut peer, mut other) = connected(Kind::Pair);
        other
            .write_all(b"\0\0\0\0\0\0\0\x03abc\0\0\0\0\0\0\0\0")
            .unwrap();
        assert_eq!(peer.receive().unwrap(), b"abc");
        assert_eq!(peer.receive().unwrap(), b"");
        peer.send(b"de").unwrap();
        let mut sent = [0; 10];
        other.read_exact(&mut sent).unwrap();
        assert_eq!(sent, *b"\0\0\0\0\0\0\0\x02de");
    }

    #[test]
    fn messages_of_two_threads_do_not_mix() {
        // More than the kernel keeps for a connection, so that writes stop half-way.
        const MESSAGES: usize = 20;
        let (peer, mut other) = connected(Kind::Pair);
        let threads = [1, 2].map(|byte| {
            let mut peer = peer.try_clone().unwrap();
            std::thread::spawn(move || {
                let message = vec![byte; MAX_MESSAGE_BYTES];
                (0..MESSAGES).try_for_each(|_| peer.send(&message))
            })
        });
        for _ in 0..2 * MESSAGES {
            let message = receive(&mut other, false).unwrap();
            assert!(message.iter().all(|byte| *byte == message[0]));
        }
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_before_memory_is_taken() {
        let (mut peer, mut other) = connected(Kind::Pair);
        other.write_all(&u64::MAX.to_be_bytes()).unwrap();
        let error = peer.receive().unwrap_err();
        assert!(
            error.to_string().contains("at most 1048576 are valid"),
            "{error}"
        );
    }

    #[test]
    fn another_protocol_is_refused() {
        let listener = Listener::bind(&Address::Tcp("127.0.0.1:0".to_owned())).unwrap();
        let Listener::Tcp(tcp) = &listener else {
            unreachable!()
        };
        let mut other = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let error = listener.accept(Kind::Pair).unwrap_err();
        assert!(
            error.to_string().contains("the peer greets with"),
            "{error}"
        );
    }

    #[test]
    fn the_file_of_a_socket_that_nobody_listens_on_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("packets.ipc");
        drop(UnixListener::bind(&path).unwrap());
        let address = Address::Ipc(path);
        let first = Listener::bind(&address).unwrap();
        let error = Listener::bind(&address).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(first);
    }
}
