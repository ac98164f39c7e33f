// SPDX-License-Identifier: Apache-2.0
//! One port: an interface that may disappear and return, with its counters.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::{info, warn};

use super::arrivals::Source;
use super::departures::DepartureSender;
use super::frame_ring::{FrameRing, RING_FRAMES, Taken};
use super::packet_ring::Receive;
use super::queueing::QueueingSender;
use super::recorder::Recorder;
use super::send_threads::{RemoteSender, SendThread, SendThreads, Way};
use super::sender::Sender;
use super::socket::interface_state;
use super::tally::Tally;

/// Ethernet header and two VLAN tags come on top of the MTU.
pub const LINK_HEADER_BYTES: usize = 14 + 2 * 4;

/// The counters of a port's interface. Each frame is in exactly one of the packet counts of its direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames given to the dataplane.
    pub rx_packets: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Frames that the kernel could not store because the switch did not keep up.
    pub rx_overruns: u64,
    /// Frames longer than the interface's MTU allows, which cannot be cut into segments; not forwarded.
    pub rx_oversize: u64,
    /// Frames that the interface accepted.
    pub tx_packets: u64,
    /// Their bytes, without FCS.
    pub tx_bytes: u64,
    /// Frames that the interface refused, or that were sent while it was down.
    pub tx_errors: u64,
    /// Frames not yet handed to the interface.
    pub tx_waiting: u64,
}

/// The reason why a port cannot be opened.
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
        /// How to fix it, or empty.
        hint: &'static str,
    },
}

/// A port of the switch.
pub struct Interface {
    number: u32,
    name: String,
    open: Option<Open>,
    /// Only those of reception are used.
    counters: Counters,
    oversize_reported: bool,
    /// Frames passed to [`Interface::send`].
    sends: u64,
    /// The results of sending them.
    sent: Arc<Tally>,
    /// The thread that sends them; None: the caller's.
    send_thread: Option<SendThread>,
    /// Capture files of the port, if they are written.
    recorder: Option<Box<Recorder>>,
    way: Way,
    held: bool,
}

struct Open {
    ring: FrameRing,
    sender: PortSender,
    max_frame_bytes: usize,
}

enum PortSender {
    /// Sends on the caller's thread.
    Local(Sender),
    /// Sends on another thread.
    Remote(RemoteSender),
}

