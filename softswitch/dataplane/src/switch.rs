// SPDX-License-Identifier: Apache-2.0
//! The switch: a program, its state, its ports.

use crate::control::{
    ActionCall, CloneSession, CounterValue, DigestMessage, EntryHandle, KeyMatch, MeterConfig, Replica, TableEntry,
};
use crate::error::ControlError;
use crate::info::{CounterId, MeterId, ProgramInfo, RegisterId, TableId};
use crate::ports::{Port, PortConfig};
use crate::program::Program;
use crate::stats::{PortStats, Stats};

/// Receives the frames that leave the switch.
pub trait Sink {
    /// `frame` leaves `port` at `time_ns` (not after the `now_ns` of the `advance` that delivers it). A frame sent to
    /// the CPU port comes out here like any other, with the program's own controller header in front.
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
    /// Seed of `random` and of the table hashes.
    pub seed: u64,
    /// Longest frame accepted, without FCS.
    pub max_frame_bytes: usize,
    /// How often one packet may be resubmitted or recirculated before it is dropped and counted.
    pub max_passes: u32,
    /// Digests kept for the control plane before further ones are counted as lost.
    pub max_digests: usize,
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
        }
    }
}

/// A v1model switch. Time is the caller's, in ns; a time earlier than the last one counts as the last one.
#[derive(Debug)]
pub struct Switch {
    program: Program,
    #[expect(dead_code, reason = "read by the pipeline")]
    config: SwitchConfig,
}

#[expect(unused_variables, clippy::unused_self, clippy::missing_const_for_fn, reason = "signatures first")]
impl Switch {
    /// A switch without ports that runs `program`; const and default entries are in place.
    pub fn new(program: Program, config: SwitchConfig) -> Self {
        Self { program, config }
    }

    /// What the running program declares.
    pub fn info(&self) -> &ProgramInfo {
        &self.program.info
    }

    /// Replaces the program. Ports, their statistics and frames on delay lines stay; tables, meters, counters,
    /// registers, groups and sessions start afresh; packets in egress queues are dropped and counted.
    pub fn replace_program(&mut self, program: Program) {
        self.program = program;
    }

    /// Creates a port or changes its configuration; waiting packets stay in the queue under the new configuration.
    ///
    /// # Errors
    /// `InvalidValue` for a rate or burst of 0.
    pub fn set_port(&mut self, port: Port, config: PortConfig, now_ns: u64) -> Result<(), ControlError> {
        Ok(())
    }

    /// Removes a port with all that waits there (counted).
    ///
    /// # Errors
    /// `NotFound`.
    pub fn remove_port(&mut self, port: Port) -> Result<(), ControlError> {
        Ok(())
    }

