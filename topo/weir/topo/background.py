# SPDX-License-Identifier: Apache-2.0
"""Background traffic: many random flows from one host to another, drawn from a seed, with a given mean rate.

Flows arrive as a Poisson process and have heavy-tailed sizes (bounded Pareto), as measured on the Internet
(V. Paxson, S. Floyd, "Wide-Area Traffic: The Failure of Poisson Modeling", 1995; M. Crovella, A. Bestavros,
"Self-Similarity in World Wide Web Traffic", 1996). Each is a separate TCP connection, with slow start and
losses, or a sequence of UDP datagrams. Flows that have not ended when the time is over are cut off.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.topo.hosts import Hosts
from weir.topo.process import StartedTogether
from weir.topo.program import Program
from weir.topo.stop import StopToken

_READY_S = 15.0
_END_GRACE_S = 15.0
_POLL_S = 0.1
_BISECTIONS = 200


@dataclass(frozen=True)
class BackgroundSpec:
    """Flows from `source` to `destination`, which listens on `port`, for `duration_s` from `start_s` on.

    `rate_bps` is the mean offered payload rate of all flows together. `shape` is the exponent of the Pareto
    distribution of sizes, more than 1; `pacing_bps` limits each flow. `congestion_control` None means UDP:
    each flow sends datagrams of `datagram_bytes` at `pacing_bps`, which is then required.
    """

    id: str
    source: str
    destination: str
    port: int
    congestion_control: str | None
    start_s: float
    duration_s: float
    rate_bps: int
    mean_bytes: int
    largest_bytes: int
    shape: float
    seed: int
    pacing_bps: int | None = None
    datagram_bytes: int = 1452
    ip_version: int = 4


@dataclass(frozen=True)
class Arrival:
    """One flow: its start, relative to that of its background, and its payload."""

    at_s: float
    size_bytes: int


def flow_seed(experiment_seed: int, phase: str, name: str) -> int:
    """The seed of one background in one phase; adding others does not change it."""
    identity = json.dumps([experiment_seed, phase, name])
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big")


def arrivals(spec: BackgroundSpec) -> list[Arrival]:
    """The flows of a background in order of time, at least one; equal for equal seeds on every machine.

    All sizes are scaled by one factor so that their sum is rate × duration: with a heavy tail, the sums of
    two draws would otherwise differ by multiples.
    """
    # Of the random module, only random() is guaranteed to be the same in every version of Python.
    draw = random.Random(spec.seed).random
    per_second = spec.rate_bps / 8 / spec.mean_bytes
    smallest = pareto_minimum(spec.mean_bytes, spec.largest_bytes, spec.shape)
    moments = []
    at_s = -math.log(1 - draw()) / per_second
    while at_s < spec.duration_s:
        moments.append(at_s)
        at_s -= math.log(1 - draw()) / per_second
    moments = moments or [draw() * spec.duration_s]
    sizes = [pareto(draw(), smallest, spec.largest_bytes, spec.shape) for _ in moments]
    scale = spec.rate_bps / 8 * spec.duration_s / sum(sizes)
    return [
        Arrival(round(at_s, 6), max(1, round(size * scale)))
        for at_s, size in zip(moments, sizes, strict=True)
    ]


def pareto(u: float, smallest: float, largest: float, shape: float) -> float:
    """The quantile `u` of the Pareto distribution of `shape` between two bounds."""
    tail = (smallest / largest) ** shape
    return float(smallest * (1 - u * (1 - tail)) ** (-1 / shape))


def pareto_mean(smallest: float, largest: float, shape: float) -> float:
    """The mean of the bounded Pareto distribution; `shape` is not 1."""
    ratio = smallest / largest
    return float(smallest * shape / (shape - 1) * (1 - ratio ** (shape - 1)) / (1 - ratio**shape))


def pareto_minimum(mean: float, largest: float, shape: float) -> float:
    """The lower bound for which the distribution has this mean; `mean` is below `largest`."""
    low, high = 0.0, mean
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if pareto_mean(middle, largest, shape) < mean else (low, middle)
    return high


class BackgroundTraffic(StartedTogether):
    """The processes of backgrounds; a context manager that always ends them.

    After construction they listen; `go` starts the flows.
    """

    def __init__(self, hosts: Hosts, specs: Sequence[BackgroundSpec], folder: Path, stop: StopToken) -> None:
        """Start them. Raises ProcessError, TestbedError for a missing congestion control."""
        super().__init__()
        self._specs, self._folder, self._stop = specs, folder, stop
        self._schedules = {spec.id: arrivals(spec) for spec in specs}
        wanted: dict[str, set[str]] = {}
        for spec in specs:
            if spec.congestion_control is not None:
                wanted.setdefault(spec.source, set()).add(spec.congestion_control)
        hosts.check_congestion_controls(wanted)
        self._sinks: list[Program] = []
        self._sources: list[Program] = []
        try:
            for spec in specs:
                self._sinks.append(self._start(hosts, spec, "sink", spec.destination))
            for sink in self._sinks:
                sink.wait_line("ready", _READY_S, stop)
            for spec in specs:
                self._sources.append(self._start(hosts, spec, "source", spec.source))
            for source in self._sources:
                source.wait_line("ready", _READY_S, stop)
        except BaseException:
            self._end()
            raise

    def _start(self, hosts: Hosts, spec: BackgroundSpec, role: str, host: str) -> Program:
        name = _file_name(spec)
        config = self._folder / f"{name}-{role}.json"
        self._folder.mkdir(parents=True, exist_ok=True)
        config.write_text(
            json.dumps(
                {
                    "address": hosts.host(spec.destination).ip(spec.ip_version),
                    "port": spec.port,
                    "congestion_control": spec.congestion_control,
                    "datagram_bytes": spec.datagram_bytes,
                    "virtual_time": hosts.virtual_time,
                    "pacing_bytes_per_s": None if spec.pacing_bps is None else spec.pacing_bps // 8,
                    "start_s": spec.start_s,
                    "duration_s": spec.duration_s,
                    "flows": [[flow.at_s, flow.size_bytes] for flow in self._schedules[spec.id]],
                }
            )
        )
        process = hosts.start_python(
            host,
            f"background {role} of {spec.id}",
            "weir.topo.background_process",
            [role],
            self._folder / f"{name}-{role}.log",
            stdin=config,
        )
        self._started.append(process)
        return process

    def go(self) -> None:
        """Start the flows' clock."""
        for source in self._sources:
            source.send_signal(signal.SIGUSR1)

    def finish(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Wait for all flows; returns a record of each background for the manifest, and a line per problem.

        Raises Interrupted if the run is stopped, ProcessError if a source does not end.
        """
        records, problems = [], []
        for spec, source in zip(self._specs, self._sources, strict=True):
            left_s = spec.start_s + spec.duration_s + _END_GRACE_S
            while source.poll() is None and left_s > 0:
                self._stop.sleep(_POLL_S)
                left_s -= _POLL_S
            if source.poll() != 0:
                raise source.error("did not end in time" if source.poll() is None else "failed")
            found = json.loads(source.wait_line(r"^result (.*)", _READY_S).group(1))
            schedule = self._schedules[spec.id]
            text = json.dumps([[flow.at_s, flow.size_bytes] for flow in schedule])
            records.append(
                {
                    "id": spec.id,
                    "seed": spec.seed,
                    "schedule_sha256": hashlib.sha256(text.encode()).hexdigest(),
                    "flows": len(schedule),
                    "offered_bytes": sum(flow.size_bytes for flow in schedule),
                    "complete": found["complete"],
                    "cut": found["cut"],
                    "failed": len(found["errors"]),
                    "late_max_s": found["late_max_s"],
                }
            )
            problems += [f"background {spec.id}: {error}" for error in found["errors"][:3]]
        return records, problems


def _file_name(spec: BackgroundSpec) -> str:
    return "background-" + spec.id.replace("/", "-")