impl Interface {
    /// Opens the interface as port `number`. One of `threads` sends its frames, if there are any; otherwise the caller of
    /// [`Interface::flush`] does. An interface that exists but is down opens when it comes up.
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
            recorder: None,
            way: threads.way().clone(),
            held: false,
        };
        if !port.try_open().map_err(|error| open_error(name, error))? {
            warn!("port {number}: interface {name} is down, waiting for it");
        }
        Ok(port)
    }

    /// Opens the sockets if the interface exists and is up; false when it is down.
    fn try_open(&mut self) -> io::Result<bool> {
        let state = interface_state(&self.name)?;
        if !state.up {
            return Ok(false);
        }
        let max_frame_bytes = state.mtu_bytes + LINK_HEADER_BYTES;
        let receive = match self.way {
            Way::Queueing => Receive::AllButOwn,
            Way::Fastest | Way::Departures(_) => Receive::Inbound,
        };
        let ring = FrameRing::open(state.index, max_frame_bytes, RING_FRAMES, receive)?;
        let sender = match &self.way {
            Way::Departures(all) => Sender::Departures(DepartureSender::open(all, state.index)?),
            Way::Queueing => Sender::Queueing(QueueingSender::new(ring.socket()?)),
            Way::Fastest => Sender::open(state.index, state.mtu_bytes)?,
        };
        let sender = match &self.send_thread {
            None => PortSender::Local(sender),
            Some(thread) => {
                let sent = Arc::clone(&self.sent);
                PortSender::Remote(RemoteSender::new(thread, sender, max_frame_bytes, sent)?)
            }
        };
        self.open = Some(Open {
            ring,
            sender,
            max_frame_bytes,
        });
        Ok(true)
    }

    /// Reopens an interface that disappeared and has returned; to be called periodically.
    pub fn reopen_if_back(&mut self) {
        // While a send thread still holds the old socket, AF_XDP is in use.
        // The thread drops its reference to `sent` together with that socket.
        let closed = Arc::strong_count(&self.sent) == 1;
        if self.open.is_none() && closed && matches!(self.try_open(), Ok(true)) {
            info!("port {}: interface {} is back", self.number, self.name);
        }
    }

    /// Handles the socket's pending error; to be called when `poll` reports one.
    pub fn check(&mut self) {
        let Some(open) = &self.open else { return };
        match open.ring.take_error() {
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

    /// Writes each frame that the port receives and sends to capture files from now on.
    pub fn record(&mut self, files: Recorder) {
        self.recorder = Some(Box::new(files));
    }

    /// Number of the port.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Name of its interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the interface is open.
    pub fn is_up(&self) -> bool {
        self.open.is_some()
    }

    /// The descriptor to poll for input; None while the interface is not open.
    pub fn poll_fd(&self) -> Option<RawFd> {
        self.open.as_ref().map(|open| open.ring.as_raw_fd())
    }

    /// The counters; overruns as of the last [`Interface::update_overruns`].
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

    /// Adds the frames that the kernel could not store since the last call.
    pub fn update_overruns(&mut self) {
        if let Some(open) = &self.open
            && let Ok(overruns) = open.ring.take_drops()
        {
            self.counters.rx_overruns += overruns;
        }
    }

    /// Calls `use_frame` with the oldest received frame, unless it is longer than the MTU allows, and removes it. A frame that a
    /// host left to its network card to cut is given in its segments.
    pub fn take(&mut self, mut use_frame: impl FnMut(&[u8])) {
        let Some(open) = &mut self.open else { return };
        let max_frame_bytes = open.max_frame_bytes;
        let mut oversize = false;
        let counters = &mut self.counters;
        let mut recorder = self.recorder.as_deref_mut();
        let stamp_ns = recorder.as_ref().and_then(|_| open.ring.oldest_ns());
        open.ring.take(|taken| match taken {
            Taken::Frame(bytes) if bytes.len() <= max_frame_bytes => {
                counters.rx_packets += 1;
                counters.rx_bytes += bytes.len() as u64;
                if let Some(files) = &mut recorder {
                    files.received.write(stamp_ns.unwrap_or_default(), bytes);
                }
                use_frame(bytes);
            }
            Taken::Frame(_) | Taken::TooLong => oversize = true,
            Taken::Lost(frames) => counters.rx_overruns += frames,
        });
        if oversize {
            self.counters.rx_oversize += 1;
            // Not for each of many.
            if self.counters.rx_oversize.is_power_of_two() && self.reopen_if_grown() {
                return;
            }
            if !self.oversize_reported {
                self.oversize_reported = true;
                warn!(
                    "port {}: a frame longer than {max_frame_bytes} bytes came from interface {} and was dropped; \
                     the sender's MTU is larger, or it has an offload that the switch does not know (ethtool -k)",
                    self.number, self.name
                );
            }
        }
    }

    /// Opens the interface anew if its MTU has grown since; true if it has. Frames in the ring are lost, and counted.
    #[cold]
    fn reopen_if_grown(&mut self) -> bool {
        let opened_bytes = self.open.as_ref().map(|open| open.max_frame_bytes);
        let mtu_bytes = interface_state(&self.name).map(|state| state.mtu_bytes);
        let (Some(opened_bytes), Ok(mtu_bytes)) = (opened_bytes, mtu_bytes) else {
            return false;
        };
        if mtu_bytes + LINK_HEADER_BYTES <= opened_bytes {
            return false;
        }
        self.flush();
        if let Some(open) = &mut self.open {
            while open.ring.oldest_ns().is_some() {
                open.ring.take(|_| {});
                self.counters.rx_overruns += 1;
            }
        }
        self.update_overruns();
        self.end();
        self.open = None;
        info!(
            "port {}: the MTU of interface {} is now {mtu_bytes} bytes",
            self.number, self.name
        );
        self.reopen_if_back();
        true
    }

    /// Queues a frame for the next [`Interface::flush`], or counts it as an error. `departure_ns` (`CLOCK_MONOTONIC`) is of
    /// no effect unless the kernel keeps departure times ([`SendThreads::with_departures`]).
    pub fn send(&mut self, frame: &[u8], departure_ns: u64) {
        self.sends += 1;
        if let Some(files) = &mut self.recorder {
            files.sent.write(realtime_ns(), frame);
        }
        match &mut self.open {
            // An empty frame cannot be sent, and would not count as one.
            Some(open) if !frame.is_empty() => match &mut open.sender {
                PortSender::Local(sender) => {
                    if sender.push(frame, departure_ns) {
                        self.flush();
                    }
                }
                PortSender::Remote(sender) => {
                    if !sender.push(frame) {
                        self.sent.add_errors(1);
                    }
                }
            },
            _ => self.sent.add_errors(1),
        }
    }

    /// Whether frames remain that [`Interface::flush`] could not hand over yet.
    pub fn is_sending(&self) -> bool {
        let sender = self.open.as_ref().map(|open| &open.sender);
        matches!(sender, Some(PortSender::Local(sender)) if sender.waiting() > 0)
    }

    /// The descriptor to poll for room, while the interface takes no more frames ([`SendThreads::with_queueing`]). Meanwhile the
    /// switch should keep its packets in the port's queues.
    pub fn full_fd(&self) -> Option<RawFd> {
        match &self.open.as_ref()?.sender {
            PortSender::Local(Sender::Queueing(sender)) => sender.full_fd(),
            _ => None,
        }
    }

    /// Whether the switch keeps its packets in the port's queues.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Records whether it does.
    pub fn set_held(&mut self, held: bool) {
        self.held = held;
    }

    /// Whether so many frames wait for the send thread that the switch should receive none from any port: their output
    /// might find the ring full.
    pub fn is_congested(&self) -> bool {
        let sender = self.open.as_ref().map(|open| &open.sender);
        matches!(sender, Some(PortSender::Remote(sender)) if sender.is_congested())
    }

    /// Sends what it can and counts the remaining frames as errors. The counts of a send thread are final when
    /// [`SendThreads::stop`] returns.
    pub fn end(&mut self) {
        let Some(open) = &mut self.open else { return };
        match &mut open.sender {
            PortSender::Local(sender) => {
                self.sent.add(&sender.flush());
                self.sent.add_errors(sender.waiting() as u64);
            }
            PortSender::Remote(sender) => sender.close(),
        }
    }

    /// Hands the queued frames to the interface, or wakes the thread that does.
    pub fn flush(&mut self) {
        let Some(open) = &mut self.open else { return };
        let error = match &mut open.sender {
            PortSender::Local(sender) if sender.waiting() == 0 => None,
            PortSender::Local(sender) => {
                let sent = sender.flush();
                self.sent.add(&sent);
                sent.interface_gone().map(io::Error::from_raw_os_error)
            }
            PortSender::Remote(sender) => sender.wake(),
        };
        if let Some(error) = error {
            self.lost(&error);
        }
    }
}

impl Source for Interface {
    fn oldest_ns(&self) -> Option<u64> {
        self.open.as_ref()?.ring.oldest_ns()
    }
}

fn realtime_ns() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let since_epoch = since_epoch.unwrap_or_default().as_nanos();
    u64::try_from(since_epoch).unwrap_or(u64::MAX)
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
