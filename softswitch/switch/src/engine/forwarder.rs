// SPDX-License-Identifier: Apache-2.0
//! What the dataplane thread runs: a switch, or plain wires.

use weir_dataplane::{
    LinkStats, Port, PortConfig, PortStats, QUEUES, QueueStats, Sink, Stats, Wire,
};

use crate::node::failure::Failure;
use crate::node::{Node, NodeStats, Output};

/// Takes a frame that arrives at a port.
pub type Receive<'a> = dyn FnMut(Port, &[u8], u64) + 'a;

/// Frames and times in, frames and times out, with links behind its ports.
pub trait Forwarder: Send + 'static {
    /// Frames arrive: those that `frames` hands over. Gives back what it does.
    fn take_in<T>(&mut self, frames: impl FnOnce(&mut Receive<'_>) -> T) -> T;
    /// When the next thing happens by itself.
    fn next_event_ns(&self) -> Option<u64>;
    /// Lets time pass until `now_ns`.
    fn advance(&mut self, now_ns: u64, output: &mut impl Output);
    /// A port's link; None for a port that does not exist.
    fn link(&self, port: Port) -> Option<PortConfig>;
    /// Creates a port or changes its link.
    ///
    /// # Errors
    /// When the configuration or the number is not valid.
    fn set_link(&mut self, port: Port, config: PortConfig, now_ns: u64) -> Result<(), Failure>;
    /// Hears whether a port's interface is there and up.
    ///
    /// # Errors
    /// When the dataplane does not know the port.
    fn set_port_up(&mut self, port: Port, up: bool) -> Result<(), Failure>;
    /// Removes a port with all that waits there.
    fn remove_port(&mut self, port: Port);
    /// Why a port with this number cannot be added.
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
    fn take_in<T>(&mut self, frames: impl FnOnce(&mut Receive<'_>) -> T) -> T {
        self.take_in(frames)
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.next_event_ns()
    }

    fn advance(&mut self, now_ns: u64, output: &mut impl Output) {
        self.advance(now_ns, output);
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
    fn take_in<T>(&mut self, frames: impl FnOnce(&mut Receive<'_>) -> T) -> T {
        frames(&mut |port, frame, now_ns| self.receive(port, frame, now_ns))
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

    fn link(&self, port: Port) -> Option<PortConfig> {
        let mut ports = self.ports();
        ports.find(|(number, _)| *number == port).map(|(_, c)| c)
    }

    fn set_link(&mut self, port: Port, config: PortConfig, now_ns: u64) -> Result<(), Failure> {
        if let Some(problem) = config.problem() {
            return Err(Failure::invalid(format!("port {port}: {problem}")));
        }
        self.set_port(port, config, now_ns);
        Ok(())
    }

    /// A wire has nothing to do about it: frames for the interface are counted as errors.
    fn set_port_up(&mut self, _: Port, _: bool) -> Result<(), Failure> {
        Ok(())
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
