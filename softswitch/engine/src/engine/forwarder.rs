// SPDX-License-Identifier: Apache-2.0
//! The interface of what the dataplane thread runs: a switch, or plain wires.

use weir_dataplane::{
    Carried, LinkStats, Port, PortConfig, PortStats, QUEUES, QueueStats, Sink, Stats, Wire,
};

use weir_ports::whole::Size;

use crate::node::failure::Failure;
use crate::node::{Node, NodeStats, Output};

/// Receives a frame: port, bytes without FCS, time of arrival in ns.
pub type Receive<'a> = dyn FnMut(Port, &[u8], u64) + 'a;

/// Frames and times in, frames and times out, with a link at each port.
pub trait Forwarder: Send + 'static {
    /// Receives the frames that `frames` passes on, as one batch; returns the result of `frames`.
    fn receive_batch<T>(&mut self, frames: impl FnOnce(&mut Receive<'_>) -> T) -> T;
    /// Time of the next event without further input.
    fn next_event_ns(&self) -> Option<u64>;
    /// Advances time to `now_ns`; everything due until then is output.
    fn advance(&mut self, now_ns: u64, output: &mut impl Output);
    /// Outputs what reaches the ends of the links by `until_ns`, without advancing time.
    fn release(&mut self, until_ns: u64, output: &mut impl Output);
    /// A port's link; None for a port that does not exist.
    fn link(&self, port: Port) -> Option<PortConfig>;
    /// Creates a port or changes its link.
    ///
    /// # Errors
    /// When the configuration or the number is not valid.
    fn set_link(&mut self, port: Port, config: PortConfig, now_ns: u64) -> Result<(), Failure>;
    /// Records whether a port's interface exists and is up.
    ///
    /// # Errors
    /// When the dataplane does not know the port.
    fn set_port_up(&mut self, port: Port, up: bool) -> Result<(), Failure>;
    /// Holds the frames for a port in its queues, or lets them leave again.
    fn hold_port(&mut self, port: Port, held: bool, now_ns: u64);
    /// Lets one frame of a held port leave; false if none may.
    fn release_held(&mut self, port: Port) -> bool;
    /// Removes a port with the frames queued there.
    fn remove_port(&mut self, port: Port);
    /// The reason why a port with this number cannot be added; None when it can.
    fn refuses_port(&self, port: Port) -> Option<String>;
    /// Totals of one port.
    fn port_stats(&self, port: Port) -> PortStats;
    /// Totals of a port's queues, by priority.
    fn queue_stats(&self, port: Port) -> [QueueStats; QUEUES];
    /// Totals of a port's link.
    fn link_stats(&self, port: Port) -> LinkStats;
    /// Totals of everything.
    fn totals(&self) -> (Stats, NodeStats);
}

impl Forwarder for Node {
    fn receive_batch<T>(&mut self, frames: impl FnOnce(&mut Receive<'_>) -> T) -> T {
        self.receive_batch(frames)
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.next_event_ns()
    }

    fn advance(&mut self, now_ns: u64, output: &mut impl Output) {
        self.advance(now_ns, output);
    }

    fn release(&mut self, until_ns: u64, output: &mut impl Output) {
        self.release(until_ns, output);
    }

    fn link(&self, port: Port) -> Option<PortConfig> {
        self.link(port)
    }

    fn set_link(&mut self, port: Port, config: PortConfig, now_ns: u64) -> Result<(), Failure> {
        self.set_link(port, config, now_ns)
    }

    fn set_port_up(&mut self, port: Port, up: bool) -> Result<(), Failure> {
        self.set_port_up(port, up)
    }

    fn hold_port(&mut self, port: Port, held: bool, now_ns: u64) {
        self.hold_port(port, held, now_ns);
    }

    fn release_held(&mut self, port: Port) -> bool {
        self.release_held(port)
    }

    fn remove_port(&mut self, port: Port) {
        self.remove_port(port);
    }

    fn refuses_port(&self, port: Port) -> Option<String> {
        self.refuses_port(port)
    }

    fn port_stats(&self, port: Port) -> PortStats {
        self.port_stats(port)
    }

    fn queue_stats(&self, port: Port) -> [QueueStats; QUEUES] {
        self.queue_stats(port)
    }

    fn link_stats(&self, port: Port) -> LinkStats {
        self.link_stats(port)
    }

    fn totals(&self) -> (Stats, NodeStats) {
        (self.switch_stats(), self.stats())
    }
}

impl Forwarder for Wire {
    fn receive_batch<T>(&mut self, frames: impl FnOnce(&mut Receive<'_>) -> T) -> T {
        frames(&mut |port, frame, now_ns| {
            if !self.keeps_whole(port) {
                self.receive(port, frame, now_ns);
            } else if let Some(Size { frames, bytes }) = Size::of(frame) {
                self.receive_whole(port, frame, Carried { frames, bytes }, now_ns);
            }
        })
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.next_event_ns()
    }

    fn advance(&mut self, now_ns: u64, output: &mut impl Output) {
        struct ToOutput<'a, O>(&'a mut O);
        impl<O: Output> Sink for ToOutput<'_, O> {
            fn transmit(&mut self, port: Port, frame: &[u8], time_ns: u64) {
                self.0.transmit(port, frame, time_ns);
            }
        }
        self.advance(now_ns, &mut ToOutput(output));
    }

    /// No effect: wires run in real time.
    fn release(&mut self, _: u64, _: &mut impl Output) {}

    fn link(&self, port: Port) -> Option<PortConfig> {
        let mut ports = self.ports();
        ports.find(|(number, _)| *number == port).map(|(_, c)| c)
    }

    fn set_link(&mut self, port: Port, config: PortConfig, now_ns: u64) -> Result<(), Failure> {
        if let Some(problem) = self.problem(port, &config) {
            return Err(Failure::invalid(format!("port {port}: {problem}")));
        }
        self.set_port(port, config, now_ns);
        Ok(())
    }

    /// No effect on a wire: frames for an absent interface are counted as errors.
    fn set_port_up(&mut self, _: Port, _: bool) -> Result<(), Failure> {
        Ok(())
    }

    /// No effect: a wire's frames do not pass queueing disciplines.
    fn hold_port(&mut self, _: Port, _: bool, _: u64) {}

    fn release_held(&mut self, _: Port) -> bool {
        false
    }

    fn remove_port(&mut self, port: Port) {
        self.remove_port(port);
    }

    fn refuses_port(&self, _: Port) -> Option<String> {
        Some("a wire has two ends, which are given when it starts".to_owned())
    }

    fn port_stats(&self, port: Port) -> PortStats {
        self.port_stats(port)
    }

    fn queue_stats(&self, port: Port) -> [QueueStats; QUEUES] {
        self.queue_stats(port).unwrap_or_default()
    }

    fn link_stats(&self, port: Port) -> LinkStats {
        self.link_stats(port).unwrap_or_default()
    }

    fn totals(&self) -> (Stats, NodeStats) {
        (self.stats(), NodeStats::default())
    }
}
