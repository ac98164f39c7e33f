// SPDX-License-Identifier: Apache-2.0
//! A switch as P4Runtime describes it: a dataplane, the P4Info of its program, and the state that only controllers use.
//!
//! No I/O and no clock: requests, frames and times come in, results, frames and notifications go out. The dataplane
//! thread owns the one [`Node`]; `service` translates between it and gRPC.
//!
//! Nearly everything here runs per request of a controller, and the crate is compiled accordingly (see the profiles in
//! `Cargo.toml`). A function that runs per packet must be generic or `#[inline]`, so that `weir-engine` compiles it.
//!
//! Layout: `pipeline` (P4Info ↔ program), `write`, `read_plan` and `read` (updates and queries of entities), one file for
//! each kind of entity (`table` with `entry_key`, `action` and `direct`, `profile`, `meter`, `counter`, `replication`,
//! `register`, `value_set`, `digest`), `idle` (timeouts), `undo` and `state` (batches that are rolled back, pipelines that
//! are replaced), `beside` (access for other control planes), `packet_io` (headers of packet-ins and packet-outs), `links` (ports), `bytestring` and `matching`
//! (values), `failure` (reasons for refusals).

mod action;
mod beside;
pub mod bytestring;
mod counter;
pub mod digest;
mod direct;
mod entry_key;
pub mod failure;
mod idle;
pub mod links;
mod matching;
mod meter;
mod packet_io;
pub mod pipeline;
mod profile;
pub mod publish;
mod read;
mod read_plan;
mod register;
mod replication;
pub mod state;
mod table;
pub mod undo;
mod value_set;
mod write;

use std::collections::{BTreeMap, HashMap};

use tonic::Code;
use weir_dataplane::{
    EntryHandle, LogKind, Port, PortConfig, Program, Stats, Switch, SwitchConfig, TableId,
};
use weir_p4runtime::p4::v1;
use weir_p4runtime::p4::v1::stream_message_response::Update;

use digest::DigestQueue;
use digest::learn::Learning;
use failure::Failure;
use pipeline::Pipeline;
use profile::Profiles;
use publish::Event;
pub use read::ReadPlan;
use table::EntryMetadata;

/// Highest number of a v1model port: `egress_spec` has 9 bits.
pub const MAX_PORT: Port = 511;

/// The receiver of the node's output.
pub trait Output {
    /// `frame` leaves through `port` at `time_ns`.
    fn transmit(&mut self, port: Port, frame: &[u8], time_ns: u64);
    /// Something for the primary controller, as of `time_ns`.
    fn notify(&mut self, notification: Notification, time_ns: u64);
}

/// Something for the primary controller.
#[derive(Debug, Clone, PartialEq)]
pub enum Notification {
    /// A packet sent to the CPU port.
    PacketIn(v1::PacketIn),
    /// A digest list; its time stamp is on the switch's clock.
    DigestList(v1::DigestList),
    /// Entries of one table that were idle for their timeout; the time stamp is on the switch's clock.
    IdleTimeout(v1::IdleTimeoutNotification),
}

impl From<Notification> for v1::StreamMessageResponse {
    fn from(notification: Notification) -> Self {
        let update = match notification {
            Notification::PacketIn(packet) => Update::Packet(packet),
            Notification::DigestList(list) => Update::Digest(list),
            Notification::IdleTimeout(idle) => Update::IdleTimeoutNotification(idle),
        };
        Self {
            update: Some(update),
        }
    }
}

/// The configuration of a node.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Settings of the dataplane.
    pub switch: SwitchConfig,
    /// The port connected to the controller (packet-in, packet-out); None: there is none.
    pub cpu_port: Option<Port>,
    /// The ports with their queues and delays.
    pub ports: BTreeMap<Port, PortConfig>,
    /// Whether other nodes with the same program and entries have some of the switch's packets: then its packets may share no
    /// state, neither in the program nor in a port.
    pub one_of_several: bool,
}

/// Frames and digests that ended in the node, outside the dataplane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeStats {
    /// Frames received before there was a program.
    pub no_program: u64,
    /// Packet-ins shorter than the header that the P4Info declares.
    pub bad_packet_ins: u64,
    /// Digests for which no digest entry was configured.
    pub digests_unwanted: u64,
}

