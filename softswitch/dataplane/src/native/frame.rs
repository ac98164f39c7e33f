// SPDX-License-Identifier: Apache-2.0
//! The frame: the memory through which Rust and the machine code hand values to each other.

use crate::array::Array;
use crate::control::CounterValue;
use crate::packet::{FRAME_BYTES, Packet};
use crate::state::{MeterArray, RegisterArray};
use crate::tables::TableState;
use std::ffi::c_void;
use std::mem::offset_of;

/// The argument of every function of the machine code; helpers get it from there. It lies in front of the fields of its
/// packet.
#[repr(C)]
pub(super) struct Frame {
    /// The [`BoundAction::words`](crate::tables::BoundAction::words) of the entry that was found last.
    pub args: *const u64,
    /// A helper's second result, the lookup result that a paused pipeline keeps, or the parser's count of states.
    pub result: u64,
    /// Not 0: the pipeline pauses before its first stateful step.
    pub may_pause: u64,
    /// Number of the pause at which the pipeline resumes; 0 at its start.
    pub resume_at: u64,
    /// The table of the action in which the pipeline paused (`u64::MAX`: in none).
    pub table: u64,
    /// The slot of the entry that was found last (`u64::MAX`: none).
    pub slot: u64,
    /// The bytes to parse, or the headroom for the deparser.
    pub bytes: *mut u8,
    pub length: usize,
    /// Bytes parsed, or bytes of headroom left.
    pub offset: usize,
    pub parser_error: u64,
    /// The first array of each kind.
    pub counters: *const Array<CounterValue>,
    pub meters: *const MeterArray,
    pub registers: *const RegisterArray,
    /// Bytes that the packet adds to counters and takes from meters.
    pub counted_bytes: u64,
    /// Not 0: the parser, if it runs alone, resets all fields and writes the metadata of a received packet; egress writes
    /// the metadata that a deflected packet keeps from its drop.
    pub write_metadata: u64,
    /// Metadata of ingress and egress.
    pub port: u64,
    pub time_us: u64,
    /// Metadata of egress only.
    pub packet_length: u64,
    pub priority: u64,
    pub queued_us: u64,
    pub deq_qdepth: u64,
    pub egress_spec: u64,
    pub enqueued_us: u64,
    pub enq_qdepth: u64,
    /// The result of a pipeline, with `egress_spec` and `priority`.
    pub mcast_grp: u64,
    pub instance_type: u64,
    pub update_checksums: u64,
    /// The value of `egress_spec` with which egress drops.
    pub drop_port: u64,
    pub tables: *mut TableState,
    /// A `Cx`.
    pub cx: *mut c_void,
    pub packet: *mut Packet,
}

const _: () = assert!(size_of::<Frame>() <= FRAME_BYTES && align_of::<Frame>() <= 64);

/// The value that a paused pipeline returns; one that ended returns 0.
pub(super) const PAUSED: u64 = 1;

/// The value that parser and ingress return together if the parser has dropped the packet; ingress has not run then.
pub(super) const DROPPED: u64 = 3;

/// The value that the deparser returns when it has written the headers, and egress if the deparser ran right after it.
pub(super) const DEPARSED: u64 = 2;

/// The value that the deparser returns if the interpreter has to do its work: there is not enough headroom, or a varbit
/// is not empty.
pub(super) const STOPPED: u64 = 1;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "offsets within a frame are small"
)]
impl Frame {
    /// Offset of the fields of the packet.
    pub(super) const PHV: i32 = FRAME_BYTES as i32;
    pub(super) const ARGS: i32 = offset_of!(Self, args) as i32;
    pub(super) const MAY_PAUSE: i32 = offset_of!(Self, may_pause) as i32;
    pub(super) const RESUME_AT: i32 = offset_of!(Self, resume_at) as i32;
    pub(super) const TABLE: i32 = offset_of!(Self, table) as i32;
    pub(super) const TABLES: i32 = offset_of!(Self, tables) as i32;
    pub(super) const BYTES: i32 = offset_of!(Self, bytes) as i32;
    pub(super) const LENGTH: i32 = offset_of!(Self, length) as i32;
    pub(super) const OFFSET: i32 = offset_of!(Self, offset) as i32;
    pub(super) const COUNTERS: i32 = offset_of!(Self, counters) as i32;
    pub(super) const METERS: i32 = offset_of!(Self, meters) as i32;
    pub(super) const REGISTERS: i32 = offset_of!(Self, registers) as i32;
    pub(super) const COUNTED_BYTES: i32 = offset_of!(Self, counted_bytes) as i32;
    pub(super) const WRITE_METADATA: i32 = offset_of!(Self, write_metadata) as i32;
    pub(super) const PORT: i32 = offset_of!(Self, port) as i32;
    pub(super) const TIME_US: i32 = offset_of!(Self, time_us) as i32;
    pub(super) const PACKET_LENGTH: i32 = offset_of!(Self, packet_length) as i32;
    pub(super) const PRIORITY: i32 = offset_of!(Self, priority) as i32;
    pub(super) const QUEUED_US: i32 = offset_of!(Self, queued_us) as i32;
    pub(super) const DEQ_QDEPTH: i32 = offset_of!(Self, deq_qdepth) as i32;
    pub(super) const EGRESS_SPEC: i32 = offset_of!(Self, egress_spec) as i32;
    pub(super) const ENQUEUED_US: i32 = offset_of!(Self, enqueued_us) as i32;
    pub(super) const ENQ_QDEPTH: i32 = offset_of!(Self, enq_qdepth) as i32;
    pub(super) const MCAST_GRP: i32 = offset_of!(Self, mcast_grp) as i32;
    pub(super) const INSTANCE_TYPE: i32 = offset_of!(Self, instance_type) as i32;
    pub(super) const UPDATE_CHECKSUMS: i32 = offset_of!(Self, update_checksums) as i32;
    pub(super) const PARSER_ERROR: i32 = offset_of!(Self, parser_error) as i32;
    pub(super) const DROP_PORT: i32 = offset_of!(Self, drop_port) as i32;
    pub(super) const PACKET: i32 = offset_of!(Self, packet) as i32;
    pub(super) const RESULT: i32 = offset_of!(Self, result) as i32;
}
