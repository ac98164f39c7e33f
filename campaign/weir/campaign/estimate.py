# SPDX-License-Identifier: Apache-2.0
"""Estimates a campaign's remaining wall time from its runs' traffic and the durations of finished runs.

A run in real time takes as long as its traffic, and an overhead. A run in virtual time takes as long as the
processor needs for its packets, whatever its duration.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from weir.campaign.load import PlannedRun
from weir.controlplane.config import ExperimentConfig, FlowConfig, PhaseConfig

ASSUMED_OVERHEAD_S = 15.0
"""Set-up and analysis of a run, until a finished run has been measured."""
ASSUMED_VIRTUAL_OVERHEAD_S = 8.0
"""Boot, set-up and analysis of a run in virtual time, until a finished run has been measured."""
ASSUMED_PACKET_S = 15e-6
"""Wall time of a data packet with its acknowledgement, through both hosts and the switch, likewise."""
UNLIMITED_BPS = 100_000_000
"""The rate of a flow that nothing limits: it is as fast as its window and RTT allow, which is not known."""
_PACKET_BITS = 8 * 1514
_NS = 10**9


class Estimate:
    """The cost of a run, learnt from finished runs, and the time left."""

    def __init__(self) -> None:
        """Assume the costs above until a run has finished."""
        self._overheads_s: list[float] = []
        self._ratios: list[float] = []

    def learn(self, run: PlannedRun, wall_s: float) -> None:
        """Record that a run took `wall_s` seconds from its first process to its report."""
        if run.is_virtual:
            self._ratios.append(wall_s / assumed_virtual_s(run))
        else:
            self._overheads_s.append(wall_s - run.traffic_s)

    @property
    def measured(self) -> bool:
        """Whether the cost is measured, not assumed."""
        return bool(self._overheads_s or self._ratios)

    @property
    def overhead_s(self) -> float:
        """Seconds of a run in real time in addition to its traffic; the median of finished runs."""
        return statistics.median(self._overheads_s) if self._overheads_s else ASSUMED_OVERHEAD_S

    @property
    def ratio(self) -> float:
        """Wall time of runs in virtual time ÷ what was assumed; the median of finished runs, 1 before."""
        return statistics.median(self._ratios) if self._ratios else 1.0

    def of_run(self, run: PlannedRun) -> float:
        """The wall time of a run in seconds."""
        return self.ratio * assumed_virtual_s(run) if run.is_virtual else run.traffic_s + self.overhead_s

    def basis(self, runs: Sequence[PlannedRun]) -> str:
        """The assumptions behind the estimate of these runs, as text."""
        if any(run.is_virtual for run in runs):
            assumed = (
                f"{ASSUMED_VIRTUAL_OVERHEAD_S:g} s of wall time per run and {ASSUMED_PACKET_S * 1e6:g} µs "
                "per packet that its rates let through"
            )
            if self._ratios:
                return f"{self.ratio:.2g} × ({assumed}), measured on finished runs"
            return f"{assumed}, assumed, until a run has finished"
        how = "measured on finished runs" if self.measured else "assumed, until a run has finished"
        return f"{self.overhead_s:.0f} s per run in addition to its traffic, {how}"

    def seconds(self, runs: Sequence[PlannedRun], running_s: Mapping[str, float], jobs: int) -> float:
        """Seconds until these runs are done; `running_s` has how long those under way have run, by key.

        `runs` includes the running ones.
        """
        left = [max(0.0, self.of_run(run) - running_s.get(run.key, 0.0)) for run in runs]
        lanes = max(1, min(jobs, len(runs)))
        return max(max(left, default=0.0), sum(left) / lanes)


def assumed_virtual_s(run: PlannedRun) -> float:
    """The wall time of a run in virtual time, until one has finished."""
    return ASSUMED_VIRTUAL_OVERHEAD_S + ASSUMED_PACKET_S * expected_packets(run.experiment)


def expected_packets(experiment: ExperimentConfig) -> float:
    """Full-sized data packets of all phases that flows offer and links and policers let through, about."""
    return sum(_bits(experiment, phase) for phase in experiment.effective_phases()) / _PACKET_BITS


def _bits(experiment: ExperimentConfig, phase: PhaseConfig) -> float:
    """Per destination: no more than its flows offer, or its link and all policers of the phase pass."""
    seconds = experiment.phase_duration / _NS
    policed_bps = sum(policer.rate for policer in phase.policers) or math.inf
    total = 0.0
    for name, host in experiment.hosts.items():
        offered = sum(
            (_rate(flow) * flow.duration / _NS for flow in experiment.flows if flow.destination == name), 0.0
        )
        offered += sum(
            flow.rate * flow.duration / _NS for flow in experiment.background if flow.destination == name
        )
        passed_bps = min(host.rate or math.inf, policed_bps)
        most = (UNLIMITED_BPS if math.isinf(passed_bps) else passed_bps) * seconds
        total += most if math.isinf(offered) else min(offered, passed_bps * seconds)
    return total


def _rate(flow: FlowConfig) -> float:
    """The application's limit in bit/s; infinite without one."""
    written = flow.writes.size * 8 * _NS / flow.writes.every if flow.writes and flow.writes.every else None
    return min((rate for rate in (flow.rate, flow.pacing, written) if rate is not None), default=math.inf)


def duration_text(seconds: float) -> str:
    """A duration as text, rounded for people: 45 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
