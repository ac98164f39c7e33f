# SPDX-License-Identifier: Apache-2.0
"""Throughput per RTT of one BBR and one CUBIC flow in the middle of a run: shows how their windows evolve."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.parquet as pq

from weir.analysis.figures import Figure, line_figure
from weir.analysis.series import PER_RTT
from weir.campaign.outcome import Outcome
from weir.campaign.studies.runs import label
from weir.rundir.directory import RunDirectory

SAME_BACKGROUND = {"BBR": "BBR with BBR", "CUBIC": "CUBIC with CUBIC"}
"""Scenarios whose background has the measured flow's congestion control, as in the report."""
SHOWN_S = 10.0


def per_rtt(outcomes: Sequence[Outcome], rate: str) -> tuple[Figure, ...]:
    """Figure 1: the first measured flow behind a common policer of this rate, in one run of each scenario."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, scenario in SAME_BACKGROUND.items():
        cell = {"rate": rate, "scenario": scenario, "policer": "common"}
        of_cell = [o for o in outcomes if all(label(o, axis) == value for axis, value in cell.items())]
        points = next((points for o in of_cell if (points := middle_of(o))), [])
        if points:
            lines[name] = points
    if not lines:
        return ()
    kinds = " and ".join(lines)  # a single line has no legend
    caption = f"{kinds}, {rate}, background of the same kind: data received in {SHOWN_S:g} s of one run each."
    return (line_figure("figure-1", "Throughput (figure 1)", caption, lines, x="seconds", y="Mbit/s"),)


def middle_of(outcome: Outcome) -> list[tuple[float, float]]:
    """(s, Mbit/s) per RTT of the run's first measured flow, in the middle `SHOWN_S` of the run."""
    path = RunDirectory(outcome.path).series
    if not outcome.measured or not path.is_file():
        return []
    wanted = [("kind", "=", PER_RTT), ("subject", "=", outcome.measured[0]["id"])]
    rows = pq.read_table(path, filters=wanted)
    points = list(zip(rows["time_s"].to_pylist(), rows["value"].to_pylist(), strict=True))
    if not points:
        return []
    begin = max(0.0, (points[-1][0] - SHOWN_S) / 2)
    return [(at, bps / 1e6) for at, bps in points if begin <= at < begin + SHOWN_S]
