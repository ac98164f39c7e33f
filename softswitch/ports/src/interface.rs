// SPDX-License-Identifier: Apache-2.0
//! One port: an interface that may disappear and return, and what was counted on it.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use tracing::{info, warn};

use super::arrivals::Source;
use super::send_threads::{RemoteSender, SendThread, SendThreads};
use super::sender::Sender;
use super::socket::{Receiver, RingFrame, interface_state};
use super::tally::Tally;

/// Ethernet header and two VLAN tags come on top of the MTU.
const LINK_HEADER_BYTES: usize = 14 + 2 * 4;

/// What was counted on a port's interface. A frame is in exactly one of the counts of packets of its direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames given to the dataplane.
    pub rx_packets: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Frames that the kernel could not store because the switch did not keep up.
    pub rx_overruns: u64,
    /// Frames longer than the interface's MTU allows (an offload of the sender is on); not forwarded.
    pub rx_oversize: u64,
    /// Frames that the interface took.
    pub tx_packets: u64,
    /// Their bytes, without FCS.
    pub tx_bytes: u64,
    /// Frames that the interface refused, or that found it down.
    pub tx_errors: u64,
    /// Frames on their way to the interface.
    pub tx_waiting: u64,
}

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No interface has this name.
    #[error(
        "interface `{interface}` does not exist in this network namespace; `ip link` lists those that do"
    )]
    Missing {
        /// Its name.
        interface: String,
    },
    /// The kernel refused.
    #[error("cannot open interface `{interface}`: {error}{hint}")]
    Refused {
        /// Its name.
        interface: String,
        /// The kernel's reason.
        error: io::Error,
        /// What to do about it, or empty.
        hint: &'static str,
    },
}

/// A port of the switch.
pub struct Interface {
    number: u32,
    name: String,
    open: Option<Open>,
    /// Of reception.
    counters: Counters,
    oversize_reported: bool,
    /// Frames that were to be sent.
    sends: u64,
    /// What became of them.
    sent: Arc<Tally>,
    /// Sends them, if it is not the caller.
    send_thread: Option<SendThread>,
}

struct Open {
    receiver: Receiver,
    way_out: WayOut,
    max_frame_bytes: usize,
}

enum WayOut {
    /// On the caller's thread.
    Here(Sender),
    /// On another.
    Remote(RemoteSender),
}

impl Interface {
    /// Opens the interface as port `number`, for frames that one of `threads` sends if there are any. One that exists
    /// but is down opens as soon as it comes up.
    ///
    /// # Errors
    /// [`OpenError`] when it does not exist or cannot be opened.
    pub fn open(number: u32, name: &str, threads: &SendThreads) -> Result<Self, OpenError> {
        let mut port = Self {
            number,
            name: name.to_owned(),
            open: None,
            counters: Counters::default(),
            oversize_reported: false,
            sends: 0,
            sent: Arc::default(),
            send_thread: threads.next_thread().cloned(),
        };
        if !port.try_open().map_err(|error| open_error(name, error))? {
            warn!("port {number}: interface {name} is down, waiting for it");
        }
        Ok(port)
    }

    /// Opens the sockets if the interface is there and up; false when it is down.
    fn try_open(&mut self) -> io::Result<bool> {
        let state = interface_state(&self.name)?;
        if !state.up {
            return Ok(false);
        }
        let max_frame_bytes = state.mtu_bytes + LINK_HEADER_BYTES;
        let receiver = Receiver::open(state.index, max_frame_bytes)?;
        let sender = Sender::open(state.index, state.mtu_bytes)?;
        let way_out = match &self.send_thread {
            None => WayOut::Here(sender),
            Some(thread) => {
                let sent = Arc::clone(&self.sent);
                WayOut::Remote(RemoteSender::new(thread, sender, max_frame_bytes, sent)?)
            }
        };
        self.open = Some(Open {
            receiver,
            way_out,
            max_frame_bytes,
        });
        Ok(true)
    }

    /// Opens again an interface that had disappeared and is back. To be called now and then.
    pub fn reopen_if_back(&mut self) {
        // Until another thread has closed what it sent through, AF_XDP would be in use.
        let closed = Arc::strong_count(&self.sent) == 1;
        if self.open.is_none() && closed && matches!(self.try_open(), Ok(true)) {
            info!("port {}: interface {} is back", self.number, self.name);
        }
    }

