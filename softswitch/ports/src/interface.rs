// SPDX-License-Identifier: Apache-2.0
//! One port: an interface that may disappear and return, with its counters.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tracing::{debug, info, warn};

use super::arrivals::Source;
use super::clocks::realtime_ns;
use super::frame_ring::Taken;
use super::open_error::OpenError;
use super::receiver::{Receiver, Reception};
use super::recorder::Recorder;
use super::send_threads::{RemoteSender, SendThread, SendThreads, Way};
use super::sender::Sender;
use super::socket::interface_state;
use super::tally::Tally;
use super::whole::{LEAD_BYTES, Size, frames_of};
use super::xdp::{MAX_QUEUES, Program, QUEUE_PATIENCE};

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

impl Counters {
    /// Counts what was received; the bytes to forward, unless it is longer than the MTU allows or lost.
    fn receive<'a>(&mut self, taken: Taken<'a>, max_frame_bytes: usize) -> Option<&'a [u8]> {
        let frames = taken.frames();
        let (bytes, size) = match taken {
            Taken::Lost(_) => {
                self.rx_overruns += frames;
                return None;
            }
            Taken::TooLong => (&[][..], None),
            Taken::Frame(bytes) => {
                let bytes_of_one = bytes.len() as u64;
                (
                    bytes,
                    Some(Size {
                        frames,
                        bytes: bytes_of_one,
                    }),
                )
            }
            Taken::Whole(with_lead) => (with_lead, Size::of(with_lead)),
        };
        // The segments of a frame that stays whole are checked where it is sent.
        match size.filter(|size| size.frames > 1 || size.bytes <= max_frame_bytes as u64) {
            Some(size) => {
                self.rx_packets += size.frames;
                self.rx_bytes += size.bytes;
                Some(bytes)
            }
            None => {
                self.rx_oversize += frames;
                None
            }
        }
    }
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
    reception: Reception,
    /// The XDP program of a port that receives through AF_XDP; the interface may come back when the process may load none.
    program: Option<Program>,
    /// Difference of the two clocks in which receivers stamp frames, ns.
    realtime_minus_monotonic_ns: i128,
    /// Why the interface could not be opened again, as told last.
    reopening_failed: String,
    /// `tx_errors` when they were looked at last.
    errors_seen: u64,
    held: bool,
    /// How often the port lost its interface; of one that only sends, how often the one that receives did.
    losses: Arc<AtomicU64>,
    /// Those of them after which this one's socket was opened.
    losses_seen: u64,
}

