# SPDX-License-Identifier: Apache-2.0
"""The switch's egress queues towards hosts: their size in bytes, and the checks of their keys."""

from __future__ import annotations

from collections.abc import Iterator

from weir.controlplane.config.checks_policer import check_burst
from weir.controlplane.config.model import BackgroundConfig, ExperimentConfig, FlowConfig
from weir.controlplane.config.problems import Location, Problem
from weir.controlplane.config.values import FRAME_BYTES
from weir.controlplane.units import LARGEST, format_time

DEFAULT_LIMIT_BYTES = 256_000
"""Default size of a queue with a rate; equal to the default of weir-switch's options."""


def queue_bytes(experiment: ExperimentConfig, name: str) -> int:
    """Size of the queue towards a host with a rate; raises UnitError where `check_queue` finds a problem."""
    host = experiment.hosts[name]
    if host.queue is None or host.rate is None:
        return DEFAULT_LIMIT_BYTES
    burst_bytes = None if host.burst is None else host.burst.bytes_at(host.rate)
    round_trips = base_round_trips(experiment, name)
    rtt_ns = next(iter(round_trips)) if len(round_trips) == 1 else None
    return host.queue.bytes_at(host.rate, burst_bytes, rtt_ns)


def base_round_trips(experiment: ExperimentConfig, name: str) -> dict[int, str]:
    """Round-trip times (ns, with empty queues) of the traffic to a host, each with one of its senders."""
    found: dict[int, str] = {}
    sending: tuple[FlowConfig | BackgroundConfig, ...] = (*experiment.flows, *experiment.background)
    for flow in sending:
        if flow.destination == name and flow.source in experiment.hosts:
            rtt_ns = experiment.hosts[flow.source].delay + experiment.hosts[name].delay
            found.setdefault(rtt_ns, flow.source)
    return found


def check_queue(experiment: ExperimentConfig, name: str) -> Iterator[Problem]:
    """Every problem of the queue towards one host."""
    host = experiment.hosts[name]
    location: Location = ("hosts", name)
    if host.rate is None:
        for key in ("burst", "queue", "queue_packets"):
            if getattr(host, key) is not None:
                yield Problem(
                    (*location, key),
                    f"has no effect without a rate; valid: give {name} a rate, or leave {key} out",
                    depends_on=((*location, "rate"),),
                )
        return
    if host.burst is not None:
        yield from check_burst(host.burst, host.rate, location)
    if host.queue is None:
        return
    queue_location: Location = (*location, "queue")
    if host.queue.kind == "bursts" and host.burst is None:
        yield Problem(
            queue_location,
            f"{host.queue} without a burst; valid: give {name} a burst, or a size or a time",
            depends_on=((*location, "burst"),),
        )
        return
    if host.queue.kind == "bdps":
        senders = base_round_trips(experiment, name)
        shown = ", ".join(f"{format_time(rtt)} from {source}" for rtt, source in sorted(senders.items()))
        if not any(senders):
            reason = "the round-trip time is 0" if senders else f"nobody sends to {name}"
        else:
            reason = f"round-trip times differ: {shown}" if len(senders) > 1 else ""
        if reason:
            yield Problem(
                queue_location,
                f"the BDP is not known, {reason}; valid: a size, a time, or delays that give one",
                depends_on=(("hosts",), ("flows",), ("background",)),
            )
            return
    size = queue_bytes(experiment, name)
    if size < FRAME_BYTES:
        yield Problem(
            queue_location,
            f"{size} B do not hold one frame; valid: at least {FRAME_BYTES} B (one frame)",
            depends_on=((*location, "rate"),),
        )
    elif size > LARGEST:
        yield Problem(
            queue_location,
            f"{size} B are too large; valid: at most {LARGEST} B",
            depends_on=((*location, "rate"), (*location, "burst"), ("hosts",)),
        )