    /// Looks at the socket's pending error; to be called when `poll` reports one.
    pub fn check(&mut self) {
        let Some(open) = &self.open else { return };
        match open.receiver.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => self.lost(&error),
        }
    }

    fn lost(&mut self, error: &io::Error) {
        self.update_overruns();
        self.end();
        if self.open.take().is_some() {
            warn!(
                "port {}: interface {} is gone ({error}); frames to it are counted as tx_errors until it is back",
                self.number, self.name
            );
        }
    }

    /// Number of the port.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Name of its interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface is open.
    pub fn is_up(&self) -> bool {
        self.open.is_some()
    }

    /// What to poll for input, when the interface is open.
    pub fn poll_fd(&self) -> Option<RawFd> {
        self.open.as_ref().map(|open| open.receiver.as_raw_fd())
    }

    /// What was counted; overruns as of the last [`Interface::update_overruns`].
    pub fn counters(&self) -> Counters {
        let (tx_packets, tx_errors) = (self.sent.packets(), self.sent.errors());
        Counters {
            tx_packets,
            tx_bytes: self.sent.bytes(),
            tx_errors,
            tx_waiting: self.sends - tx_packets - tx_errors,
            ..self.counters
        }
    }

    /// Asks the kernel for the frames that it could not store.
    pub fn update_overruns(&mut self) {
        if let Some(open) = &self.open
            && let Ok(overruns) = open.receiver.take_overruns()
        {
            self.counters.rx_overruns += overruns;
        }
    }

    /// Gives the oldest received frame to `use_frame`, unless it is longer than a wire would carry.
    pub fn take(&mut self, use_frame: impl FnOnce(&[u8])) {
        let Some(open) = &mut self.open else { return };
        let max_frame_bytes = open.max_frame_bytes;
        let mut oversize = false;
        let counters = &mut self.counters;
        open.receiver.take(|RingFrame { bytes, truncated }| {
            oversize = truncated || bytes.len() > max_frame_bytes;
            if !oversize {
                counters.rx_packets += 1;
                counters.rx_bytes += bytes.len() as u64;
                use_frame(bytes);
            }
        });
        if oversize {
            self.counters.rx_oversize += 1;
            if !self.oversize_reported {
                self.oversize_reported = true;
                warn!(
                    "port {}: a frame longer than {max_frame_bytes} bytes came from interface {} and was dropped; \
                     switch the sender's offloads off (ethtool -K … tso off gso off)",
                    self.number, self.name
                );
            }
        }
    }

    /// Takes a frame to send with the next [`Interface::flush`], or counts why not.
    pub fn send(&mut self, frame: &[u8]) {
        self.sends += 1;
        match &mut self.open {
            // An empty frame cannot be sent, and would not count as one.
            Some(open) if !frame.is_empty() => match &mut open.way_out {
                WayOut::Here(sender) => {
                    if sender.push(frame) {
                        self.flush();
                    }
                }
                WayOut::Remote(sender) => {
                    if !sender.push(frame) {
                        self.sent.add_errors(1);
                    }
                }
            },
            _ => self.sent.add_errors(1),
        }
    }

    /// Frames are left that [`Interface::flush`] could not hand over yet.
    pub fn is_sending(&self) -> bool {
        let way_out = self.open.as_ref().map(|open| &open.way_out);
        matches!(way_out, Some(WayOut::Here(sender)) if sender.waiting() > 0)
    }

    /// So many frames wait for the thread that sends them that no more should be taken in anywhere: what that causes
    /// might find no room.
    pub fn is_congested(&self) -> bool {
        let way_out = self.open.as_ref().map(|open| &open.way_out);
        matches!(way_out, Some(WayOut::Remote(sender)) if sender.is_congested())
    }

    /// Hands over what it still can, and counts the rest: nobody will send it. What another thread sends is counted
    /// when [`SendThreads::stop`] returns.
    pub fn end(&mut self) {
        let Some(open) = &mut self.open else { return };
        match &mut open.way_out {
            WayOut::Here(sender) => {
                self.sent.add(&sender.flush());
                self.sent.add_errors(sender.waiting() as u64);
            }
            WayOut::Remote(sender) => sender.close(),
        }
    }

    /// Hands what waits to the interface.
    pub fn flush(&mut self) {
        let Some(open) = &mut self.open else { return };
        let error = match &mut open.way_out {
            WayOut::Here(sender) if sender.waiting() == 0 => None,
            WayOut::Here(sender) => {
                let sent = sender.flush();
                self.sent.add(&sent);
                sent.interface_gone().map(io::Error::from_raw_os_error)
            }
            WayOut::Remote(sender) => sender.tell(),
        };
        if let Some(error) = error {
            self.lost(&error);
        }
    }
}

impl Source for Interface {
    fn oldest_ns(&self) -> Option<u64> {
        self.open.as_ref()?.receiver.oldest_ns()
    }
}

fn open_error(interface: &str, error: io::Error) -> OpenError {
    let interface = interface.to_owned();
    match error.raw_os_error() {
        Some(libc::ENODEV) => OpenError::Missing { interface },
        Some(libc::EPERM | libc::EACCES) => OpenError::Refused {
            interface,
            error,
            hint: "; packet sockets need CAP_NET_RAW: run as root or in a user and network namespace \
                   (`unshare --user --map-root-user --net`)",
        },
        _ => OpenError::Refused {
            interface,
            error,
            hint: "",
        },
    }
}
