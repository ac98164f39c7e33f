// SPDX-License-Identifier: Apache-2.0
//! Conversion of links between the dataplane's values and the service's messages.

use weir_dataplane::{LinkStats, PortConfig, QueueConfig, QueueStats, Shaper};
use weir_links::v1;

use weir_engine::node::failure::Failure;

fn shaper(message: Option<v1::Shaper>) -> Option<Shaper> {
    message.map(|shaper| Shaper {
        rate_bps: shaper.rate_bps,
        burst_bytes: shaper.burst_bytes,
    })
}

fn shaper_message(shaper: Option<Shaper>) -> Option<v1::Shaper> {
    shaper.map(|shaper| v1::Shaper {
        rate_bps: shaper.rate_bps,
        burst_bytes: shaper.burst_bytes,
    })
}

/// The configuration in a message.
///
/// # Errors
/// `INVALID_ARGUMENT` for a queue that does not exist and for a configuration without meaning.
pub fn config(link: &v1::Link) -> Result<PortConfig, Failure> {
    let mut config = PortConfig {
        shaper: shaper(link.shaper),
        queue_limit_bytes: link.queue_limit_bytes,
        queue_limit_packets: link.queue_limit_packets,
        deflect_to: link.deflect_to,
        line_rate_bps: link.line_rate_bps,
        delay_ns: link.delay_ns,
        jitter_ns: link.jitter_ns,
        reorder: link.reorder,
        loss_ppb: link.loss_ppb,
        ..PortConfig::default()
    };
    for queue in &link.queues {
        let priority = usize::try_from(queue.priority).ok();
        let slot = priority.and_then(|priority| config.queues.get_mut(priority));
        *slot.ok_or_else(|| {
            Failure::invalid(format!(
                "there is no queue {}; priorities are 0 to 7",
                queue.priority
            ))
        })? = QueueConfig {
            shaper: shaper(queue.shaper),
            limit_bytes: queue.limit_bytes,
            limit_packets: queue.limit_packets,
            deflect_to: queue.deflect_to,
            ..QueueConfig::default()
        };
    }
    match config.problem() {
        Some(problem) => Err(Failure::invalid(problem)),
        None => Ok(config),
    }
}

/// The message for `config`; queues without settings are left out.
pub fn link(config: &PortConfig) -> v1::Link {
    let queues = (0..).zip(&config.queues);
    let queues = queues.filter(|(_, queue)| **queue != QueueConfig::default());
    v1::Link {
        shaper: shaper_message(config.shaper),
        queue_limit_bytes: config.queue_limit_bytes,
        queue_limit_packets: config.queue_limit_packets,
        deflect_to: config.deflect_to,
        line_rate_bps: config.line_rate_bps,
        delay_ns: config.delay_ns,
        jitter_ns: config.jitter_ns,
        reorder: config.reorder,
        loss_ppb: config.loss_ppb,
        queues: queues
            .map(|(priority, queue)| v1::Queue {
                priority,
                shaper: shaper_message(queue.shaper),
                limit_bytes: queue.limit_bytes,
                limit_packets: queue.limit_packets,
                deflect_to: queue.deflect_to,
            })
            .collect(),
    }
}

/// The counters of the queues that packets have arrived at.
pub fn queues(stats: &[QueueStats]) -> Vec<v1::QueueCounters> {
    let used = (0..).zip(stats);
    used.filter(|(_, queue)| queue.offered_packets > 0)
        .map(|(priority, queue)| v1::QueueCounters {
            priority,
            offered_packets: queue.offered_packets,
            offered_bytes: queue.offered_bytes,
            passed_packets: queue.passed_packets,
            passed_bytes: queue.passed_bytes,
            dropped_bytes_limit: queue.dropped_bytes_limit,
            dropped_packets_limit: queue.dropped_packets_limit,
            dropped_bytes: queue.dropped_bytes,
            deflected_packets: queue.deflected_packets,
            removed_packets: queue.removed_packets,
            waiting_packets: queue.waiting_packets,
            waiting_bytes: queue.waiting_bytes,
        })
        .collect()
}

/// Adds the counters of the queues that another thread has for the same port.
pub fn add_queues(to: &mut Vec<v1::QueueCounters>, from: &[v1::QueueCounters]) {
    for other in from {
        let Some(queue) = to.iter_mut().find(|queue| queue.priority == other.priority) else {
            to.push(*other);
            continue;
        };
        queue.offered_packets += other.offered_packets;
        queue.offered_bytes += other.offered_bytes;
        queue.passed_packets += other.passed_packets;
        queue.passed_bytes += other.passed_bytes;
        queue.dropped_bytes_limit += other.dropped_bytes_limit;
        queue.dropped_packets_limit += other.dropped_packets_limit;
        queue.dropped_bytes += other.dropped_bytes;
        queue.deflected_packets += other.deflected_packets;
        queue.removed_packets += other.removed_packets;
        queue.waiting_packets += other.waiting_packets;
        queue.waiting_bytes += other.waiting_bytes;
    }
    to.sort_by_key(|queue| queue.priority);
}

/// Adds the counters that another thread has of the same link.
pub fn add_counters(to: &mut v1::LinkCounters, from: &v1::LinkCounters) {
    to.offered_packets += from.offered_packets;
    to.passed_packets += from.passed_packets;
    to.lost_packets += from.lost_packets;
    to.in_flight_packets += from.in_flight_packets;
}

/// The counters of a link.
pub fn counters(stats: LinkStats) -> v1::LinkCounters {
    v1::LinkCounters {
        offered_packets: stats.offered_packets,
        passed_packets: stats.passed_packets,
        lost_packets: stats.lost_packets,
        in_flight_packets: stats.in_flight_packets,
    }
}
