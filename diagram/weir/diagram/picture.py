# SPDX-License-Identifier: Apache-2.0
"""The contents of an experiment's picture: hosts with their flows and links, policers, and routes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weir.controlplane.attach import attachment_of
from weir.controlplane.config import (
    BackgroundConfig,
    ExperimentConfig,
    FlowConfig,
    HostConfig,
    base_round_trips,
    queue_bytes,
)
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.plan import make_plan
from weir.controlplane.policer_plan import PolicerPlan
from weir.controlplane.targets.bmv2_queues import DEFAULT_PACKETS
from weir.controlplane.units import format_rate, format_share, format_size, format_time
from weir.rundir.plural import plural
from weir.runner.traffic import flow_key
from weir.topo.traffic import PortAllocator

Traffic = FlowConfig | BackgroundConfig


@dataclass(frozen=True)
class Host:
    """A host: text for its flows and link, and for the switch's queue to it, if its rate is limited."""

    name: str
    left: bool
    lines: tuple[str, ...]
    delay: str
    loss: str
    queue: tuple[str, ...]


@dataclass(frozen=True)
class Policer:
    """A policer: its name and a description."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Route:
    """The common path of flows from one host to another, through at most one policer."""

    source: str
    destination: str
    policer: str | None
    background: bool
    """Whether it carries only background traffic."""


@dataclass(frozen=True)
class Picture:
    """The picture of one phase of an experiment."""

    title: str
    hosts: tuple[Host, ...]
    policers: tuple[Policer, ...]
    routes: tuple[Route, ...]
    caption: str


def pictures(experiment: ExperimentConfig) -> list[Picture]:
    """One picture per phase. Raises PlanError for an experiment that cannot be planned."""
    wired = experiment.switch.target == "bmv2"
    plan = make_plan(experiment, attachment_of(experiment), wired=wired)
    ports = PortAllocator()
    return [_picture(experiment, phase, ports) for phase in plan.phases]


def _picture(experiment: ExperimentConfig, phase: PhasePlan, ports: PortAllocator) -> Picture:
    routes: dict[tuple[str, str, str | None], bool] = {}
    traffic: tuple[Traffic, ...] = (*experiment.flows, *experiment.background)
    for flow in traffic:
        # The same ports as in a run, because a policer may match them.
        policer = phase.policer_of(flow_key(flow, *ports.next()))
        route = (flow.source, flow.destination, policer.name if policer else None)
        routes[route] = routes.get(route, True) and isinstance(flow, BackgroundConfig)
    single_phase = len(experiment.effective_phases()) == 1
    return Picture(
        title=experiment.name if single_phase else f"{experiment.name}, phase {phase.name}",
        hosts=tuple(_host(experiment, name, traffic) for name in experiment.hosts),
        policers=tuple(_policer(policer) for policer in phase.policers),
        routes=tuple(Route(*route, background) for route, background in routes.items()),
        caption=_round_trips(experiment),
    )


def _host(experiment: ExperimentConfig, name: str, traffic: Sequence[Traffic]) -> Host:
    host = experiment.hosts[name]
    outgoing = [flow for flow in traffic if flow.source == name]
    incoming = [flow for flow in traffic if flow.destination == name]
    delay = _times(host.delay, host.delay + host.jitter) if host.delay or host.jitter else ""
    return Host(
        name=name,
        left=len(outgoing) >= len(incoming),
        lines=(*counted(map(description_of, outgoing)), *_receive_queue(host)),
        delay=delay,
        loss=f"{format_share(host.loss)} lost" if host.loss else "",
        queue=_queue(experiment, name),
    )


def _times(least_ns: int, most_ns: int) -> str:
    """A time, or a range of times with the unit once where both have the same."""
    least, most = format_time(least_ns), format_time(most_ns)
    if least == most:
        return least
    number, unit = least.split()
    return f"{number}–{most}" if most.endswith(f" {unit}") or not least_ns else f"{least} – {most}"


def _receive_queue(host: HostConfig) -> tuple[str, ...]:
    queue = host.receive_queue
    return () if queue is None else (f"receives {format_rate(queue.rate)} through {queue.discipline}",)


def _queue(experiment: ExperimentConfig, name: str) -> tuple[str, ...]:
    host = experiment.hosts[name]
    if host.rate is None:
        return ()
    if experiment.switch.target == "bmv2":
        return (format_rate(host.rate), f"queue {host.queue_packets or DEFAULT_PACKETS} packets")
    size = format_size(queue_bytes(experiment, name))
    depth = size if host.queue is None or host.queue.kind == "size" else f"{host.queue} = {size}"
    packets = "" if host.queue_packets is None else f", {host.queue_packets} packets"
    burst = () if host.burst is None else (f"burst {host.burst}",)
    return (format_rate(host.rate), *burst, f"queue {depth}{packets}")


def description_of(flow: Traffic) -> str:
    """A short description of a flow; flows with the same description share one line."""
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


def counted(texts: Iterable[str]) -> tuple[str, ...]:
    """The distinct texts, prefixed with their count if it is more than one."""
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    return tuple(text if count == 1 else f"{count} × {text}" for text, count in counts.items())


def _policer(policer: PolicerPlan) -> Policer:
    config = policer.config
    lines = [format_rate(config.rate), f"burst {config.burst}"]
    if config.mode == "per_flow_hashed":
        lines.append(f"{plural(config.hash_cells, 'bucket')}, by hash")
    if config.mode == "per_flow_learned":
        lines.append(f"a bucket for each of {config.flows} flows")
    return Policer(config.name, tuple(lines))


def _round_trips(experiment: ExperimentConfig) -> str:
    parts = []
    for name in experiment.hosts:
        found = base_round_trips(experiment, name)
        if found:
            times = " and ".join(format_time(rtt_ns) for rtt_ns in sorted(found, reverse=True))
            parts.append(f"{times} to {name}")
    return f"round-trip times with empty queues: {'; '.join(parts)}"
