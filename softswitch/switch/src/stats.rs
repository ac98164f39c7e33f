// SPDX-License-Identifier: Apache-2.0
//! The statistics file: the switch's counters as JSON, replaced atomically so that a reader never sees half a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use serde::Serialize;
use weir_links::v1::QueueCounters;

use crate::links::convert;
use weir_engine::engine::{Core, Forwarder};

/// Version of the file's layout.
const SCHEMA: u32 = 1;

/// All counters of the switch at one moment.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Snapshot {
    schema: u32,
    uptime_ns: u64,
    ports: Vec<PortSnapshot>,
    dataplane: DataplaneSnapshot,
}

#[derive(Debug, Clone, Serialize)]
struct PortSnapshot {
    port: u32,
    interface: String,
    up: bool,
    rx_packets: u64,
    rx_bytes: u64,
    rx_overruns: u64,
    rx_oversize: u64,
    tx_packets: u64,
    tx_bytes: u64,
    tx_errors: u64,
    tx_waiting: u64,
    queue_drops: u64,
    queue_drop_bytes: u64,
    queued_packets: u64,
    queued_bytes: u64,
    in_flight: u64,
    link_lost: u64,
    /// Only queues that packets have arrived at.
    queues: Vec<QueueCounters>,
}

#[derive(Debug, Clone, Default, Serialize)]
struct DataplaneSnapshot {
    received: u64,
    no_program: u64,
    parser_errors: u64,
    oversize: u64,
    dropped_ingress: u64,
    dropped_egress: u64,
    dropped_queue: u64,
    deflected: u64,
    dropped_no_port: u64,
    dropped_reconfigured: u64,
    dropped_no_replica: u64,
    dropped_loop: u64,
    cloned: u64,
    clone_no_session: u64,
    multicast_copies: u64,
    resubmitted: u64,
    recirculated: u64,
    digests: u64,
    digests_lost: u64,
    digests_unwanted: u64,
    transmitted: u64,
    index_out_of_range: u64,
    assertions_failed: u64,
    log_lost: u64,
    bad_packet_ins: u64,
    notifications_lost: u64,
}

/// Adds the named fields of one structure to those of another.
macro_rules! add {
    ($to:expr, $from:expr, $($field:ident),+) => {
        $($to.$field += $from.$field;)+
    };
}

impl PortSnapshot {
    /// Adds what another thread counted at the same port.
    fn add(&mut self, other: &Self) {
        self.up &= other.up;
        add!(self, other, rx_packets, rx_bytes, rx_overruns, rx_oversize);
        add!(self, other, tx_packets, tx_bytes, tx_errors, tx_waiting);
        add!(self, other, queue_drops, queue_drop_bytes);
        add!(
            self,
            other,
            queued_packets,
            queued_bytes,
            in_flight,
            link_lost
        );
        convert::add_queues(&mut self.queues, &other.queues);
    }
}

impl DataplaneSnapshot {
    /// Adds what another thread counted; `notifications_lost` is of all threads.
    fn add(&mut self, other: &Self) {
        add!(self, other, received, no_program, parser_errors, oversize);
        add!(
            self,
            other,
            dropped_ingress,
            dropped_egress,
            dropped_queue,
            deflected
        );
        add!(
            self,
            other,
            dropped_no_port,
            dropped_reconfigured,
            dropped_no_replica,
            dropped_loop
        );
        add!(self, other, cloned, clone_no_session, multicast_copies);
        add!(self, other, resubmitted, recirculated);
        add!(
            self,
            other,
            digests,
            digests_lost,
            digests_unwanted,
            transmitted
        );
        add!(
            self,
            other,
            index_out_of_range,
            assertions_failed,
            log_lost,
            bad_packet_ins
        );
    }
}

impl Snapshot {
    /// The counters of a switch from those of its threads, of which there is at least one.
    pub fn sum(of_threads: Vec<Self>) -> Self {
        let sum = of_threads.into_iter().reduce(|mut sum, other| {
            for port in &mut sum.ports {
                let same = |o: &&PortSnapshot| o.port == port.port;
                if let Some(same) = other.ports.iter().find(same) {
                    port.add(same);
                }
            }
            sum.dataplane.add(&other.dataplane);
            sum
        });
        sum.unwrap_or_default()
    }

    /// The counters of `core` now.
    pub fn take<F: Forwarder>(core: &mut Core<F>) -> Self {
        let Core {
            node,
            interfaces,
            now_ns,
            notifications_lost,
            ..
        } = core;
        let ports = interfaces.iter_mut().map(|interface| {
            interface.update_overruns();
            let (link, queue) = (interface.counters(), node.port_stats(interface.number()));
            PortSnapshot {
                port: interface.number(),
                interface: interface.name().to_owned(),
                up: interface.is_up(),
                rx_packets: link.rx_packets,
                rx_bytes: link.rx_bytes,
                rx_overruns: link.rx_overruns,
                rx_oversize: link.rx_oversize,
                tx_packets: link.tx_packets,
                tx_bytes: link.tx_bytes,
                tx_errors: link.tx_errors,
                tx_waiting: link.tx_waiting,
                queue_drops: queue.queue_drops,
                queue_drop_bytes: queue.queue_drop_bytes,
                queued_packets: queue.queued_packets,
                queued_bytes: queue.queued_bytes,
                in_flight: queue.in_flight,
                link_lost: queue.link_lost,
                queues: convert::queues(&node.queue_stats(interface.number())),
            }
        });
        let ports = ports.collect();
        let (switch, outside) = node.totals();
        let dataplane = DataplaneSnapshot {
            received: switch.received,
            no_program: outside.no_program,
            parser_errors: switch.parser_errors,
            oversize: switch.oversize,
            dropped_ingress: switch.dropped_ingress,
            dropped_egress: switch.dropped_egress,
            dropped_queue: switch.dropped_queue,
            deflected: switch.deflected,
            dropped_no_port: switch.dropped_no_port,
            dropped_reconfigured: switch.dropped_reconfigured,
            dropped_no_replica: switch.dropped_no_replica,
            dropped_loop: switch.dropped_loop,
            cloned: switch.cloned,
            clone_no_session: switch.clone_no_session,
            multicast_copies: switch.multicast_copies,
            resubmitted: switch.resubmitted,
            recirculated: switch.recirculated,
            digests: switch.digests,
            digests_lost: switch.digests_lost,
            digests_unwanted: outside.digests_unwanted,
            transmitted: switch.transmitted,
            index_out_of_range: switch.index_out_of_range,
            assertions_failed: switch.assertions_failed,
            log_lost: switch.log_lost,
            bad_packet_ins: outside.bad_packet_ins,
            notifications_lost: notifications_lost.load(Ordering::Relaxed),
        };
        Self {
            schema: SCHEMA,
            uptime_ns: *now_ns,
            ports,
            dataplane,
        }
    }

    /// Writes a temporary file and renames it to `path`.
    ///
    /// # Errors
    /// When it cannot be written or renamed.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".tmp");
        let temporary = PathBuf::from(name);
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        std::fs::write(&temporary, json)?;
        std::fs::rename(&temporary, path)
    }
}
