// SPDX-License-Identifier: Apache-2.0
//! Port numbers and their configuration.

/// A port number as the program sees it in `ingress_port` and `egress_spec`.
pub type Port = u32;

/// Token-bucket shaping of a port's egress queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaper {
    /// Rate in bit/s of frame bytes without FCS; at least 1.
    pub rate_bps: u64,
    /// Bucket in bytes; it starts full. A frame longer than this leaves when the bucket is full and puts it in debt.
    pub burst_bytes: u64,
}

/// A port's egress side. The default is unshaped, unlimited, without delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortConfig {
    /// None: frames pass at once.
    pub shaper: Option<Shaper>,
    /// Tail drop when the waiting bytes with the new frame would exceed this. None: no limit.
    pub queue_limit_bytes: Option<u64>,
    /// One-way delay of frames leaving through this port.
    pub delay_ns: u64,
}