/// A switch with its P4Runtime view.
pub struct Node {
    config: NodeConfig,
    switch: Option<Switch>,
    pipeline: Option<Pipeline>,
    profiles: Profiles,
    entries: HashMap<(TableId, EntryHandle), EntryMetadata>,
    defaults: HashMap<TableId, EntryMetadata>,
    groups: BTreeMap<u32, v1::MulticastGroupEntry>,
    sessions: BTreeMap<u32, v1::CloneSessionEntry>,
    /// By p4info id.
    digests: BTreeMap<u32, DigestQueue>,
    /// Digests for subscribers of bmv2's notifications.
    learning: Option<Learning>,
    /// Replicas may name ports that the switch does not have.
    absent_replicas: bool,
    /// States of ports that these subscribers were told.
    ports_told: BTreeMap<Port, bool>,
    stats: NodeStats,
    /// The JSON of a program that no controller has set.
    source: Option<Vec<u8>>,
    /// Programs run so far.
    programs: u64,
}

impl Node {
    /// A node without a program: it counts and drops what it receives.
    pub fn new(config: NodeConfig) -> Self {
        Self {
            config,
            switch: None,
            pipeline: None,
            profiles: Profiles::default(),
            entries: HashMap::new(),
            defaults: HashMap::new(),
            groups: BTreeMap::new(),
            sessions: BTreeMap::new(),
            digests: BTreeMap::new(),
            learning: None,
            absent_replicas: false,
            ports_told: BTreeMap::new(),
            stats: NodeStats::default(),
            source: None,
            programs: 0,
        }
    }

    /// Runs `program` from now on, with empty tables; `pipeline` describes it to controllers.
    ///
    /// # Errors
    /// When the dataplane refuses a port's configuration; when the program's packets share state, and this node has only some.
    pub fn run(
        &mut self,
        program: Program,
        pipeline: Option<Pipeline>,
        now_ns: u64,
    ) -> Result<(), Failure> {
        if self.config.one_of_several
            && let Some(state) = program.shared_state()
        {
            return Err(Failure::invalid(format!(
                "packets share {state}, and this switch has several forwarding threads; valid: a program without registers, meters, \
                 digests, idle timeouts and random numbers, or a switch without --forward-threads"
            )));
        }
        if let Some(switch) = &mut self.switch {
            switch.replace_program(program);
        } else {
            let mut switch = Switch::new(program, self.config.switch);
            for (port, config) in &self.config.ports {
                switch.set_port(*port, *config, now_ns)?;
            }
            if let Some(cpu_port) = self.config.cpu_port {
                switch.set_port(cpu_port, PortConfig::default(), now_ns)?;
            }
            self.switch = Some(switch);
        }
        self.pipeline = pipeline;
        self.source = None;
        self.programs += 1;
        self.profiles.forget();
        self.entries.clear();
        self.defaults.clear();
        self.groups.clear();
        self.sessions.clear();
        self.digests.clear();
        self.begin_learning();
        Ok(())
    }

    /// The current configuration, with the ports as they are now.
    pub fn config(&self) -> &NodeConfig {
        &self.config
    }