    /// The ports, ascending.
    pub fn ports(&self) -> impl Iterator<Item = (Port, PortConfig)> + '_ {
        std::iter::empty()
    }

    /// A frame (Ethernet without FCS, or for the CPU port the controller header and the frame) arrives.
    /// A port needs no configuration to receive. Output waits for [`Switch::advance`], also when it is due at once.
    pub fn receive(&mut self, port: Port, frame: &[u8], now_ns: u64) {}

    /// When the next thing happens by itself (a queued packet may leave, a frame reaches the end of its delay line).
    /// Call [`Switch::advance`] then, or at any time before or after: late calls change when the sink is called, not
    /// the times it is told. After `receive`, output without delay makes this the time of that `receive`.
    pub fn next_event_ns(&self) -> Option<u64> {
        None
    }

    /// Lets time pass until `now_ns` and gives the sink every frame that has left by then, in order of time.
    pub fn advance(&mut self, now_ns: u64, sink: &mut impl Sink) {}

    /// Totals of the switch.
    pub fn stats(&self) -> Stats {
        Stats::default()
    }

    /// Totals of one port; zeros for a port that was never seen.
    pub fn port_stats(&self, port: Port) -> PortStats {
        PortStats::default()
    }

    /// Hands over the digests generated since the last call, oldest first.
    pub fn drain_digests(&mut self, receive: impl FnMut(DigestMessage<'_>)) {}

    /// Adds an entry.
    ///
    /// # Errors
    /// `UnknownId`, `InvalidKey`, `InvalidArguments`, `ActionNotInTable`, `Duplicate`, `TableFull`, `Const`.
    pub fn insert_entry(&mut self, table: TableId, entry: &TableEntry) -> Result<EntryHandle, ControlError> {
        Ok(EntryHandle(0))
    }

    /// The entry with this key and priority.
    ///
    /// # Errors
    /// `UnknownId`, `InvalidKey`, `NotFound`.
    pub fn find_entry(&self, table: TableId, key: &[KeyMatch], priority: i32) -> Result<EntryHandle, ControlError> {
        Ok(EntryHandle(0))
    }

    /// Changes what a hit does; direct counter and meter state stay.
    ///
    /// # Errors
    /// As `insert_entry`, and `NotFound`.
    pub fn modify_entry(
        &mut self,
        table: TableId,
        handle: EntryHandle,
        action: &ActionCall,
    ) -> Result<(), ControlError> {
        Ok(())
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`, `Const`.
    pub fn delete_entry(&mut self, table: TableId, handle: EntryHandle) -> Result<(), ControlError> {
        Ok(())
    }

    /// Removes all entries of a table; the default entry stays.
    ///
    /// # Errors
    /// `UnknownId`, `Const`.
    pub fn clear_table(&mut self, table: TableId) -> Result<(), ControlError> {
        Ok(())
    }

    /// One entry.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn entry(&self, table: TableId, handle: EntryHandle) -> Result<TableEntry, ControlError> {
        Err(ControlError::NotFound { what: "entry".into() })
    }

    /// Handles of all entries of a table, oldest first.
    ///
    /// # Errors
    /// `UnknownId`.
    pub fn entries(&self, table: TableId) -> Result<Vec<EntryHandle>, ControlError> {
        Ok(Vec::new())
    }

    /// The default entry; None when the table has none.
    ///
    /// # Errors
    /// `UnknownId`.
    pub fn default_entry(&self, table: TableId) -> Result<Option<ActionCall>, ControlError> {
        Ok(None)
    }

    /// Sets the default entry, or with None restores the program's own.
    ///
    /// # Errors
    /// `UnknownId`, `ActionNotInTable`, `InvalidArguments`, `Const`.
    pub fn set_default_entry(&mut self, table: TableId, action: Option<&ActionCall>) -> Result<(), ControlError> {
        Ok(())
    }

    /// Configures one cell of an indirect meter; the buckets start full. None: unset (always green).
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`, `InvalidValue`.
    pub fn set_meter(&mut self, meter: MeterId, index: u64, config: Option<MeterConfig>) -> Result<(), ControlError> {
        Ok(())
    }

    /// Configuration of one cell of an indirect meter; None when unset.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`.
    pub fn meter(&self, meter: MeterId, index: u64) -> Result<Option<MeterConfig>, ControlError> {
        Ok(None)
    }

    /// Configures the direct meter of an entry. None: unset.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound` (entry, or the table has no direct meter), `InvalidValue`.
    pub fn set_direct_meter(
        &mut self,
        table: TableId,
        handle: EntryHandle,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        Ok(())
    }

    /// Configuration of the direct meter of an entry.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn direct_meter(&self, table: TableId, handle: EntryHandle) -> Result<Option<MeterConfig>, ControlError> {
        Ok(None)
    }

    /// One cell of an indirect counter.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`.
    pub fn counter(&self, counter: CounterId, index: u64) -> Result<CounterValue, ControlError> {
        Ok(CounterValue::default())
    }

    /// Writes one cell of an indirect counter.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`.
    pub fn set_counter(&mut self, counter: CounterId, index: u64, value: CounterValue) -> Result<(), ControlError> {
        Ok(())
    }

    /// The direct counter of an entry.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn direct_counter(&self, table: TableId, handle: EntryHandle) -> Result<CounterValue, ControlError> {
        Ok(CounterValue::default())
    }

    /// Writes the direct counter of an entry.
    ///
    /// # Errors
    /// `UnknownId`, `NotFound`.
    pub fn set_direct_counter(
        &mut self,
        table: TableId,
        handle: EntryHandle,
        value: CounterValue,
    ) -> Result<(), ControlError> {
        Ok(())
    }

    /// One register cell, `ceil(width / 8)` bytes.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`.
    pub fn register(&self, register: RegisterId, index: u64) -> Result<Vec<u8>, ControlError> {
        Ok(Vec::new())
    }

    /// Writes one register cell.
    ///
    /// # Errors
    /// `UnknownId`, `IndexOutOfRange`, `InvalidValue` when the value is wider than the cell.
    pub fn set_register(&mut self, register: RegisterId, index: u64, value: &[u8]) -> Result<(), ControlError> {
        Ok(())
    }

    /// Creates a multicast group.
    ///
    /// # Errors
    /// `Exists`; `InvalidValue` for id 0 or above 65535 and for a replica given twice.
    pub fn insert_multicast_group(&mut self, id: u32, replicas: &[Replica]) -> Result<(), ControlError> {
        Ok(())
    }

    /// Replaces the replicas of a group.
    ///
    /// # Errors
    /// `NotFound`, `InvalidValue`.
    pub fn modify_multicast_group(&mut self, id: u32, replicas: &[Replica]) -> Result<(), ControlError> {
        Ok(())
    }

    /// Removes a group.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn delete_multicast_group(&mut self, id: u32) -> Result<(), ControlError> {
        Ok(())
    }

    /// The groups, ascending by id.
    pub fn multicast_groups(&self) -> impl Iterator<Item = (u32, &[Replica])> + '_ {
        std::iter::empty()
    }

    /// Creates a clone session.
    ///
    /// # Errors
    /// `Exists`; `InvalidValue` for an id above 32767 and for a replica given twice.
    pub fn insert_clone_session(&mut self, id: u32, session: &CloneSession) -> Result<(), ControlError> {
        Ok(())
    }

    /// Replaces a clone session.
    ///
    /// # Errors
    /// `NotFound`, `InvalidValue`.
    pub fn modify_clone_session(&mut self, id: u32, session: &CloneSession) -> Result<(), ControlError> {
        Ok(())
    }

    /// Removes a clone session.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn delete_clone_session(&mut self, id: u32) -> Result<(), ControlError> {
        Ok(())
    }

    /// The clone sessions, ascending by id.
    pub fn clone_sessions(&self) -> impl Iterator<Item = (u32, &CloneSession)> + '_ {
        std::iter::empty()
    }
}
