# SPDX-License-Identifier: Apache-2.0
"""Estimates a campaign's remaining time from its runs' traffic and the overhead of finished runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from weir.campaign.load import PlannedRun

ASSUMED_OVERHEAD_S = 15.0
"""Set-up and analysis of a run, until a finished run has been measured."""


class Estimate:
    """The overhead of a run, learnt from finished runs, and the time left."""

    def __init__(self) -> None:
        """Assume `ASSUMED_OVERHEAD_S` until a run has finished."""
        self._overheads_s: list[float] = []

    def learn(self, run: PlannedRun, wall_s: float) -> None:
        """Record that a run took `wall_s` seconds from its first process to its report."""
        self._overheads_s.append(wall_s - run.traffic_s)

    @property
    def measured(self) -> bool:
        """Whether the overhead is measured, not assumed."""
        return bool(self._overheads_s)

    @property
    def overhead_s(self) -> float:
        """Seconds of a run in addition to its traffic; the median of finished runs."""
        return statistics.median(self._overheads_s) if self._overheads_s else ASSUMED_OVERHEAD_S

    def seconds(self, runs: Sequence[PlannedRun], running_s: Iterable[float], jobs: int) -> float:
        """Seconds until these runs are done. Those that are running began `running_s` seconds ago.

        `runs` includes the running ones.
        """
        whole = sum(run.traffic_s + self.overhead_s for run in runs)
        longest = max((run.traffic_s + self.overhead_s for run in runs), default=0.0)
        lanes = max(1, min(jobs, len(runs)))
        return max(0.0, min(longest, whole), (whole - sum(running_s)) / lanes) if runs else 0.0


def duration_text(seconds: float) -> str:
    """A duration as text, rounded for people: 45 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