    /// Changes the cookie of the running program's configuration.
    pub fn set_cookie(&mut self, cookie: Option<v1::forwarding_pipeline_config::Cookie>) {
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.config.cookie = cookie;
        }
    }

    /// The configuration set by a controller, if any.
    pub fn pipeline(&self) -> Option<&Pipeline> {
        self.pipeline.as_ref()
    }

    /// Receives a frame at a port.
    #[inline]
    pub fn receive(&mut self, port: Port, frame: &[u8], now_ns: u64) {
        match &mut self.switch {
            Some(switch) => switch.receive(port, frame, now_ns),
            None => self.stats.no_program += 1,
        }
    }

    /// Receives the frames that `frames` passes on, as one batch; returns the result of `frames`.
    pub fn receive_batch<T>(
        &mut self,
        frames: impl FnOnce(&mut dyn FnMut(Port, &[u8], u64)) -> T,
    ) -> T {
        let Self { switch, stats, .. } = self;
        match switch {
            Some(switch) => {
                let mut burst = switch.burst();
                frames(&mut |port, frame, now_ns| burst.receive(port, frame, now_ns))
            }
            None => frames(&mut |_, _, _| stats.no_program += 1),
        }
    }

    /// Receives a packet-out from a controller.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` without a pipeline, `INVALID_ARGUMENT` for metadata that the P4Info does not declare.
    pub fn packet_out(&mut self, packet: &v1::PacketOut, now_ns: u64) -> Result<(), Failure> {
        let (pipeline, switch) = parts(&self.pipeline, &mut self.switch)?;
        let cpu_port = self.config.cpu_port.ok_or_else(|| {
            Failure::new(
                Code::FailedPrecondition,
                "this switch has no CPU port; it starts with one when --cpu-port is given",
            )
        })?;
        let frame = packet_io::packet_out(pipeline, packet)?;
        switch.receive(cpu_port, &frame, now_ns);
        Ok(())
    }

    /// Handles a controller's acknowledgement of a digest list.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` without a pipeline, `INVALID_ARGUMENT` for an unknown digest.
    pub fn digest_ack(&mut self, ack: &v1::DigestListAck) -> Result<(), Failure> {
        let (pipeline, _) = parts(&self.pipeline, &mut self.switch)?;
        pipeline.digest(ack.digest_id)?;
        if let Some(queue) = self.digests.get_mut(&ack.digest_id) {
            queue.acknowledge(ack.list_id);
        }
        Ok(())
    }

    /// Time of the next event without further input.
    #[inline]
    pub fn next_event_ns(&self) -> Option<u64> {
        let switch = self.switch.as_ref().and_then(Switch::next_event_ns);
        let digests = self.digests.values().filter_map(DigestQueue::due_ns);
        let told = self.pipeline.is_some() || self.learning.is_some();
        let idle = self.switch.as_ref().filter(|_| told);
        let idle = idle.and_then(Switch::next_idle_ns);
        let learning = self.learning.as_ref().and_then(Learning::due_ns);
        let others = digests.chain(idle).chain(learning);
        switch.into_iter().chain(others).min()
    }

    /// Advances time to `now_ns`; everything due until then goes to `output`.
    pub fn advance(&mut self, now_ns: u64, output: &mut impl Output) {
        let Self {
            config,
            switch,
            pipeline,
            digests,
            learning,
            stats,
            ..
        } = self;
        let Some(switch) = switch else { return };
        switch.advance(now_ns, &mut |port: Port, frame: &[u8], time_ns: u64| {
            if Some(port) != config.cpu_port {
                output.transmit(port, frame, time_ns);
            } else if let Some(packet) = packet_io::packet_in(pipeline.as_ref(), frame) {
                output.notify(Notification::PacketIn(packet), time_ns);
            } else {
                stats.bad_packet_ins += 1;
            }
        });
        switch.drain_log(log_program);
        switch.drain_path_log(log_path);
        let views = pipeline.as_ref().map(|pipeline| &pipeline.digests);
        switch.drain_digests(|message| {
            let mut views = views.into_iter().flat_map(BTreeMap::values);
            let view = views.find(|view| view.id == message.digest);
            let values = || message.fields().map(<[u8]>::to_vec).collect();
            match view.and_then(|view| Some((view, digests.get_mut(&view.p4info_id)?))) {
                Some((view, queue)) => {
                    if let Some(list) = queue.offer(values(), now_ns) {
                        let message = list.message(view, now_ns);
                        output.notify(Notification::DigestList(message), now_ns);
                    }
                }
                None => {
                    let learning = learning.as_mut();
                    if !learning.is_some_and(|l| l.offer(message.digest, values(), now_ns)) {
                        stats.digests_unwanted += 1;
                    }
                }
            }
        });
        if let Some(learning) = learning {
            learning.send_due(now_ns);
        }
        if let Some(pipeline) = pipeline {
            for (id, queue) in digests {
                if let (Some(list), Some(view)) = (queue.take_due(now_ns), pipeline.digests.get(id))
                {
                    let message = list.message(view, now_ns);
                    output.notify(Notification::DigestList(message), now_ns);
                }
            }
        }
        self.notify_idle(now_ns, output);
    }

    /// Outputs the frames that reach the ends of their links by `until_ns`, as [`Switch::release`]. The CPU port's link
    /// has no delay, so there are no packet-ins among them.
    pub fn release(&mut self, until_ns: u64, output: &mut impl Output) {
        if let Some(switch) = &mut self.switch {
            switch.release(until_ns, &mut |port: Port, frame: &[u8], time_ns: u64| {
                output.transmit(port, frame, time_ns);
            });
        }
    }

    /// Advances the dataplane's clock before an operation that depends on the time.
    pub fn catch_up(&mut self, now_ns: u64) {
        if let Some(switch) = &mut self.switch {
            switch.catch_up(now_ns);
        }
    }

    /// Records that a port's interface came up or went down: groups then use other members, replicas their backups.
    ///
    /// # Errors
    /// Never in a consistent switch; a group that could not be changed stays as it was.
    pub fn set_port_up(&mut self, port: Port, up: bool) -> Result<(), Failure> {
        let changed = if up {
            self.profiles.ports_down.remove(&port)
        } else {
            self.profiles.ports_down.insert(port)
        };
        if let Some(learning) = &mut self.learning
            && self.ports_told.insert(port, up) != Some(up)
        {
            learning.publish(Event::Port { port, up });
        }
        if changed && self.pipeline.is_some() {
            self.refresh_watching(port)?;
            self.refresh_backups(port)?;
        }
        Ok(())
    }

    /// Holds the packets for a port in its queues, as [`Switch::hold_port`].
    pub fn hold_port(&mut self, port: Port, held: bool, now_ns: u64) {
        if let Some(switch) = &mut self.switch {
            switch.hold_port(port, held, now_ns);
        }
    }

    /// Lets one packet of a held port leave, as [`Switch::release_held`].
    pub fn release_held(&mut self, port: Port) -> bool {
        let switch = self.switch.as_mut();
        switch.is_some_and(|switch| switch.release_held(port))
    }

    /// Counters of frames and digests that ended in the node itself.
    #[inline]
    pub fn stats(&self) -> NodeStats {
        self.stats
    }

    /// Totals of the dataplane; zeros before there is a program.
    pub fn switch_stats(&self) -> Stats {
        self.switch.as_ref().map(Switch::stats).unwrap_or_default()
    }

    /// Totals of one port.
    pub fn port_stats(&self, port: Port) -> weir_dataplane::PortStats {
        self.switch
            .as_ref()
            .map(|switch| switch.port_stats(port))
            .unwrap_or_default()
    }

    /// Requires a port of the switch or the CPU port.
    fn require_port(&self, port: Port, place: &str) -> Result<(), Failure> {
        if Some(port) == self.config.cpu_port || self.config.ports.contains_key(&port) {
            return Ok(());
        }
        let ports: Vec<String> = self.config.ports.keys().map(ToString::to_string).collect();
        let cpu_port = match self.config.cpu_port {
            Some(number) => format!(" and the CPU port {number}"),
            None => String::new(),
        };
        Err(Failure::invalid(format!(
            "{place}: this switch has no port {port}; its ports are {}{cpu_port}",
            ports.join(", "),
        )))
    }
}

