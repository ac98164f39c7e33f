// SPDX-License-Identifier: Apache-2.0
//! The metadata that the switch writes before a pipeline and reads after it.

/// Standard metadata of a received packet, beside its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IngressMetadata {
    pub port: u64,
    pub time_us: u64,
}

/// Standard metadata of a packet that enters egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EgressMetadata {
    pub port: u64,
    pub time_us: u64,
    pub length: u64,
    pub priority: u64,
    /// The packet was tail-dropped; `queued_us`, `deq_qdepth` and `egress_spec` were written with its drop.
    pub deflected: bool,
    pub queued_us: u64,
    pub deq_qdepth: u64,
    /// Any port but the drop port.
    pub egress_spec: u64,
    pub enqueued_us: u64,
    pub enq_qdepth: u64,
}

/// The fields that decide what happens to a packet after ingress; 0 for fields that the program does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IngressResult {
    pub mcast_grp: u64,
    pub egress_spec: u64,
    pub priority: u64,
    pub instance_type: u64,
}

/// The values that decide what happens to a packet after egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EgressResult {
    pub egress_spec: u64,
    /// A checksum may have to be updated.
    pub update_checksums: bool,
}

/// How far a packet of a burst came in ingress. Machine code writes and reads each field as one word: reading two words
/// at once right after they were written would stall the processor's store forwarding.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IngressProgress {
    /// The point where ingress resumes: `START`, `ENDED`, or a number that the machine code gave to a pause.
    pub resume_at: u64,
    /// The result of the table lookup whose action was paused, as the machine code packs it.
    pub found: u64,
    /// The table whose action was paused, and the slot of the entry that it found.
    pub slot: u64,
    pub table: u64,
}

impl IngressProgress {
    pub(crate) const START: u64 = 0;
    pub(crate) const ENDED: u64 = u64::MAX;
}
