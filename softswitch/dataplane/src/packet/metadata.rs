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
    /// The headers have been written before the payload already.
    pub deparsed: bool,
}

/// How far machine code ran a packet without a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Through {
    /// To the end of ingress.
    Ingress(IngressResult),
    /// Through ingress and egress.
    Egress(EgressResult),
}

/// How far machine code ran a received packet in ingress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Ingress has not begun.
    #[default]
    Start,
    /// To a stateful step; the frame before the packet's fields says which.
    Paused,
    /// To its end; the frame has the result.
    Ended,
}
