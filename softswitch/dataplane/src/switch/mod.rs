// SPDX-License-Identifier: Apache-2.0
//! The switch: a program, its state, its ports.

mod arrays;
mod burst;
mod direct_ops;
mod idle_ops;
mod path;
mod profile_ops;
mod replication;
mod table_ops;
mod value_sets;

use crate::control::DigestMessage;
use crate::error::ControlError;
use crate::info::ProgramInfo;
use crate::log::LogEvent;
use crate::native::Native;
use crate::packet::{Phv, Pool};
use crate::path_log::{LogLevel, PathLog, PathLogConfig};
use crate::ports::{Port, PortConfig, QUEUES};
use crate::pre::Replication;
use crate::program::Program;
use crate::state::Externs;
use crate::stats::{LinkStats, PortStats, QueueStats, Stats};
use crate::tables::TableState;
use crate::tables::profile::ProfileState;
use crate::tm::TrafficManager;
pub use burst::Burst;
use path::Pending;
use std::collections::VecDeque;
use std::sync::Arc;

/// Receives the frames that the switch transmits.
pub trait Sink {
    /// `frame` leaves `port` at `time_ns` (not after the `now_ns` of the `advance`, or `until_ns` of the `release`, that
    /// delivers it). A frame sent to the CPU port comes out here like any other, with the program's controller header
    /// before it.
    fn transmit(&mut self, port: Port, frame: &[u8], time_ns: u64);
}

impl<F: FnMut(Port, &[u8], u64)> Sink for F {
    fn transmit(&mut self, port: Port, frame: &[u8], time_ns: u64) {
        self(port, frame, time_ns);
    }
}

/// Settings that hold for the life of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchConfig {
    /// `egress_spec` of a dropped packet (what `mark_to_drop` writes).
    pub drop_port: Port,
    /// Time at which the switch started; the program's timestamps count microseconds from here.
    pub start_ns: u64,
    /// Seed of `random`, of the table hashes, and of the links' jitter and loss.
    pub seed: u64,
    /// Longest frame accepted, without FCS.
    pub max_frame_bytes: usize,
    /// How often one packet may be resubmitted or recirculated before it is dropped and counted.
    pub max_passes: u32,
    /// Digests kept for the control plane before further ones are counted as lost.
    pub max_digests: usize,
    /// Run the program as machine code if it has any; this changes only the speed.
    pub native: bool,
    /// Queues that a packet's priority may name, at most 8: one of another priority is dropped, as by bmv2.
    pub queues: u8,
    /// The log of each packet's path; None: no log, which costs nothing.
    pub path_log: Option<PathLogConfig>,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        Self {
            drop_port: 511,
            start_ns: 0,
            seed: 1,
            max_frame_bytes: 65_536,
            max_passes: 64,
            max_digests: 16_384,
            native: true,
            queues: 8,
            path_log: None,
        }
    }
}

/// A v1model switch. Time is the caller's, in ns; a time earlier than the last one counts as the last one.
#[derive(Debug)]
pub struct Switch {
    program: Program,
    /// The program's machine code, if it is to be used.
    native: Option<Arc<Native>>,
    config: SwitchConfig,
    tables: Vec<TableState>,
    profiles: Vec<ProfileState>,
    externs: Externs,
    replication: Replication,
    tm: TrafficManager,
    pool: Pool,
    pending: VecDeque<Pending>,
    spare_phv: Phv,
    now_ns: u64,
}

fn fresh_profiles(program: &Program) -> Vec<ProfileState> {
    program
        .ir
        .profiles
        .iter()
        .map(|_| ProfileState::default())
        .collect()
}

/// The program's machine code, if it is to be used and fits arrays and tables.
fn code(
    program: &Program,
    config: &SwitchConfig,
    (externs, tables): (&Externs, &[TableState]),
) -> Option<Arc<Native>> {
    let native = program.native.as_ref();
    let wanted = config.native && config.path_log.is_none();
    let native = native.filter(|native| wanted && native.fits(externs, tables));
    native.cloned()
}

/// Ports above this cannot be written to `egress_spec` anyway.
const MAX_PORT: Port = 65_535;