struct Open {
    receiver: Receiver,
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
    pub fn open(
        number: u32,
        name: &str,
        reception: Reception,
        threads: &SendThreads,
    ) -> Result<Self, OpenError> {
        let program = match reception {
            Reception::Ring
            | Reception::RingBesideSender
            | Reception::Whole
            | Reception::Off { .. } => None,
            Reception::Xdp => {
                let loaded = Program::load(MAX_QUEUES);
                Some(loaded.map_err(|error| OpenError::of_xdp(name, error))?)
            }
        };
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
            reception,
            program,
            realtime_minus_monotonic_ns: 0,
            reopening_failed: String::new(),
            errors_seen: 0,
            held: false,
            losses: Arc::default(),
            losses_seen: 0,
        };
        if !port.try_open()? && !port.only_sends() {
            warn!("port {number}: interface {name} is down, waiting for it");
        }
        Ok(port)
    }

    /// Opens the sockets if the interface exists and is up; false when it is down.
    fn try_open(&mut self) -> Result<bool, OpenError> {
        let refused = |error| OpenError::new(&self.name, error);
        let state = interface_state(&self.name).map_err(refused)?;
        if !state.up {
            return Ok(false);
        }
        let max_frame_bytes = state.mtu_bytes + LINK_HEADER_BYTES;
        let (receiver, sender) = match &self.program {
            None => match self.reception {
                Reception::Off { queue_taken } => Receiver::open_off(&state, queue_taken),
                Reception::Whole => Receiver::open_whole(&state),
                Reception::RingBesideSender => Receiver::open_ring(&state, &self.way, true),
                Reception::Ring | Reception::Xdp => Receiver::open_ring(&state, &self.way, false),
            }
            .map_err(refused)?,
            Some(program) => Receiver::open_xdp(&self.name, &state, program, self.queue_patience())
                .map_err(|error| OpenError::of_xdp(&self.name, error))?,
        };
        let sender = match &self.send_thread {
            None => PortSender::Local(sender),
            Some(thread) => {
                let sent = Arc::clone(&self.sent);
                let moved = RemoteSender::new(thread, sender, max_frame_bytes, sent);
                PortSender::Remote(moved.map_err(refused)?)
            }
        };
        self.open = Some(Open {
            receiver,
            sender,
            max_frame_bytes,
        });
        Ok(true)
    }

    /// Time to wait for a receive queue in use: it may be this port's own, which the kernel has not freed yet. One that was in
    /// use before is another program's, and to wait for it at each attempt would stop all ports for a quarter of the time.
    pub(crate) fn queue_patience(&self) -> Duration {
        if self.reopening_failed.is_empty() {
            QUEUE_PATIENCE
        } else {
            Duration::ZERO
        }
    }

    /// Reopens an interface that disappeared and has returned; to be called periodically.
    pub fn reopen_if_back(&mut self) {
        self.close_if_lost();
        // While a send thread still holds the old socket, AF_XDP is in use.
        // The thread drops its reference to `sent` together with that socket.
        let closed = Arc::strong_count(&self.sent) == 1;
        if self.open.is_some() || !closed {
            return;
        }
        match self.try_open() {
            Ok(true) => {
                if !self.only_sends() {
                    info!("port {}: interface {} is back", self.number, self.name);
                }
                self.reopening_failed.clear();
            }
            Ok(false) | Err(OpenError::Missing { .. }) => {}
            Err(error) => {
                let reason = error.to_string();
                if reason != self.reopening_failed {
                    warn!("port {}: {reason}; will retry", self.number);
                    self.reopening_failed = reason;
                }
            }
        }
    }

    /// Handles the socket's pending error; to be called when `poll` reports one.
    pub fn check(&mut self) {
        let Some(open) = &self.open else { return };
        match open.receiver.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => self.lost(&error),
        }
    }

    fn lost(&mut self, error: &io::Error) {
        self.give_up_waiting();
        self.end();
        if self.open.take().is_none() {
            return;
        }
        if self.only_sends() {
            debug!("port {}: closed for sending ({error})", self.number);
        } else {
            self.losses.fetch_add(1, Ordering::Release);
            warn!(
                "port {}: interface {} is gone ({error}); frames to it are counted as tx_errors until it is back",
                self.number, self.name
            );
        }
    }

    /// From now on this port, which only sends, loses its interface when `receiving`, which is another thread's, does: before it
    /// sends, nothing tells it, and by then the interface may have returned as another one.
    pub fn follow(&mut self, receiving: &Self) {
        self.losses = Arc::clone(&receiving.losses);
        self.losses_seen = self.losses.load(Ordering::Acquire);
    }

    /// Whether another thread receives, and [`Interface::reopen_if_back`] is to be called although the interface is open.
    pub fn only_sends(&self) -> bool {
        matches!(self.reception, Reception::Off { .. })
    }

    /// Closes the socket that was opened before the receiving port lost the interface.
    fn close_if_lost(&mut self) {
        if self.only_sends() {
            let losses = self.losses.load(Ordering::Acquire);
            if std::mem::replace(&mut self.losses_seen, losses) != losses {
                self.lost(&io::Error::from_raw_os_error(libc::ENETDOWN));
            }
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

    /// The descriptors to poll for input; none while the interface is not open.
    pub fn poll_fds(&self) -> impl Iterator<Item = RawFd> + '_ {
        let receiver = self.open.as_ref().map(|open| &open.receiver);
        receiver.into_iter().flat_map(Receiver::poll_fds)
    }

    /// Tells the difference of the clocks with which arrivals are converted, so that no step of the wall clock comes between
    /// the two conversions of a batch.
    pub fn set_clocks(&mut self, realtime_minus_monotonic_ns: i128) {
        self.realtime_minus_monotonic_ns = realtime_minus_monotonic_ns;
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

    /// Adds the frames that the kernel could not store since the last call, and opens an interface whose MTU has grown anew.
    pub fn update_overruns(&mut self) {
        // The frame buffers of AF_XDP are as long as the MTU was when the interface was opened. After the MTU has grown, longer
        // frames received are overruns, and longer frames to be sent are refused.
        let overruns = self.add_overruns() > 0 && self.program.is_some();
        let errors = self.sent.errors();
        let refused = errors > std::mem::replace(&mut self.errors_seen, errors);
        if overruns || refused {
            self.reopen_if_grown();
        }
    }

    fn add_overruns(&mut self) -> u64 {
        let Some(open) = &mut self.open else { return 0 };
        let drops = match (&mut open.receiver, &self.program) {
            (Receiver::Ring(ring), _) => ring.take_drops(),
            (Receiver::Xdp(receiver), Some(program)) => receiver.take_drops(program),
            (Receiver::Xdp(_), None) | (Receiver::Off, _) => Ok(0),
        };
        let drops = drops.unwrap_or_default();
        self.counters.rx_overruns += drops;
        drops
    }

    /// Removes the frames that wait, and counts them as lost, before the receiver is closed.
    fn give_up_waiting(&mut self) {
        if let Some(open) = &mut self.open {
            while open.receiver.oldest_ns(0).is_some() {
                let overruns = &mut self.counters.rx_overruns;
                open.receiver.take(|taken| *overruns += taken.frames());
            }
        }
        self.add_overruns();
    }

    /// Calls `use_frame` with the oldest received frame, unless it is longer than the MTU allows, and removes it. A frame that a
    /// host left to its network card to cut is given in its segments, or with its lead if frames stay whole.
    pub fn take(&mut self, mut use_frame: impl FnMut(&[u8])) {
        let Some(open) = &mut self.open else { return };
        let max_frame_bytes = open.max_frame_bytes;
        let whole = self.reception == Reception::Whole;
        let lead_bytes = if whole { LEAD_BYTES } else { 0 };
        let counters = &mut self.counters;
        let oversize_before = counters.rx_oversize;
        let mut recorder = self.recorder.as_deref_mut();
        let clocks_ns = self.realtime_minus_monotonic_ns;
        let stamp_ns = recorder
            .as_ref()
            .and_then(|_| open.receiver.oldest_ns(clocks_ns));
        open.receiver.take(|taken| {
            let Some(bytes) = counters.receive(taken, max_frame_bytes) else {
                return;
            };
            if let Some(files) = &mut recorder {
                let frame = bytes.get(lead_bytes..).unwrap_or_default();
                files.received.write(stamp_ns.unwrap_or_default(), frame);
            }
            use_frame(bytes);
        });
        let oversize = counters.rx_oversize;
        if oversize > oversize_before {
            // Not for each of many: when the count has passed a power of two.
            let passed = oversize.checked_ilog2() > oversize_before.checked_ilog2();
            if passed && self.reopen_if_grown() {
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
        self.give_up_waiting();
        self.end();
        self.open = None;
        info!(
            "port {}: the MTU of interface {} is now {mtu_bytes} bytes",
            self.number, self.name
        );
        self.reopen_if_back();
        true
    }

    /// Queues a frame, with its lead if frames stay whole, for the next [`Interface::flush`], or counts it as an error.
    /// `departure_ns` (`CLOCK_MONOTONIC`) is of no effect unless the kernel keeps departure times
    /// ([`SendThreads::with_departures`]).
    pub fn send(&mut self, frame: &[u8], departure_ns: u64) {
        let (frames, lead_bytes) = if self.reception == Reception::Whole {
            (frames_of(frame), LEAD_BYTES)
        } else {
            (1, 0)
        };
        self.sends += frames;
        if let Some(files) = &mut self.recorder {
            let frame = frame.get(lead_bytes..).unwrap_or_default();
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
                        self.sent.add_errors(frames);
                    }
                }
            },
            _ => self.sent.add_errors(frames),
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
        let open = self.open.as_ref()?;
        open.receiver.oldest_ns(self.realtime_minus_monotonic_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_segment_that_is_longer_than_the_mtu_allows_is_counted() {
        let mut counters = Counters::default();
        let (longest, too_long) = ([0; 100], [0; 101]);
        let forwarded: Vec<_> = [&longest[..], &too_long, &too_long]
            .into_iter()
            .map(|segment| counters.receive(Taken::Frame(segment), 100))
            .collect();
        assert_eq!(forwarded, [Some(&longest[..]), None, None]);
        assert_eq!(counters.receive(Taken::TooLong, 100), None);
        assert_eq!(counters.receive(Taken::Lost(7), 100), None);
        let expected = Counters {
            rx_packets: 1,
            rx_bytes: 100,
            rx_oversize: 3,
            rx_overruns: 7,
            ..Counters::default()
        };
        assert_eq!(counters, expected);
    }
}
