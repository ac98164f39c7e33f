// SPDX-License-Identifier: Apache-2.0
//! bmv2's notifications on a nanomsg socket of kind PUB (`--notifications-addr`): digests, changes of ports, idle entries.
//!
//! A message is a header of 32 bytes in the machine's byte order and what is told:
//!
//! - `LEA|`, device, context, list, buffer, number of samples: the samples;
//! - `PRT|`, device, number of ports: each port and whether it is up, in 32 bits each;
//! - `AGE|`, device, context, buffer, table, number of entries: their handles, in 32 bits each.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::{debug, warn};
use weir_engine::node::digest::learn::Samples;
use weir_engine::node::publish::{Event, Idle, Publish};
use weir_thrift::EntryNumbers;

use super::sp::{Address, Kind, Listener, Peer};

const HEADER_BYTES: usize = 32;
/// Messages that wait to be sent; further ones are dropped, because forwarding does not wait for subscribers.
const WAITING_MESSAGES: usize = 1_024;
/// Subscribers at a time.
const MAX_SUBSCRIBERS: usize = 64;

/// The subscribers, shared by the thread that accepts them and the one that sends.
#[derive(Clone, Default)]
struct Subscribers(Arc<Mutex<Listed>>);

#[derive(Default)]
struct Listed {
    peers: Vec<Peer>,
    /// Those that a message is being sent to.
    taken: usize,
}

impl Subscribers {
    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a peer, or gives it back when there are as many as may be.
    fn add(&self, peer: Peer) -> Result<(), Peer> {
        let mut listed = self.lock();
        if listed.peers.len() + listed.taken >= MAX_SUBSCRIBERS {
            return Err(peer);
        }
        listed.peers.push(peer);
        Ok(())
    }

    /// Takes the peers to send to, not under the lock: one that does not read would keep others from being accepted.
    fn take(&self) -> Vec<Peer> {
        let mut listed = self.lock();
        let peers = std::mem::take(&mut listed.peers);
        listed.taken = peers.len();
        peers
    }

    /// Puts those back that are left.
    fn put_back(&self, mut peers: Vec<Peer>) {
        let mut listed = self.lock();
        listed.taken = 0;
        listed.peers.append(&mut peers);
    }
}

/// The address that bmv2 uses if none is given.
pub(super) fn default_address(device_id: u64) -> String {
    format!("ipc:///tmp/bmv2-{device_id}-notifications.ipc")
}

/// Listens on an address; events go to all its subscribers, with the entries' `numbers`.
///
/// # Errors
/// A line that says what is wrong.
pub(super) fn open(given: &str, device_id: u64, numbers: EntryNumbers) -> Result<Publish, String> {
    let address =
        Address::parse(given).map_err(|reason| format!("--notifications-addr: {reason}"))?;
    let failed = |error| format!("--notifications-addr: cannot listen on {given}: {error}");
    let listener = Listener::bind(&address).map_err(failed)?;
    if listener.is_open() {
        warn!(target: "weir", "--notifications-addr {given} is open to the network: anyone who reaches it reads them");
    }
    let (send, waiting) = sync_channel(WAITING_MESSAGES);
    let subscribers = Subscribers::default();
    let delivering = subscribers.clone();
    let thread = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(work).map(drop)
    };
    let out = move || deliver(&waiting, &delivering);
    let serve = move || accept(&listener, &subscribers);
    thread("notices-out", Box::new(out)).map_err(failed)?;
    thread("notices-in", Box::new(serve)).map_err(failed)?;
    let mut full = false;
    let mut idle_buffers = 0;
    Ok(Box::new(move |event| {
        let message = match event {
            Event::Learned(list) => learned(&list, device_id),
            Event::Port { port, up } => port_state(port, up, device_id),
            Event::Idle(entries) => {
                idle_buffers += 1;
                idle(&entries, &numbers, (device_id, idle_buffers - 1))
            }
        };
        if send.try_send(message).is_err() && !std::mem::replace(&mut full, true) {
            warn!(target: "weir", "--notifications-addr: subscribers do not take messages as fast as they come; some are dropped");
        }
    }))
}

