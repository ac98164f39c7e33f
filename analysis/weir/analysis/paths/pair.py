# SPDX-License-Identifier: Apache-2.0
"""A pair of flows with its truth and the properties of its path: simulated, or of a finished run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.evaluate_runs import RunPair, run_pairs
from weir.analysis.reports import join_run
from weir.analysis.run_data import Join
from weir.analysis.synthetic import (
    VALIDATION_SEED,
    delayed,
    draw_factors,
    path_truth,
    relative_delays,
    simulate_path,
)
from weir.analysis.tables import Floats
from weir.rundir.manifest import Host

Factor = str | float
DELAY_SEED = 2
"""Beside the seed of a pair, so that its delays are not drawn like its flows."""
THRESHOLDS, VALIDATION, RUNS = "thresholds", "validation", "runs"


@dataclass(frozen=True)
class PathPair:
    """Two flows as their senders see them without jitter, and what each packet's delay is per mean delay.

    `part` is `thresholds` or `validation` for simulated pairs: by the first, detectors' thresholds may be
    chosen. `delays` has one value per packet by time.
    """

    name: str
    source: str
    part: str
    truth: str
    factors: Mapping[str, Factor]
    flows: tuple[FlowEvents, FlowEvents]
    delays: tuple[Floats, Floats]

    def at(self, jitter_s: float) -> tuple[FlowEvents, FlowEvents]:
        """The flows with jitter of this mean before the policer."""
        if jitter_s <= 0:
            return self.flows
        one, other = (delayed(flow, jitter_s, its) for flow, its in zip(self.flows, self.delays, strict=True))
        return one, other


class Source(Protocol):
    """Where pairs come from; it can be sent to another process."""

    def pairs(self) -> Iterator[PathPair]:
        """Make or read the pairs."""
        ...


@dataclass(frozen=True)
class Simulated:
    """The simulated pair of a seed."""

    seed: int
    seconds: float

    def pairs(self) -> Iterator[PathPair]:
        """Simulate it; one pair."""
        factors, truth = draw_factors(self.seed), path_truth(self.seed)
        flows = simulate_path(factors, truth, self.seed, self.seconds)
        part = VALIDATION if self.seed >= VALIDATION_SEED else THRESHOLDS
        yield _pair(f"path-{self.seed:05d}", "simulation", part, truth, factors.to_json(), flows, self.seed)


@dataclass(frozen=True)
class OfRun:
    """The pairs of a finished run; `joiner` replaces `join_run`."""

    directory: Path
    joiner: Join = join_run

    def pairs(self) -> Iterator[PathPair]:
        """Read the senders' captures. Raises RunFileError without them, and `weir_core.CaptureError`."""
        for number, found in enumerate(run_pairs(self.directory, self.joiner)):
            if isinstance(found.events, str):
                continue
            name = f"{self.directory.name}-{number}"
            flows = found.events.inferred
            yield _pair(name, found.manifest.name, RUNS, found.pair.truth, _factors(found, flows), flows, 0)


def _pair(
    name: str,
    source: str,
    part: str,
    truth: str,
    factors: Mapping[str, Factor],
    flows: tuple[FlowEvents, FlowEvents],
    seed: int,
) -> PathPair:
    rng = np.random.default_rng([seed, DELAY_SEED, *name.encode()])
    # Rounded as in files, so that pairs from files are judged alike.
    one, other = (
        relative_delays(np.sort(flow.sent_ns), rng).astype(np.float32).astype(float) for flow in flows
    )
    return PathPair(name, source, part, truth, {**factors, **_measured(flows)}, flows, (one, other))


def _measured(flows: Sequence[FlowEvents]) -> dict[str, Factor]:
    """What the flow that sends less sends, in Mbit/s of payload, and how few packets either lost."""
    rates = []
    for flow in flows:
        lasts_s = float(np.ptp(flow.sent_ns)) / 1e9 if len(flow.sent_ns) else 0.0
        rates.append(float(flow.size_bytes.sum()) * 8e-6 / lasts_s if lasts_s else 0.0)
    return {"sent_mbps": min(rates), "lost_packets": float(min(int(flow.lost.sum()) for flow in flows))}


def _factors(found: RunPair, flows: Sequence[FlowEvents]) -> dict[str, Factor]:
    """The properties that the manifest and the captures hold; unknown ones are left out."""
    its = [flow for flow in found.phase.flows if flow.id in found.pair.flows]
    controls = sorted({(flow.cc or "").upper() for flow in its})
    factors: dict[str, Factor] = {"control": controls[0] if len(controls) == 1 else "both"}
    rtts = [flow.min_rtt_ns / 1e6 for flow in flows]
    factors |= {"rtt_ms": min(rtts), "rtt_ratio": max(rtts) / min(rtts)}
    factors["start_apart_s"] = float(np.ptp([flow.start_s for flow in its]))
    factors["other_flows"] = float(
        len(found.phase.flows) - len(its) + sum(its.flows for its in found.phase.background)
    )
    policers = {p.name: p for p in found.phase.policers if p.name in {flow.policer for flow in its}}
    hosts = {host.name: host for host in found.manifest.hosts}
    links: dict[str, Host] = {f.dst_host: hosts[f.dst_host] for f in its if f.dst_host in hosts}
    rates = [policer.applied_rate_bps for policer in policers.values()]
    if not rates:
        rates = [link.rate_bps for link in links.values() if link.rate_bps is not None]
    if rates:
        factors["rate_mbps"] = sum(rates) / 1e6
    if policers:
        factors["burst_ms"] = max(p.applied_burst_bytes * 8e3 / p.applied_rate_bps for p in policers.values())
    factors["queue"] = (
        "yes" if any(link.queue_bytes or link.queue_packets for link in links.values()) else "no"
    )
    factors["loss_percent"] = max((100 * link.loss for link in links.values()), default=0.0)
    return factors
