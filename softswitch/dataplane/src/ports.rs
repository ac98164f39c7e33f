// SPDX-License-Identifier: Apache-2.0
//! Port numbers and their configuration.

/// A port number as the program sees it in `ingress_port` and `egress_spec`.
pub type Port = u32;

/// Egress queues of a port, one for each value of `standard_metadata.priority` (3 bits); the highest leaves first.
pub const QUEUES: usize = 8;

/// The value of [`PortConfig::loss_ppb`] that loses all frames.
pub const LOSS_ALL_PPB: u32 = 1_000_000_000;

/// Token-bucket shaping of a port or of one of its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaper {
    /// Rate in bit/s of frame bytes without FCS; at least 1.
    pub rate_bps: u64,
    /// Bucket size in bytes; the bucket starts full. A longer frame leaves when the bucket is full and puts it in debt.
    pub burst_bytes: u64,
}

/// Settings of one queue that replace its port's. The default replaces none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueConfig {
    /// Shapes this queue, in addition to the port's shaper.
    pub shaper: Option<Shaper>,
    /// Frames per second, whatever their length, without bursts; at least 1. In addition to the shapers.
    pub rate_pps: Option<u64>,
    /// Replaces [`PortConfig::queue_limit_bytes`].
    pub limit_bytes: Option<u64>,
    /// Replaces [`PortConfig::queue_limit_packets`].
    pub limit_packets: Option<u64>,
    /// Replaces [`PortConfig::deflect_to`].
    pub deflect_to: Option<Port>,
}

/// A port's egress side. The default is unshaped, unlimited, without delay or loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortConfig {
    /// None: frames pass at once.
    pub shaper: Option<Shaper>,
    /// Tail drop if the bytes in a queue with the new frame would exceed this. None: no limit.
    pub queue_limit_bytes: Option<u64>,
    /// Tail drop if the frames in a queue with the new one would exceed this. None: no limit.
    pub queue_limit_packets: Option<u64>,
    /// Port to which a tail-dropped packet is deflected: it runs egress there, so that the program can report it. None:
    /// it is only dropped.
    pub deflect_to: Option<Port>,
    /// Bit rate of the line: each frame occupies 24 bytes more for preamble, FCS and inter-packet gap, and arrives with
    /// its last bit. None: infinitely fast.
    pub line_rate_bps: Option<u64>,
    /// One-way delay of frames leaving through this port.
    pub delay_ns: u64,
    /// Added to the delay: uniform between 0 and this.
    pub jitter_ns: u64,
    /// Jitter may reorder frames; otherwise one that would overtake arrives with the one before it.
    pub reorder: bool,
    /// Share of frames that the link loses at random, in billionths (at most [`LOSS_ALL_PPB`]).
    pub loss_ppb: u32,
    /// By priority.
    pub queues: [QueueConfig; QUEUES],
}

impl PortConfig {
    /// The reason why this configuration is invalid, if it is: the setting, and what would be valid.
    pub fn problem(&self) -> Option<&'static str> {
        let queues = self.queues.iter().filter_map(|queue| queue.shaper);
        if self
            .shaper
            .into_iter()
            .chain(queues.clone())
            .any(|s| s.rate_bps == 0)
        {
            Some("a rate of 0 bit/s lets nothing pass; at least 1 is valid")
        } else if self
            .shaper
            .into_iter()
            .chain(queues)
            .any(|s| s.burst_bytes == 0)
        {
            Some("a burst of 0 bytes lets nothing pass; at least 1 is valid")
        } else if self.queues.iter().any(|queue| queue.rate_pps == Some(0)) {
            Some("a rate of 0 frames per second lets nothing pass; at least 1 is valid")
        } else if self.line_rate_bps == Some(0) {
            Some("a line rate of 0 bit/s lets nothing pass; at least 1 is valid")
        } else if self.loss_ppb > LOSS_ALL_PPB {
            Some("more than all packets cannot be lost; a loss of 0 to 100 % is valid")
        } else {
            None
        }
    }

    /// The settings of queue `priority`: its own, else the port's.
    pub(crate) fn queue(&self, priority: usize) -> QueueConfig {
        let own = self.queues.get(priority).copied().unwrap_or_default();
        QueueConfig {
            shaper: own.shaper,
            rate_pps: own.rate_pps,
            limit_bytes: own.limit_bytes.or(self.queue_limit_bytes),
            limit_packets: own.limit_packets.or(self.queue_limit_packets),
            deflect_to: own.deflect_to.or(self.deflect_to),
        }
    }
}