impl Switch {
    /// A switch without ports that runs `program`; const and default entries are in place.
    pub fn new(program: Program, config: SwitchConfig) -> Self {
        let tables = program.fresh_tables(config.seed, config.start_ns);
        let mut externs = Externs::new(
            &program.info,
            config.seed,
            config.max_digests,
            Stats::default(),
        );
        let log = |config| Box::new(PathLog::new(config, &program.info));
        externs.path_log = config.path_log.map(log);
        Self {
            profiles: fresh_profiles(&program),
            native: code(&program, &config, (&externs, &tables)),
            program,
            config,
            tables,
            externs,
            replication: Replication::default(),
            tm: TrafficManager::new(config.seed),
            pool: Pool::default(),
            pending: VecDeque::new(),
            spare_phv: Phv::default(),
            now_ns: config.start_ns,
        }
    }

    /// The declarations of the running program.
    pub fn info(&self) -> &ProgramInfo {
        &self.program.info
    }

    /// Replaces the program. Ports, their statistics and frames on links stay; tables, meters, counters, registers,
    /// groups, sessions and undrained digests start afresh; packets in egress queues are dropped and counted.
    pub fn replace_program(&mut self, program: Program) {
        let mut stats = self.externs.stats;
        stats.dropped_reconfigured += self.tm.clear_queues(&mut self.pool);
        self.tables = program.fresh_tables(self.config.seed, self.now_ns);
        self.profiles = fresh_profiles(&program);
        let log = self.externs.path_log.take();
        self.externs = Externs::new(
            &program.info,
            self.config.seed,
            self.config.max_digests,
            stats,
        );
        self.externs.path_log = log.map(|log| Box::new((*log).with_program(&program.info)));
        self.native = code(&program, &self.config, (&self.externs, &self.tables));
        self.replication = Replication::default();
        self.program = program;
    }

    /// Empties tables, meters, counters, registers, value sets, groups and undrained digests, as if the program were
    /// loaded anew; ports, packets, clone sessions and parameters of CRCs stay.
    pub fn reset_state(&mut self) {
        self.tables = self.program.fresh_tables(self.config.seed, self.now_ns);
        self.profiles = fresh_profiles(&self.program);
        let custom_crcs = std::mem::take(&mut self.externs.custom_crcs);
        let path_log = self.externs.path_log.take();
        self.externs = Externs::new(
            &self.program.info,
            self.config.seed,
            self.config.max_digests,
            self.externs.stats,
        );
        self.externs.custom_crcs = custom_crcs;
        self.externs.path_log = path_log;
        self.native = code(&self.program, &self.config, (&self.externs, &self.tables));
        self.replication.groups.clear();
    }

    /// Runs the queues up to `now_ns`, or up to the latest time seen. Control operations that depend on the time use
    /// this one; no frame reaches a sink before the next [`Switch::advance`].
    pub fn catch_up(&mut self, now_ns: u64) {
        let now_ns = now_ns.max(self.now_ns);
        if self.tm.next_dequeue_ns().is_some_and(|at| at <= now_ns) {
            self.run_queues(now_ns);
        }
        self.now_ns = now_ns;
    }

    /// Creates a port or changes its configuration; queued packets stay under the new configuration.
    ///
    /// # Errors
    /// `InvalidValue` for what [`PortConfig::problem`] names, and for a port number above 65535 or equal to the drop
    /// port.
    pub fn set_port(
        &mut self,
        port: Port,
        config: PortConfig,
        now_ns: u64,
    ) -> Result<(), ControlError> {
        let invalid = |reason: String| {
            Err(ControlError::InvalidValue {
                what: format!("port {port}"),
                reason,
            })
        };
        if port > MAX_PORT {
            return invalid(format!(
                "the number is out of range; 0 to {MAX_PORT} are valid"
            ));
        }
        if port == self.config.drop_port {
            return invalid("it is the drop port; any other number is valid".to_owned());
        }
        if let Some(problem) = config.problem() {
            return invalid(problem.to_owned());
        }
        self.catch_up(now_ns);
        self.tm.set_port(port, config, self.now_ns);
        Ok(())
    }

    /// Removes a port and drops its packets (counted).
    ///
    /// # Errors
    /// `NotFound`.
    pub fn remove_port(&mut self, port: Port) -> Result<(), ControlError> {
        let ended = self.tm.remove_port(port, &mut self.pool);
        let ended = ended.ok_or_else(|| ControlError::NotFound {
            what: format!("port {port}"),
        })?;
        self.externs.stats.dropped_reconfigured += ended;
        Ok(())
    }

    /// Holds the packets for a port in its queues, because its interface takes none, or lets them leave again. While it is held,
    /// [`Switch::release_held`] lets one leave.
    pub fn hold_port(&mut self, port: Port, held: bool, now_ns: u64) {
        self.catch_up(now_ns);
        self.tm.hold(port, held, self.now_ns);
    }

