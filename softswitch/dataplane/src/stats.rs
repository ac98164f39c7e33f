// SPDX-License-Identifier: Apache-2.0
//! Counters of the switch itself. Every packet that ends inside the switch is counted in one of these.

/// Totals of the switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames passed to `receive`.
    pub received: u64,
    /// Frames refused because they were longer than the configured maximum (or empty).
    pub oversize: u64,
    /// Packets whose parse ended with an error; they still go through the pipeline, as v1model says.
    pub parser_errors: u64,
    /// Packets that ended at the end of ingress (`egress_spec` = drop port).
    pub dropped_ingress: u64,
    /// Packets that ended at the end of egress.
    pub dropped_egress: u64,
    /// Packets tail-dropped by an egress queue, all ports, except those that were deflected.
    pub dropped_queue: u64,
    /// Packets tail-dropped by an egress queue that were deflected, which means sent through egress to the deflection
    /// port.
    pub deflected: u64,
    /// Packets sent to a port that does not exist.
    pub dropped_no_port: u64,
    /// Packets that were queued when their program or port was replaced or removed.
    pub dropped_reconfigured: u64,
    /// Multicast packets whose group does not exist or has no replica.
    pub dropped_no_replica: u64,
    /// Packets resubmitted or recirculated more often than the configured limit.
    pub dropped_loop: u64,
    /// Clones made (I2E and E2E), one per replica.
    pub cloned: u64,
    /// Clone requests for a session that does not exist.
    pub clone_no_session: u64,
    /// Packets that a multicast group replaced by copies.
    pub multicast: u64,
    /// Copies made by multicast groups.
    pub multicast_copies: u64,
    /// Resubmitted packets.
    pub resubmitted: u64,
    /// Recirculated packets.
    pub recirculated: u64,
    /// Digests queued.
    pub digests: u64,
    /// Digests lost because the control plane did not drain them.
    pub digests_lost: u64,
    /// Frames passed to the sink.
    pub transmitted: u64,
    /// Accesses to a meter, counter or register beyond its size (the access has no effect).
    pub index_out_of_range: u64,
    /// False `assert` and `assume`; each drop is also counted at its pipeline.
    pub assertions_failed: u64,
    /// `log_msg`, `assert` and `assume` whose text was lost because the owner did not drain them.
    pub log_lost: u64,
}

impl Stats {
    /// Packets created: frames, clones, copies.
    pub fn begun(&self) -> u64 {
        self.received + self.cloned + self.multicast_copies
    }

    /// Packets that were transmitted or dropped. The others are in queues, on links or lost there.
    pub fn ended(&self) -> u64 {
        self.transmitted
            + self.multicast
            + self.oversize
            + self.dropped_ingress
            + self.dropped_egress
            + self.dropped_queue
            + self.dropped_no_port
            + self.dropped_reconfigured
            + self.dropped_no_replica
            + self.dropped_loop
    }
}

/// Totals of one port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes received, without FCS.
    pub rx_bytes: u64,
    /// Frames passed to the sink.
    pub tx_packets: u64,
    /// Bytes passed to the sink, without FCS.
    pub tx_bytes: u64,
    /// Packets tail-dropped by this port's queue.
    pub queue_drops: u64,
    /// Bytes tail-dropped by this port's queue.
    pub queue_drop_bytes: u64,
    /// Packets now in the egress queue.
    pub queued_packets: u64,
    /// Bytes now in the egress queue.
    pub queued_bytes: u64,
    /// Frames now on the link or ready for the sink.
    pub in_flight: u64,
    /// Frames that the link lost at random.
    pub link_lost: u64,
}

/// Totals of one egress queue. offered = passed + dropped + removed + waiting, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets for this queue.
    pub offered_packets: u64,
    /// Their bytes, without FCS.
    pub offered_bytes: u64,
    /// Packets that passed it to egress, at once or after a wait.
    pub passed_packets: u64,
    /// Their bytes.
    pub passed_bytes: u64,
    /// Packets dropped because of the limit in bytes.
    pub dropped_bytes_limit: u64,
    /// Packets dropped because of the limit in packets.
    pub dropped_packets_limit: u64,
    /// Bytes of all dropped packets.
    pub dropped_bytes: u64,
    /// Dropped packets that were deflected.
    pub deflected_packets: u64,
    /// Packets that were queued when their program was replaced.
    pub removed_packets: u64,
    /// Packets queued now.
    pub waiting_packets: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
}

impl QueueStats {
    /// Packets dropped because of either limit.
    pub fn dropped_packets(&self) -> u64 {
        self.dropped_bytes_limit + self.dropped_packets_limit
    }
}

/// Totals of a port's link. offered = passed + lost + in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Frames put on the link.
    pub offered_packets: u64,
    /// Frames passed to the sink.
    pub passed_packets: u64,
    /// Frames lost at random.
    pub lost_packets: u64,
    /// Frames in flight now.
    pub in_flight_packets: u64,
}
