# SPDX-License-Identifier: Apache-2.0
"""What a picture of an experiment shows: hosts beside the switch, what each sends, and by which way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weir.controlplane.attach import attachment_of
from weir.controlplane.config import (
    BackgroundConfig,
    ExperimentConfig,
    FlowConfig,
    base_round_trips,
    queue_bytes,
)
from weir.controlplane.config.values import PROTOCOLS
from weir.controlplane.phase_plan import FlowKey, PhasePlan
from weir.controlplane.plan import make_plan
from weir.controlplane.policer_plan import PolicerPlan
from weir.controlplane.units import format_rate, format_share, format_size, format_time
from weir.topo.traffic import PortAllocator

Sending = FlowConfig | BackgroundConfig


@dataclass(frozen=True)
class Host:
    """A host: what it sends, its link, and the words of the switch's queue towards it, if it has a rate."""

    name: str
    left: bool
    lines: tuple[str, ...]
    delay: str
    loss: str
    queue: tuple[str, ...]


@dataclass(frozen=True)
class Policer:
    """A policer by name, with what it is."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Way:
    """Some flows' common way from a host to a host, through a policer or none."""

    source: str
    destination: str
    policer: str | None
    background: bool
    """Whether only background goes there."""


@dataclass(frozen=True)
class Picture:
    """One phase of an experiment."""

    title: str
    hosts: tuple[Host, ...]
    policers: tuple[Policer, ...]
    ways: tuple[Way, ...]
    caption: str


def pictures(experiment: ExperimentConfig) -> list[Picture]:
    """A picture for each phase. Raises PlanError for an experiment that cannot be planned."""
    plan = make_plan(experiment, attachment_of(experiment))
    ports = PortAllocator()
    return [_picture(experiment, phase, ports) for phase in plan.phases]


def _picture(experiment: ExperimentConfig, phase: PhasePlan, ports: PortAllocator) -> Picture:
    ways: dict[tuple[str, str, str | None], bool] = {}
    sending: tuple[Sending, ...] = (*experiment.flows, *experiment.background)
    for flow in sending:
        # As a run hands them out: a policer may match ports.
        source_port, destination_port = ports.next()
        key = FlowKey(
            flow.source,
            flow.destination,
            PROTOCOLS[flow.protocol],
            source_port,
            destination_port,
            ip_version=flow.ip_version,
        )
        policer = phase.policer_of(key)
        way = (flow.source, flow.destination, policer.name if policer else None)
        ways[way] = ways.get(way, True) and isinstance(flow, BackgroundConfig)
    only = len(experiment.effective_phases()) == 1
    return Picture(
        title=experiment.name if only else f"{experiment.name}, phase {phase.name}",
        hosts=tuple(_host(experiment, name, sending) for name in experiment.hosts),
        policers=tuple(_policer(policer) for policer in phase.policers),
        ways=tuple(Way(*way, background) for way, background in ways.items()),
        caption=_round_trips(experiment),
    )


def _host(experiment: ExperimentConfig, name: str, sending: Sequence[Sending]) -> Host:
    host = experiment.hosts[name]
    mine = [flow for flow in sending if flow.source == name]
    theirs = [flow for flow in sending if flow.destination == name]
    delay = format_time(host.delay) if host.delay else ""
    if host.jitter:
        delay += f" … {format_time(host.delay + host.jitter)}"
    return Host(
        name=name,
        left=len(mine) >= len(theirs),
        lines=counted(map(words_of, mine)),
        delay=delay,
        loss=f"{format_share(host.loss)} lost" if host.loss else "",
        queue=_queue(experiment, name),
    )


def _queue(experiment: ExperimentConfig, name: str) -> tuple[str, ...]:
    host = experiment.hosts[name]
    if host.rate is None:
        return ()
    size = format_size(queue_bytes(experiment, name))
    depth = size if host.queue is None or host.queue.kind == "size" else f"{host.queue} = {size}"
    packets = "" if host.queue_packets is None else f", {host.queue_packets} packets"
    burst = () if host.burst is None else (f"burst {host.burst}",)
    return (format_rate(host.rate), *burst, f"queue {depth}{packets}")


def words_of(flow: Sending) -> str:
    """What a flow is, in a few words; two flows with the same words are shown as one."""
    if isinstance(flow, BackgroundConfig):
        pacing = "" if flow.pacing is None else f", each {format_rate(flow.pacing)}"
        kind = flow.congestion_control if flow.protocol == "tcp" else "udp"
        return f"background, {kind}, {format_rate(flow.rate)}{pacing}"
    parts = [flow.congestion_control if flow.protocol == "tcp" else "udp"]
    if flow.rate is not None:
        parts.append(format_rate(flow.rate))
    if flow.pacing is not None:
        parts.append(f"paced to {format_rate(flow.pacing)}")
    if flow.writes is not None:
        parts.append(f"{format_size(flow.writes.size)} every {format_time(flow.writes.every)}")
    if flow.replay is not None:
        parts.append("replay")
    return ", ".join(parts)


def counted(words: Iterable[str]) -> tuple[str, ...]:
    """Each of these once, with its number where it is more than one."""
    numbers: dict[str, int] = {}
    for word in words:
        numbers[word] = numbers.get(word, 0) + 1
    return tuple(word if number == 1 else f"{number} × {word}" for word, number in numbers.items())


def _policer(policer: PolicerPlan) -> Policer:
    config = policer.config
    lines = [format_rate(config.rate), f"burst {config.burst}"]
    if config.mode == "per_flow_hashed":
        lines.append(f"{config.hash_cells} buckets, by hash")
    if config.mode == "per_flow_learned":
        lines.append(f"a bucket for each of {config.flows} flows")
    return Policer(config.name, tuple(lines))


def _round_trips(experiment: ExperimentConfig) -> str:
    said = []
    for name in experiment.hosts:
        found = base_round_trips(experiment, name)
        if found:
            times = " and ".join(format_time(rtt_ns) for rtt_ns in sorted(found, reverse=True))
            said.append(f"{times} to {name}")
    return f"round-trip times with empty queues: {'; '.join(said)}"