/// Writes the program's log messages to the switch's own log.
fn log_program(event: weir_dataplane::LogEvent<'_>) {
    let time_ns = event.time_ns;
    match event.kind {
        LogKind::Message => tracing::info!(target: "program", time_ns, "{}", event.text),
        LogKind::Assert | LogKind::Assume => {
            tracing::error!(target: "program", time_ns, "{}: packet dropped", event.text);
        }
    }
}

/// Writes a line of the log of packets' paths to the switch's own log.
fn log_path(level: weir_dataplane::LogLevel, text: &str) {
    use weir_dataplane::LogLevel::{Debug, Error, Info, Trace};
    match level {
        Trace => tracing::trace!(target: "packet", "{text}"),
        Debug => tracing::debug!(target: "packet", "{text}"),
        Info => tracing::info!(target: "packet", "{text}"),
        Error => tracing::error!(target: "packet", "{text}"),
    }
}

/// Pipeline and dataplane; both exist once a controller has set a pipeline.
fn parts<'a>(
    pipeline: &'a Option<Pipeline>,
    switch: &'a mut Option<Switch>,
) -> Result<(&'a Pipeline, &'a mut Switch), Failure> {
    match (pipeline, switch) {
        (Some(pipeline), Some(switch)) => Ok((pipeline, switch)),
        _ => Err(Failure::no_pipeline()),
    }
}
