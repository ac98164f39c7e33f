# SPDX-License-Identifier: Apache-2.0
"""The traffic of one phase: the experiment's flows and its background traffic."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weir.controlplane.config import BackgroundConfig, ExperimentConfig, FlowConfig, queue_bytes
from weir.controlplane.config.values import PROTOCOLS, max_datagram_bytes
from weir.controlplane.phase_plan import FlowKey
from weir.runner.replays import script_of
from weir.topo.background import BackgroundSpec, BackgroundTraffic, flow_seed
from weir.topo.hosts import Hosts
from weir.topo.played import PlayedTraffic
from weir.topo.stop import StopToken
from weir.topo.traffic import FlowSpec, PortAllocator, TrafficResult, run_flows

_NS = 1_000_000_000
_LATE_MESSAGES = 1e-3
_MOST_RETRANSMISSIONS = 10
"""Of one message; they take 512 s. Over a link that loses more than half, hardly any flow ends in time."""
_TIMEOUT_S = 0.5
"""TCP's first retransmission timeout: 200 ms in Linux, and up to 300 ms of round trips."""


def flow_specs(
    experiment: ExperimentConfig, phase: str, ports: PortAllocator, run_dir: Path
) -> list[tuple[FlowConfig, FlowSpec]]:
    """The flows of one phase, each with different ports."""
    specs = []
    for flow in experiment.flows:
        source_port, destination_port = ports.next()
        spec = FlowSpec(
            id=f"{phase}/{flow.name}",
            source=flow.source,
            destination=flow.destination,
            ip_version=flow.ip_version,
            congestion_control=flow.congestion_control if flow.protocol == "tcp" else None,
            source_port=source_port,
            destination_port=destination_port,
            duration_s=flow.duration // _NS,
            start_s=flow.start / _NS,
            rate_bps=flow.rate,
            pacing_bps=flow.pacing,
            block_bytes=flow.datagram_bytes if flow.protocol == "udp" else None,
            script=script_of(flow, run_dir),
            message_s=message_s(experiment, flow.source, flow.destination),
        )
        specs.append((flow, spec))
    return specs


def flow_key(flow: FlowConfig | BackgroundConfig, source_port: int, destination_port: int) -> FlowKey:
    """A flow of an experiment as the switch tells it from others."""
    return FlowKey(
        flow.source,
        flow.destination,
        PROTOCOLS[flow.protocol],
        source_port,
        destination_port,
        ip_version=flow.ip_version,
    )


def message_s(experiment: ExperimentConfig, source: str, destination: str) -> float:
    """How long a message from one host to another may take beyond the delay of their links.

    That is its longest wait in a queue, and after random loss p all retransmissions but those of one message
    in a thousand: k in a row are lost with probability pᵏ, and TCP sends again after 2ᵏ − 1 timeouts. No
    message is waited for beyond its tenth retransmission.
    """
    host = experiment.hosts[destination]
    queueing_s = 8 * queue_bytes(experiment, destination) / host.rate if host.rate else 0.0
    arrives = math.prod(1 - _worst_loss(experiment, name) for name in (source, destination))
    if arrives in (0, 1):  # a link that loses everything is not waited for
        return queueing_s
    retransmissions = _MOST_RETRANSMISSIONS
    if (1 - arrives) ** retransmissions < _LATE_MESSAGES:
        retransmissions = math.ceil(math.log(_LATE_MESSAGES) / math.log(1 - arrives))
    return queueing_s + _TIMEOUT_S * ((1 << retransmissions) - 1)


def _worst_loss(experiment: ExperimentConfig, name: str) -> float:
    changes = [change for phase in experiment.effective_phases() for change in phase.changes]
    of_link = [change.loss or 0 for change in changes if change.host == name]
    return max([experiment.hosts[name].loss, *of_link]) / _NS


def background_specs(experiment: ExperimentConfig, phase: str, ports: PortAllocator) -> list[BackgroundSpec]:
    """The backgrounds of one phase, each with a different port and seed."""
    return [
        BackgroundSpec(
            id=f"{phase}/{background.name}",
            source=background.source,
            destination=background.destination,
            ip_version=background.ip_version,
            port=ports.next()[1],
            congestion_control=background.congestion_control if background.protocol == "tcp" else None,
            datagram_bytes=max_datagram_bytes(background.ip_version),
            start_s=background.start / _NS,
            duration_s=background.duration / _NS,
            rate_bps=background.rate,
            mean_bytes=background.mean_size,
            largest_bytes=background.largest_size,
            shape=background.shape,
            seed=flow_seed(experiment.seed, phase, background.name),
            pacing_bps=background.pacing,
        )
        for background in experiment.background
    ]


class PhaseTraffic:
    """All traffic of one phase. `background` and `problems` are set after the call."""

    def __init__(
        self,
        hosts: Hosts,
        flows: Sequence[FlowSpec],
        backgrounds: Sequence[BackgroundSpec],
        logs: Path,
        stop: StopToken,
    ) -> None:
        """Store the parameters; nothing is sent yet."""
        self._hosts, self._flows, self._backgrounds = hosts, flows, backgrounds
        self._logs, self._stop = logs, stop
        self.background: list[dict[str, Any]] = []
        """A record per background, for the manifest."""
        self.problems: list[str] = []
        """A line per background flow that failed."""

    def __call__(self, *, on_start: Callable[[], None]) -> TrafficResult:
        """Send all traffic and wait until it has ended.

        Raises what `run_flows`, `PlayedTraffic` and `BackgroundTraffic` raise.
        """
        scripted = [flow for flow in self._flows if flow.script is not None]
        plain = [flow for flow in self._flows if flow.script is None]
        with (
            BackgroundTraffic(self._hosts, self._backgrounds, self._logs, self._stop) as background,
            PlayedTraffic(self._hosts, scripted, self._logs, self._stop) as played,
        ):

            def begin() -> None:
                on_start()
                background.go()
                played.go()

            result = run_flows(self._hosts, plain, self._logs, self._stop, on_start=begin)
            by_id = {found.flow.id: found for found in (*result.flows, *played.finish())}
            self.background, self.problems = background.finish()
        flows = tuple(by_id[flow.id] for flow in self._flows)
        return replace(result, end_ns=time.time_ns(), flows=flows)
