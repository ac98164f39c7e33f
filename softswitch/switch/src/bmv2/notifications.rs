// SPDX-License-Identifier: Apache-2.0
//! bmv2's notifications of digests on a nanomsg socket of kind PUB (`--notifications-addr`).
//!
//! A message is a header of 32 bytes in the machine's byte order (`LEA|`, device, context, list, buffer, number of samples,
//! padding) and the samples.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::{debug, warn};
use weir_engine::node::digest::learn::{Publish, Samples};

use super::sp::{Address, Kind, Listener, Peer};

const HEADER_BYTES: usize = 32;
/// Lists that wait to be sent; further ones are dropped, because forwarding does not wait for subscribers.
const WAITING_LISTS: usize = 1_024;
/// Subscribers at a time.
const MAX_SUBSCRIBERS: usize = 64;

type Subscribers = Arc<Mutex<Vec<Peer>>>;

/// The address that bmv2 uses if none is given.
pub(super) fn default_address(device_id: u64) -> String {
    format!("ipc:///tmp/bmv2-{device_id}-notifications.ipc")
}

/// Listens on an address; lists of samples go to all its subscribers.
///
/// # Errors
/// A line that says what is wrong.
pub(super) fn open(given: &str, device_id: u64) -> Result<Publish, String> {
    let address =
        Address::parse(given).map_err(|reason| format!("--notifications-addr: {reason}"))?;
    let failed = |error| format!("--notifications-addr: cannot listen on {given}: {error}");
    let listener = Listener::bind(&address).map_err(failed)?;
    if listener.is_open() {
        warn!(target: "weir", "--notifications-addr {given} is open to the network: anyone who reaches it reads digests");
    }
    let (send, waiting) = sync_channel(WAITING_LISTS);
    let subscribers = Subscribers::default();
    let delivering = Arc::clone(&subscribers);
    let thread = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(work).map(drop)
    };
    let out = move || deliver(&waiting, &delivering, device_id);
    let serve = move || accept(&listener, &subscribers);
    thread("learning-out", Box::new(out)).map_err(failed)?;
    thread("learning-in", Box::new(serve)).map_err(failed)?;
    let mut full = false;
    Ok(Box::new(move |list| {
        if send.try_send(list).is_err() && !std::mem::replace(&mut full, true) {
            warn!(target: "weir", "--notifications-addr: subscribers do not take digests as fast as they come; some are dropped");
        }
    }))
}

fn accept(listener: &Listener, subscribers: &Subscribers) {
    loop {
        match listener.accept(Kind::Pub) {
            Ok(peer) => {
                let mut all = subscribers.lock().unwrap_or_else(PoisonError::into_inner);
                if all.len() < MAX_SUBSCRIBERS {
                    all.push(peer);
                } else {
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

/// Sends lists until the switch has ended. One that does not take a list in time is no longer a subscriber.
fn deliver(waiting: &Receiver<Samples>, subscribers: &Subscribers, device_id: u64) {
    while let Ok(list) = waiting.recv() {
        let message = message(&list, device_id);
        // Not under the lock: a subscriber that does not read would keep others from being accepted.
        let mut all = std::mem::take(&mut *lock(subscribers));
        all.retain_mut(|peer| match peer.send(&message) {
            Ok(()) => true,
            Err(error) => {
                debug!(target: "weir", "--notifications-addr: a subscriber has gone: {error}");
                peer.close();
                false
            }
        });
        lock(subscribers).append(&mut all);
    }
}

fn lock(subscribers: &Subscribers) -> std::sync::MutexGuard<'_, Vec<Peer>> {
    subscribers.lock().unwrap_or_else(PoisonError::into_inner)
}

fn message(list: &Samples, device_id: u64) -> Vec<u8> {
    let mut bytes =
        Vec::with_capacity(HEADER_BYTES + list.samples.iter().map(Vec::len).sum::<usize>());
    let count = u32::try_from(list.samples.len()).unwrap_or(u32::MAX);
    bytes.extend(b"LEA|");
    bytes.extend(device_id.to_ne_bytes());
    bytes.extend(0_i32.to_ne_bytes());
    bytes.extend(list.list.to_ne_bytes());
    bytes.extend(list.buffer.to_ne_bytes());
    bytes.extend(count.to_ne_bytes());
    list.samples.iter().for_each(|sample| bytes.extend(sample));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_header_of_32_bytes_and_the_samples() {
        let list = Samples {
            list: 2,
            buffer: 5,
            samples: vec![vec![1, 2], vec![3, 4]],
        };
        let bytes = message(&list, 9);
        let (header, samples) = bytes.split_at(HEADER_BYTES);
        assert_eq!(samples, [1, 2, 3, 4]);
        assert_eq!(&header[..4], b"LEA|");
        assert_eq!(header[4..12], 9_u64.to_ne_bytes());
        assert_eq!(header[16..20], 2_i32.to_ne_bytes());
        assert_eq!(header[20..28], 5_u64.to_ne_bytes());
        assert_eq!(header[28..], 2_u32.to_ne_bytes());
    }

    #[test]
    fn each_device_has_a_default_address() {
        assert_eq!(default_address(3), "ipc:///tmp/bmv2-3-notifications.ipc");
    }
}
