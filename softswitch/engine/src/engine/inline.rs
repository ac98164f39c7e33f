// SPDX-License-Identifier: Apache-2.0
//! A dataplane without a thread, in virtual time: only its owner advances time and runs the commands.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use weir_dataplane::Port;
use weir_p4runtime::p4::v1::stream_message_request::Update;
use weir_p4runtime::p4::v1::{StreamMessageRequest, StreamMessageResponse};
use weir_ports::SendThreads;

use super::handle::{Access, Command, Core, Handle};
use super::wait::Waker;
use crate::node::failure::Failure;
use crate::node::{Node, Notification, Output};

/// An output of the switch.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A frame left through a port.
    Frame {
        /// Time, ns.
        time_ns: u64,
        /// The port.
        port: Port,
        /// Ethernet frame without FCS.
        frame: Vec<u8>,
    },
    /// A packet-in, a digest list or another message for the controller.
    Message {
        /// Time, ns.
        time_ns: u64,
        /// The message in the form of the stream channel.
        message: StreamMessageResponse,
    },
}

/// A time before the switch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "time {asked_ns} ns is before the switch's time {now_ns} ns; times must not go back (sort the packets by time)"
)]
pub struct PastError {
    /// The requested time.
    pub asked_ns: u64,
    /// The switch's time.
    pub now_ns: u64,
}

/// The state of a dataplane, its pending commands and its output.
// A packet takes no path outside this crate, because the callers are compiled without optimisation.
pub struct Inline {
    /// The switch and its time, which only the owner advances.
    pub core: Core,
    commands: mpsc::Receiver<Command>,
    handle: Handle,
    events: Vec<Event>,
}

impl Inline {
    /// A dataplane without interfaces at time 0.
    ///
    /// # Errors
    /// When the system cannot create an event descriptor.
    pub fn new(node: Node) -> io::Result<Self> {
        let (sender, commands) = mpsc::channel();
        let notifications_lost = Arc::new(AtomicU64::new(0));
        Ok(Self {
            core: Core {
                node,
                interfaces: Vec::new(),
                trunk: None,
                now_ns: 0,
                notifications_lost: Arc::clone(&notifications_lost),
            },
            commands,
            handle: Handle {
                threads: Arc::new([Access {
                    commands: sender,
                    waker: Arc::new(Waker::new()?),
                }]),
                for_each: Arc::default(),
                notifications_lost,
                send_threads: Arc::new(SendThreads::default()),
            },
            events: Vec::new(),
        })
    }

    /// A handle; its calls wait until [`Inline::run`] is polled.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs commands for as long as it is polled.
    pub async fn run(&mut self) -> Infallible {
        loop {
            while let Ok(command) = self.commands.try_recv() {
                command(&mut self.core);
            }
            tokio::task::yield_now().await;
        }
    }

    /// The switch's time, ns.
    pub fn now_ns(&self) -> u64 {
        self.core.now_ns
    }

    /// Time of the next event without further input, ns.
    pub fn next_event_ns(&self) -> Option<u64> {
        let next_ns = self.core.node.next_event_ns();
        next_ns.map(|at_ns| at_ns.max(self.core.now_ns))
    }

    /// The output since the last call, in order of time.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Receives a frame, after everything due until `time_ns`; its immediate output becomes events.
    ///
    /// # Errors
    /// [`PastError`].
    pub fn receive(&mut self, port: Port, frame: &[u8], time_ns: u64) -> Result<(), PastError> {
        self.run_until(time_ns)?;
        self.core.node.receive(port, frame, time_ns);
        self.step(time_ns);
        Ok(())
    }

    /// Advances time to `time_ns`. Every event happens at its own time, so the size of the steps makes no difference.
    ///
    /// # Errors
    /// [`PastError`].
    pub fn run_until(&mut self, time_ns: u64) -> Result<(), PastError> {
        let now_ns = self.now_ns();
        if time_ns < now_ns {
            return Err(PastError {
                asked_ns: time_ns,
                now_ns,
            });
        }
        let mut last_ns = None;
        while let Some(at_ns) = self.next_event_ns().filter(|at_ns| *at_ns <= time_ns)
            // An event still due after an advance to its time would not go away with another.
            && last_ns != Some(at_ns)
        {
            self.step(at_ns);
            last_ns = Some(at_ns);
        }
        self.step(time_ns);
        Ok(())
    }

    /// A message on the stream channel: a packet-out or a digest acknowledgement, at the switch's time.
    ///
    /// # Errors
    /// The failure that a stream error would report. `INVALID_ARGUMENT` also for an arbitration: there is one controller.
    pub fn send(&mut self, message: &StreamMessageRequest) -> Result<(), Failure> {
        let now_ns = self.now_ns();
        let node = &mut self.core.node;
        match &message.update {
            Some(Update::Packet(packet)) => node.packet_out(packet, now_ns)?,
            Some(Update::DigestAck(ack)) => node.digest_ack(ack)?,
            Some(Update::Arbitration(_)) => {
                return Err(Failure::invalid(
                    "there is nothing to arbitrate: the only controller of a switch in virtual time is the primary; valid are packet and digest_ack",
                ));
            }
            Some(Update::Other(other)) => {
                let message = format!("stream message {}", other.type_url);
                return Err(Failure::unimplemented(message));
            }
            None => return Err(Failure::invalid("the stream message has no update")),
        }
        self.step(now_ns);
        Ok(())
    }

    fn step(&mut self, time_ns: u64) {
        self.core.now_ns = time_ns;
        let mut events = Events(&mut self.events);
        self.core.node.advance(time_ns, &mut events);
    }
}

struct Events<'a>(&'a mut Vec<Event>);

impl Output for Events<'_> {
    fn transmit(&mut self, port: Port, frame: &[u8], time_ns: u64) {
        self.0.push(Event::Frame {
            time_ns,
            port,
            frame: frame.to_vec(),
        });
    }

    fn notify(&mut self, notification: Notification, time_ns: u64) {
        self.0.push(Event::Message {
            time_ns,
            message: notification.into(),
        });
    }
}
