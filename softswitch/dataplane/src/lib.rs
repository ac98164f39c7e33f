// SPDX-License-Identifier: Apache-2.0
//! A v1model switch as a pure library.
//!
//! [`Program::from_json`] compiles what `p4c-bm2-ss` emits into a flat form; [`Switch`] runs it. The crate does no
//! I/O, reads no clock and starts no thread: frames, ports and times (nanoseconds) come in through
//! [`Switch::receive`] or [`Switch::burst`], and [`Switch::advance`]; frames, ports and times go out through a [`Sink`].
//!
//! Layout, in the order a packet meets it: `load` (JSON to flat program, once), `exec` (parser, pipelines,
//! deparser; `native` is the same as machine code), `tables` (lookups), `meter`, `state` (counters, registers), `pre` (multicast, clones), `tm` (queues, links).

mod control;
mod error;
mod exec;
mod hash;
mod info;
mod ir;
mod load;
mod log;
mod memory;
mod meter;
mod native;
mod ports;
mod pre;
mod program;
mod state;
mod stats;
mod switch;
mod tables;
mod tm;
mod value_set;
mod wire;

pub use control::{
    ActionCall, CloneSession, ColourCounters, CounterValue, DigestMessage, EntryHandle,
    GroupMember, KeyMatch, MemberGroup, MeterConfig, ProfileTarget, Replica, TableEntry,
};
pub use error::{ControlError, LoadError};
pub use info::{
    ActionId, ActionInfo, CounterId, CounterInfo, DigestId, DigestInfo, FieldInfo, KeyFieldInfo,
    MatchKind, MeterId, MeterInfo, MeterUnit, ParamInfo, ProfileId, ProfileInfo, ProgramInfo,
    RegisterId, RegisterInfo, TableId, TableInfo, ValueSetId, ValueSetInfo,
};
pub use log::{LogEvent, LogKind};
pub use ports::{LOSS_ALL_PPB, Port, PortConfig, QUEUES, QueueConfig, Shaper};
pub use program::Program;
pub use stats::{LinkStats, PortStats, QueueStats, Stats};
pub use switch::{Burst, Sink, Switch, SwitchConfig};
pub use wire::Wire;
