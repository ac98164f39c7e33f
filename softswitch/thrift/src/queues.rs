// SPDX-License-Identifier: Apache-2.0
//! Calls of the service `simple_switch` on queues and clocks.
//!
//! bmv2 has one queue for each priority of a port, limited in packets and packets per second. A rate or depth for a whole
//! port is set on each of its queues.

use weir_dataplane::{Port, PortConfig, QUEUES, QueueConfig};

use crate::args::Args;
use crate::dispatch::Answer;
use crate::refusal::Refusal;
use crate::state::Context;
use crate::wire::Value;

/// What bmv2 returns when a call is done.
const DONE: i32 = 0;

fn port(context: &Context<'_>, args: Args<'_>) -> Result<(Port, PortConfig), Refusal> {
    let number = args.i32(1)?;
    let port = u32::try_from(number).ok();
    let found = port.and_then(|port| Some((port, context.core.node.link(port)?)));
    found.ok_or_else(|| {
        let ports = context.core.node.config().ports.keys();
        let ports: Vec<String> = ports.map(ToString::to_string).collect();
        Refusal::unsupported(format!(
            "there is no port {number}; the ports are {}",
            if ports.is_empty() {
                "none".to_owned()
            } else {
                ports.join(", ")
            }
        ))
    })
}

fn set(
    context: &mut Context<'_>,
    (port, mut config): (Port, PortConfig),
    priority: Option<i32>,
    change: impl Fn(&mut QueueConfig),
) -> Result<(), Refusal> {
    match priority {
        None => config.queues.iter_mut().for_each(change),
        Some(given) => {
            let queue = usize::try_from(given).ok();
            let queue = queue.and_then(|queue| config.queues.get_mut(queue));
            change(queue.ok_or_else(|| {
                let text = format!(
                    "there is no queue {given}; priorities are 0 to {}",
                    QUEUES - 1
                );
                Refusal::unsupported(text)
            })?);
        }
    }
    let now_ns = context.core.now_ns;
    let set = context.core.node.set_link(port, config, now_ns);
    set.map_err(|failure| Refusal::unsupported(failure.to_string()))
}

fn set_all(context: &mut Context<'_>, change: impl Fn(&mut QueueConfig)) -> Answer {
    for port in context.core.node.config().ports.clone() {
        set(context, port, None, &change)?;
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
    let port = port(context, args)?;
    set(context, port, Some(args.i32(2)?), depth(args.i32(3)?))?;
    Ok(Some(Value::I32(DONE)))
}

pub(crate) fn port_depth(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let port = port(context, args)?;
    set(context, port, None, depth(args.i32(2)?))?;
    Ok(Some(Value::I32(DONE)))
}

pub(crate) fn all_depths(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    set_all(context, depth(args.i32(1)?))
}

pub(crate) fn priority_rate(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let port = port(context, args)?;
    set(context, port, Some(args.i32(2)?), rate(args.i64(3)?))?;
    Ok(Some(Value::I32(DONE)))
}

pub(crate) fn port_rate(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    let port = port(context, args)?;
    set(context, port, None, rate(args.i64(2)?))?;
    Ok(Some(Value::I32(DONE)))
}

pub(crate) fn all_rates(context: &mut Context<'_>, args: Args<'_>) -> Answer {
    set_all(context, rate(args.i64(1)?))
}

pub(crate) fn time_elapsed(context: &mut Context<'_>, _: Args<'_>) -> Answer {
    let us = context.core.now_ns / 1_000;
    Ok(Some(Value::I64(us.cast_signed())))
}
