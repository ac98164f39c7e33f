// SPDX-License-Identifier: Apache-2.0
//! Ports whose frames are messages on one nanomsg socket, as bmv2's `--packet-in` and PTF's `ptf_nn` have them.
//!
//! A message is three 32-bit numbers in the machine's byte order (its kind, a port, a number that depends on the kind) and
//! what belongs to it: the frame, with the number as its length.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::{debug, warn};
use weir_engine::node::MAX_PORT;
use weir_ports::trunk::{Inlet, SendFrame, Trunk};

use super::sp::{Address, Kind, Listener, Peer};

/// Kinds of messages.
mod kind {
    pub const PORT_ADD: i32 = 0;
    pub const PORT_REMOVE: i32 = 1;
    pub const PORT_SET_STATUS: i32 = 2;
    /// A frame for the switch.
    pub const PACKET_IN: i32 = 3;
    /// A frame from the switch.
    pub const PACKET_OUT: i32 = 4;
    pub const INFO_REQUEST: i32 = 5;
    pub const INFO_REPLY: i32 = 6;
}

/// Answer to a request for counters: there are none here, as in bmv2.
const INFO_NOT_SUPPORTED: i32 = 1;
const HEADER_BYTES: usize = 12;
/// Frames that wait for the peer; further ones are dropped, because forwarding does not wait for it.
const WAITING_FRAMES: usize = 4_096;

/// The peer, while there is one.
type Current = Arc<Mutex<Option<Peer>>>;

fn lock(current: &Current) -> MutexGuard<'_, Option<Peer>> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens on an address and carries the frames of all ports.
///
/// # Errors
/// A line that says what is wrong.
pub(super) fn open(given: &str) -> Result<Trunk, String> {
    let address = Address::parse(given).map_err(|reason| format!("--packet-in: {reason}"))?;
    let listener = Listener::bind(&address)
        .map_err(|error| format!("--packet-in: cannot listen on {given}: {error}"))?;
    if listener.is_open() {
        warn!(target: "weir", "--packet-in {given} is open to the network: anyone who reaches it can send frames");
    }
    let (send, waiting) = sync_channel(WAITING_FRAMES);
    let transmit = frame_sender(send);
    let system = |error| format!("--packet-in: {error}");
    let (trunk, inlet) = Trunk::new(transmit).map_err(system)?;
    let current = Current::default();
    let sending = Arc::clone(&current);
    let threads = [
        thread("packets-out", move || deliver(&waiting, &sending)),
        thread("packets-in", move || serve(&listener, &current, &inlet)),
    ];
    threads
        .into_iter()
        .collect::<Result<(), _>>()
        .map_err(system)?;
    Ok(trunk)
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
}

/// Queues frames for the thread that sends them.
fn frame_sender(send: SyncSender<Vec<u8>>) -> SendFrame {
    let mut full = false;
    Box::new(move |port, frame| {
        let length = i32::try_from(frame.len()).unwrap_or(i32::MAX);
        let port = i32::try_from(port).unwrap_or(i32::MAX);
        let queued = send.try_send(message(kind::PACKET_OUT, port, length, frame));
        if queued.is_err() && !std::mem::replace(&mut full, true) {
            warn!(target: "weir", "--packet-in: the peer does not take frames as fast as they leave; frames are dropped");
        }
    })
}

fn message(kind: i32, port: i32, number: i32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + rest.len());
    for word in [kind, port, number] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend_from_slice(rest);
    bytes
}

/// Sends frames until the switch has ended; those without a peer are dropped.
fn deliver(waiting: &Receiver<Vec<u8>>, current: &Current) {
    while let Ok(message) = waiting.recv() {
        // Not under the lock: a peer that does not read would keep another from being accepted.
        let peer = lock(current).as_ref().map(Peer::try_clone);
        if let Some(Ok(mut peer)) = peer
            && let Err(error) = peer.send(&message)
        {
            debug!(target: "weir", "--packet-in: {error}");
        }
    }
}

/// Accepts peers; one has the socket until its connection ends.
fn serve(listener: &Listener, current: &Current, inlet: &Inlet) {
    loop {
        let peer = match listener.accept(Kind::Pair) {
            Ok(peer) => peer,
            Err(error) => {
                warn!(target: "weir", "--packet-in: {error}");
                // Out of descriptors, for example; a loop without a pause would use a whole processor.
                std::thread::sleep(std::time::Duration::from_millis(100));
                continue;
            }
        };
        if lock(current).is_some() {
            debug!(target: "weir", "--packet-in: a second peer was refused");
            peer.close();
            continue;
        }
        let Ok(reading) = peer.try_clone() else {
            continue;
        };
        *lock(current) = Some(peer);
        let (current, inlet) = (Arc::clone(current), inlet.clone());
        let started = thread("packets", move || {
            receive(reading, &inlet);
            *lock(&current) = None;
        });
        if let Err(error) = started {
            warn!(target: "weir", "--packet-in: {error}");
        }
    }
}

