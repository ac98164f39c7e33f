# SPDX-License-Identifier: Apache-2.0
"""How long a campaign will take: the traffic of its runs, and what finished runs needed beside it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from weir.campaign.load import PlannedRun

ASSUMED_OVERHEAD_S = 15.0
"""Set-up and analysis of a run before any has shown what it takes."""


class Estimate:
    """Learns from finished runs."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._overheads_s: list[float] = []

    def learn(self, run: PlannedRun, wall_s: float) -> None:
        """A run took `wall_s` seconds from its first process to its report."""
        self._overheads_s.append(wall_s - run.traffic_s)

    @property
    def measured(self) -> bool:
        """Whether finished runs have shown what is needed beside traffic."""
        return bool(self._overheads_s)

    @property
    def overhead_s(self) -> float:
        """Seconds that a run needs beside its traffic."""
        return statistics.median(self._overheads_s) if self._overheads_s else ASSUMED_OVERHEAD_S

    def seconds(self, runs: Sequence[PlannedRun], running_s: Iterable[float], jobs: int) -> float:
        """Seconds until these runs are done, when those at work began `running_s` seconds ago.

        `runs` includes the ones at work.
        """
        whole = sum(run.traffic_s + self.overhead_s for run in runs)
        longest = max((run.traffic_s + self.overhead_s for run in runs), default=0.0)
        lanes = max(1, min(jobs, len(runs)))
        return max(0.0, min(longest, whole), (whole - sum(running_s)) / lanes) if runs else 0.0


def words(seconds: float) -> str:
    """A length of time as people say it: 45 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
