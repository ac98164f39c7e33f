// SPDX-License-Identifier: Apache-2.0
//! Requests to the links service, plausible and not, between frames; no packet may be lost without being counted.

use crate::choices::Choices;
use prost::Message;
use tonic::Code;
use weir_dataplane::{LinkStats, QueueStats};
use weir_links::v1::SetRequest;
use weir_switch::virtual_time::VirtualSwitch;

use crate::corpus::Corpus;
use crate::messages::{self, Ids};
use crate::requests::{PORTS, with_pipeline};
use crate::{bytes, packets};

const STEPS: usize = 120;
/// Longest time of a step, ns: enough for packets that wait for a slow shaper.
const MAX_STEP_NS: u64 = 20_000_000;

/// Runs one switch with a pipeline whose links change under traffic. True: it accepted some of the changes.
pub fn run(corpus: &Corpus, random: &mut Choices<'_>) -> Result<bool, String> {
    let Some((mut switch, _, _)) = with_pipeline(corpus, random)? else {
        return Ok(false);
    };
    let mut accepted = false;
    for _ in 0..random.usize(1..STEPS) {
        match random.u8(..10) {
            0..2 => accepted |= set_link(corpus, &mut switch, random)?,
            2..9 => {
                let at_ns = switch
                    .dataplane
                    .now_ns()
                    .saturating_add(random.u64(..100_000));
                let frame = packets::frame(random);
                let port = random.u32(PORTS);
                let received = switch.dataplane.receive(port, &frame, at_ns);
                received.map_err(|error| error.to_string())?;
            }
            _ => {
                let until_ns = switch
                    .dataplane
                    .now_ns()
                    .saturating_add(random.u64(..MAX_STEP_NS));
                let ran = switch.dataplane.run_until(until_ns);
                ran.map_err(|error| error.to_string())?;
            }
        }
        switch.dataplane.take_events();
        for port in PORTS {
            let queues = switch.dataplane.core.node.queue_stats(port);
            for (priority, queue) in queues.iter().enumerate() {
                adds_up_queue(queue).map_err(|e| format!("port {port}, queue {priority}: {e}"))?;
            }
            adds_up_link(switch.dataplane.core.node.link_stats(port))
                .map_err(|e| format!("port {port}: {e}"))?;
        }
    }
    Ok(accepted)
}

/// Sends one request. True: the switch accepted it.
fn set_link(
    corpus: &Corpus,
    switch: &mut VirtualSwitch,
    random: &mut Choices<'_>,
) -> Result<bool, String> {
    let name = "weir.links.v1.SetRequest";
    let mut bytes = messages::generate(&corpus.links, name, &Ids::small(), random);
    if random.u8(..10) == 0 {
        bytes::mutate(random, &mut bytes);
    }
    let Ok(mut request) = SetRequest::decode(bytes.as_slice()) else {
        return Ok(false);
    };
    if random.u8(..20) > 0 {
        request.number = random.u32(PORTS);
    }
    // Random numbers rarely are valid queues or loss ratios, so make them valid.
    if let Some(link) = &mut request.link
        && random.u8(..10) > 0
    {
        link.loss_ppb %= 1_000_000_001;
        for queue in &mut link.queues {
            queue.priority %= 8;
        }
    }
    match switch.set_link(request) {
        Ok(()) => Ok(true),
        Err(status) if status.code() == Code::Internal => Err(status.to_string()),
        Err(_) => Ok(false),
    }
}

fn adds_up_queue(queue: &QueueStats) -> Result<(), String> {
    let accounted = queue.passed_packets
        + queue.dropped_packets()
        + queue.removed_packets
        + queue.waiting_packets;
    if queue.offered_packets == accounted {
        return Ok(());
    }
    Err(format!("its counters do not add up: {queue:?}"))
}

fn adds_up_link(link: LinkStats) -> Result<(), String> {
    if link.offered_packets == link.passed_packets + link.lost_packets + link.in_flight_packets {
        return Ok(());
    }
    Err(format!("the link's counters do not add up: {link:?}"))
}