/// Takes messages until the connection ends.
fn receive(mut peer: Peer, inlet: &Inlet) {
    loop {
        let message = match peer.receive() {
            Ok(message) => message,
            Err(error) => {
                if error.kind() == std::io::ErrorKind::InvalidData {
                    warn!(target: "weir", "--packet-in: {error}");
                }
                break;
            }
        };
        match read(&message) {
            Ok(Request::Frame { port, frame }) => {
                if !inlet.push(port, frame.to_vec()) {
                    break;
                }
            }
            Ok(Request::Info { port, number }) => {
                let status = INFO_NOT_SUPPORTED.to_ne_bytes();
                let reply = self::message(kind::INFO_REPLY, port, number, &status);
                if peer.send(&reply).is_err() {
                    break;
                }
            }
            Ok(Request::None) => {}
            Err(reason) => warn!(target: "weir", "--packet-in: {reason}"),
        }
    }
    peer.close();
}

/// What a message asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// A frame arrived at a port.
    Frame {
        /// The port.
        port: u32,
        /// Its bytes.
        frame: &'a [u8],
    },
    /// Information about a port.
    Info {
        /// The port.
        port: i32,
        /// Its kind.
        number: i32,
    },
    /// Ports are not added or removed: each number is a port, which is up.
    None,
}

/// Reads a message.
///
/// # Errors
/// What is wrong and what would be valid.
pub fn read(message: &[u8]) -> Result<Request<'_>, String> {
    let Some((header, rest)) = message.split_at_checked(HEADER_BYTES) else {
        return Err(format!(
            "a message of {} bytes; its header alone has {HEADER_BYTES}",
            message.len()
        ));
    };
    let word = |at: usize| {
        let bytes = header
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, i32::from_ne_bytes)
    };
    let (kind, port, number) = (word(0), word(4), word(8));
    match kind {
        kind::PACKET_IN => {
            let known = u32::try_from(port).ok().filter(|port| *port <= MAX_PORT);
            let port = known
                .ok_or_else(|| format!("a frame for port {port}; 0 to {MAX_PORT} are valid"))?;
            let frame = usize::try_from(number)
                .ok()
                .and_then(|length| rest.get(..length));
            let frame = frame.ok_or_else(|| {
                format!(
                    "a frame of {number} bytes in a message that has {} after its header",
                    rest.len()
                )
            })?;
            Ok(Request::Frame { port, frame })
        }
        kind::INFO_REQUEST => Ok(Request::Info { port, number }),
        kind::PORT_ADD | kind::PORT_REMOVE | kind::PORT_SET_STATUS => Ok(Request::None),
        _ => Err(format!("a message of kind {kind}; 0 to 3 and 5 are valid")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_requests_are_read() {
        let bytes = message(kind::PACKET_IN, 511, 3, b"abcd");
        assert_eq!(
            read(&bytes),
            Ok(Request::Frame {
                port: 511,
                frame: b"abc"
            })
        );
        let bytes = message(kind::INFO_REQUEST, 1, 2, &[]);
        assert_eq!(read(&bytes), Ok(Request::Info { port: 1, number: 2 }));
        assert_eq!(read(&message(kind::PORT_ADD, 1, 0, &[])), Ok(Request::None));
    }

    #[test]
    fn what_is_not_whole_is_refused_with_a_reason() {
        for (bytes, expected) in [
            (vec![0; 11], "its header alone has 12"),
            (
                message(kind::PACKET_IN, 1, 5, b"abcd"),
                "that has 4 after its header",
            ),
            (
                message(kind::PACKET_IN, 1, -1, b"abcd"),
                "a frame of -1 bytes",
            ),
            (message(kind::PACKET_IN, 512, 1, b"a"), "0 to 511 are valid"),
            (message(kind::PACKET_IN, -1, 1, b"a"), "0 to 511 are valid"),
            (message(kind::PACKET_OUT, 1, 1, b"a"), "a message of kind 4"),
        ] {
            let reason = read(&bytes).unwrap_err();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
