// SPDX-License-Identifier: Apache-2.0
//! Calls of the service `simple_switch` on queues and clocks.
//!
//! bmv2 has one queue for each priority of a port, limited in packets and packets per second. A rate or depth for a whole
//! port is set on each of its queues.

use weir_dataplane::{Port, QueueConfig};

use crate::args::Args;
use crate::dispatch::Answer;
use crate::state::Context;
use crate::wire::Value;

/// What the calls return: bmv2 returns 0 always, also for a port that it does not have.
const DONE: i32 = 0;
const NO_SUCH_QUEUE: i32 = 1;

fn set(
    context: &mut Context<'_>,
    port: Port,
    priority: Option<i32>,
    change: impl Fn(&mut QueueConfig),
) -> i32 {
    let Some(mut config) = context.core.node.link(port) else {
        return NO_SUCH_QUEUE;
    };
    match priority {
        None => config.queues.iter_mut().for_each(change),
        Some(priority) => {
            let queue = usize::try_from(priority).ok();
            let Some(queue) = queue.and_then(|queue| config.queues.get_mut(queue)) else {
                return NO_SUCH_QUEUE;
            };
            change(queue);
        }
    }
    let now_ns = context.core.now_ns;
    match context.core.node.set_link(port, config, now_ns) {
        Ok(()) => DONE,
        Err(_) => NO_SUCH_QUEUE,
    }
}

fn set_one(
    context: &mut Context<'_>,
    args: Args<'_>,
    priority: Option<i32>,
    change: impl Fn(&mut QueueConfig),
) -> Answer {
    let port = u32::try_from(args.i32(1)?).ok();
    let done = port.map_or(NO_SUCH_QUEUE, |port| set(context, port, priority, change));
    Ok(Some(Value::I32(done)))
}

fn set_all(context: &mut Context<'_>, change: impl Fn(&mut QueueConfig)) -> Answer {
    let ports: Vec<Port> = context.core.node.config().ports.keys().copied().collect();
    for port in ports {
        set(context, port, None, &change);
    }
    Ok(Some(Value::I32(DONE)))
}

fn depth(packets: i32) -> impl Fn(&mut QueueConfig) {
    // Negative ones are large in bmv2, whose depths are unsigned.
    move |queue| queue.limit_packets = Some(u64::from(packets.cast_unsigned()))
}

/// 0: no limit.
fn rate(pps: i64) -> impl Fn(&mut QueueConfig) {
    move |queue| queue.rate_pps = Some(pps.cast_unsigned()).filter(|pps| *pps > 0)
}

pub(crate) fn priority_depth(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    set_one(context, args, Some(args.i32(2)?), depth(args.i32(3)?))
}

pub(crate) fn port_depth(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    set_one(context, args, None, depth(args.i32(2)?))
}

pub(crate) fn all_depths(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    set_all(context, depth(args.i32(1)?))
}

pub(crate) fn priority_rate(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    set_one(context, args, Some(args.i32(2)?), rate(args.i64(3)?))
}

pub(crate) fn port_rate(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    set_one(context, args, None, rate(args.i64(2)?))
}

pub(crate) fn all_rates(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    set_all(context, rate(args.i64(1)?))
}

pub(crate) fn time_elapsed(context: &mut Context<'_>, _: Args<'_>) -> Answer {
    let us = context.core.now_ns / 1_000;
    Ok(Some(Value::I64(us.cast_signed())))
}