fn accept(listener: &Listener, subscribers: &Subscribers) {
    loop {
        match listener.accept(Kind::Pub) {
            Ok(peer) => {
                if let Err(peer) = subscribers.add(peer) {
                    warn!(target: "weir", "--notifications-addr: refused a subscriber beyond {MAX_SUBSCRIBERS}");
                    peer.close();
                }
            }
            Err(error) => {
                debug!(target: "weir", "--notifications-addr: {error}");
                // Out of descriptors, for example; a loop without a pause would use a whole processor.
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
    }
}

/// Sends messages until the switch has ended. One that does not take a message in time is no longer a subscriber.
fn deliver(waiting: &Receiver<Vec<u8>>, subscribers: &Subscribers) {
    while let Ok(message) = waiting.recv() {
        let mut all = subscribers.take();
        all.retain_mut(|peer| match peer.send(&message) {
            Ok(()) => true,
            Err(error) => {
                debug!(target: "weir", "--notifications-addr: a subscriber has gone: {error}");
                peer.close();
                false
            }
        });
        subscribers.put_back(all);
    }
}

/// The first part of a header.
fn begin(topic: &[u8; 4], device_id: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * HEADER_BYTES);
    bytes.extend(topic);
    bytes.extend(device_id.to_ne_bytes());
    bytes
}

fn count<T>(items: &[T]) -> [u8; 4] {
    u32::try_from(items.len()).unwrap_or(u32::MAX).to_ne_bytes()
}

fn port_state(port: u32, up: bool, device_id: u64) -> Vec<u8> {
    let mut bytes = begin(b"PRT|", device_id);
    bytes.extend(1_u32.to_ne_bytes());
    bytes.resize(HEADER_BYTES, 0);
    bytes.extend(port.to_ne_bytes());
    bytes.extend(i32::from(up).to_ne_bytes());
    bytes
}

fn idle(idle: &Idle<'_>, numbers: &EntryNumbers, (device_id, buffer): (u64, u64)) -> Vec<u8> {
    let table = idle.switch.info().tables.get(idle.table.index());
    let mut bytes = begin(b"AGE|", device_id);
    bytes.extend(0_i32.to_ne_bytes());
    bytes.extend(buffer.to_ne_bytes());
    bytes.extend(table.map_or(0, |table| table.json_id).to_ne_bytes());
    bytes.extend(count(idle.entries));
    for entry in idle.entries {
        let handle = numbers.handle(idle.program, idle.switch, idle.table, *entry);
        bytes.extend(handle.to_ne_bytes());
    }
    bytes
}

fn learned(list: &Samples, device_id: u64) -> Vec<u8> {
    let mut bytes = begin(b"LEA|", device_id);
    bytes.extend(0_i32.to_ne_bytes());
    bytes.extend(list.list.to_ne_bytes());
    bytes.extend(list.buffer.to_ne_bytes());
    bytes.extend(count(&list.samples));
    list.samples.iter().for_each(|sample| bytes.extend(sample));
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::sp::connected;
    use super::*;

    #[test]
    fn a_message_is_a_header_of_32_bytes_and_the_samples() {
        let list = Samples {
            list: 2,
            buffer: 5,
            samples: vec![vec![1, 2], vec![3, 4]],
        };
        let bytes = learned(&list, 9);
        let (header, samples) = bytes.split_at(HEADER_BYTES);
        assert_eq!(samples, [1, 2, 3, 4]);
        assert_eq!(&header[..4], b"LEA|");
        assert_eq!(header[4..12], 9_u64.to_ne_bytes());
        assert_eq!(header[16..20], 2_i32.to_ne_bytes());
        assert_eq!(header[20..28], 5_u64.to_ne_bytes());
        assert_eq!(header[28..], 2_u32.to_ne_bytes());
    }

    #[test]
    fn subscribers_that_a_message_is_sent_to_count_among_the_most() {
        let (peer, _other) = connected(Kind::Pub);
        let subscribers = Subscribers::default();
        let add = || subscribers.add(peer.try_clone().unwrap()).is_ok();
        assert!((0..MAX_SUBSCRIBERS).all(|_| add()));
        assert!(!add());
        let mut sent_to = subscribers.take();
        assert!(!add());
        sent_to.pop();
        subscribers.put_back(sent_to);
        assert!(add());
        assert!(!add());
    }

    #[test]
    fn a_ports_state_is_its_number_and_one_or_zero() {
        let bytes = port_state(7, true, 9);
        let (header, state) = bytes.split_at(HEADER_BYTES);
        assert_eq!(&header[..4], b"PRT|");
        assert_eq!(header[4..12], 9_u64.to_ne_bytes());
        assert_eq!(header[12..16], 1_u32.to_ne_bytes());
        assert_eq!(state, [7_u32.to_ne_bytes(), 1_u32.to_ne_bytes()].concat());
    }

    #[test]
    fn each_device_has_a_default_address() {
        assert_eq!(default_address(3), "ipc:///tmp/bmv2-3-notifications.ipc");
    }
}