    /// Runs egress for the next packet in the queues of a port that is held; false if none may leave now. Output waits for
    /// [`Switch::advance`].
    pub fn release_held(&mut self, port: Port) -> bool {
        let Some(packet) = self.tm.dequeue_held(port, self.now_ns) else {
            return false;
        };
        self.run_dequeued(packet);
        true
    }

    /// The ports, ascending.
    pub fn ports(&self) -> impl Iterator<Item = (Port, PortConfig)> + '_ {
        self.tm.ports()
    }

    /// Receives a frame (Ethernet without FCS; at the CPU port, the controller header and the frame).
    /// A port needs no configuration to receive. Output waits for [`Switch::advance`], even if it is due at once.
    #[inline]
    pub fn receive(&mut self, port: Port, frame: &[u8], now_ns: u64) {
        self.catch_up(now_ns);
        self.externs.stats.received += 1;
        self.tm.count_received(port, frame.len());
        if frame.is_empty() || frame.len() > self.config.max_frame_bytes {
            self.externs.stats.oversize += 1;
            return;
        }
        self.process(port, frame);
    }

    /// Time of the next event without input: a queued packet leaves, or a frame reaches the end of its link. Call
    /// [`Switch::advance`] then, or at any time before or after: a late call delays the call of the sink, not the times
    /// that the sink gets. After `receive`, output without delay makes this the time of that `receive`.
    pub fn next_event_ns(&self) -> Option<u64> {
        self.tm
            .next_dequeue_ns()
            .into_iter()
            .chain(self.tm.next_release_ns())
            .min()
    }

    /// Advances time to `now_ns` and passes every frame that has left by then to the sink, in order of time.
    pub fn advance(&mut self, now_ns: u64, sink: &mut impl Sink) {
        let until_ns = now_ns.max(self.now_ns);
        loop {
            // A packet may leave its queue only after the frames that left the switch before it.
            let dequeue = self.tm.next_dequeue_ns().filter(|at| *at <= until_ns);
            let limit = dequeue.map_or(until_ns, |at| at.saturating_sub(1));
            self.release(limit, sink);
            match dequeue {
                Some(at) => self.run_queues(at),
                None => break,
            }
        }
        self.now_ns = until_ns;
    }

    /// Passes the frames that reach the ends of their links by `until_ns` to the sink ahead of time, without advancing
    /// time. What is received later must not reach the end of a link by then.
    pub fn release(&mut self, until_ns: u64, sink: &mut impl Sink) {
        while let Some((at, packet)) = self.tm.release(until_ns) {
            self.externs.stats.transmitted += 1;
            sink.transmit(packet.egress_port, packet.original(), at);
            self.pool.recycle(packet);
        }
    }

    /// Totals of the switch.
    pub fn stats(&self) -> Stats {
        self.externs.stats
    }

    /// Totals of one port; zeros for a port that is not configured.
    pub fn port_stats(&self, port: Port) -> PortStats {
        self.tm
            .port(port)
            .map(crate::tm::PortState::snapshot)
            .unwrap_or_default()
    }

    /// Totals of a port's egress queues, by priority; None for a port that is not configured.
    pub fn queue_stats(&self, port: Port) -> Option<[QueueStats; QUEUES]> {
        self.tm.port(port).map(crate::tm::PortState::queue_stats)
    }

    /// Totals of the link of a port; None for a port that is not configured.
    pub fn link_stats(&self, port: Port) -> Option<LinkStats> {
        self.tm.port(port).map(crate::tm::PortState::link_stats)
    }

    /// Passes the digests generated since the last call to `receive`, oldest first.
    pub fn drain_digests(&mut self, receive: impl FnMut(DigestMessage<'_>)) {
        self.externs
            .digests
            .drain(&self.program.ir.digest_widths, receive);
    }

    /// Passes the lines of the log of paths since the last call to `receive`, oldest first.
    pub fn drain_path_log(&mut self, receive: impl FnMut(LogLevel, &str)) {
        if let Some(log) = &mut self.externs.path_log {
            log.drain(receive);
        }
    }

    /// Passes the log events since the last call (`log_msg`, false `assert` and `assume`) to `receive`, oldest first.
    pub fn drain_log(&mut self, receive: impl FnMut(LogEvent<'_>)) {
        self.externs.log.drain(receive);
    }
}
