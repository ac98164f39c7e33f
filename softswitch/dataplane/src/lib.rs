// SPDX-License-Identifier: Apache-2.0
//! A v1model switch as a pure library.
//!
//! [`Program::from_json`] compiles the output of `p4c-bm2-ss` to a flat program; [`Switch`] runs it. The crate does no
//! I/O, reads no clock and starts no thread: frames, ports and times (nanoseconds) come in through [`Switch::receive`]
//! or [`Switch::burst`], and [`Switch::advance`]; frames, ports and times go out through a [`Sink`].
//!
//! Layout: the crate `weir-program` compiles JSON to the flat program (`ir`), once. `switch` takes a packet through the stages: parse,
//! ingress, traffic manager, egress, deparse. `stages` runs a stage as machine code (`native`) or in the interpreter
//! (`exec`); both work on `packet` and `context`. `tm` has queues and links, `tables` lookups, `meter` and `state` the
//! externs, `pre` multicast and clone sessions.

mod array;
mod context;
mod control;
mod crc;
mod error;
mod exec;
mod hash;
mod log;
mod memory;
mod meter;
mod native;
mod packet;
mod path_log;
mod ports;
mod pre;
mod program;
mod stages;
mod state;
mod stats;
mod switch;
mod tables;
mod tm;
mod value_set;
mod wire;

pub use control::{
    ActionCall, CloneSession, ColourCounters, CounterValue, CrcConfig, DigestMessage, EntryHandle,
    GroupMember, KeyMatch, MemberGroup, MeterConfig, ProfileTarget, Replica, TableEntry,
};
pub use error::ControlError;
pub use info::{
    ActionId, ActionInfo, CalculationId, CalculationInfo, CounterId, CounterInfo, DigestId,
    DigestInfo, FieldInfo, KeyFieldInfo, MatchKind, MeterId, MeterInfo, MeterUnit, ParamInfo,
    ParserStepText, ProfileId, ProfileInfo, ProgramInfo, RegisterId, RegisterInfo, TableId,
    TableInfo, ValueSetId, ValueSetInfo,
};
pub use log::LogEvent;
pub use native::{MachineCode, machine_code, report_crashes, set_machine_code};
pub use path_log::{LogLevel, PathLogConfig};
pub use ports::{LOSS_ALL_PPB, Port, PortConfig, QUEUES, QueueConfig, Shaper};
pub use program::Program;
pub use stats::{LinkStats, PortStats, QueueStats, Stats};
pub use switch::{Burst, Sink, Switch, SwitchConfig};
pub use weir_program::{LoadError, LogKind};
pub use wire::{Carried, Wire};

use weir_program::{info, ir, wide};
