# SPDX-License-Identifier: Apache-2.0
"""Runs of one BBR and one CUBIC flow through buffers of several sizes: shares and fairness by the buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir.analysis.figures import Figure, line_figure
from weir.analysis.statistics import jain_index
from weir.campaign.outcome import Outcome
from weir.campaign.studies.runs import goodputs_mbps, label, mean_or_none, share_percent


def buffer_bdp(outcome: Outcome) -> float:
    """The run's buffer in BDP."""
    return float(label(outcome, "buffer").removesuffix("BDP"))


def jain(outcome: Outcome) -> float | None:
    """Jain's index of the goodputs of the two flows."""
    return jain_index([rate for name in ("bbr", "cubic") for rate in goodputs_mbps(outcome, name)])


def by_buffer(runs: Sequence[Outcome]) -> dict[float, list[Outcome]]:
    """The runs of each buffer, in BDP, the smallest first."""
    found: dict[float, list[Outcome]] = {}
    for outcome in runs:
        found.setdefault(buffer_bdp(outcome), []).append(outcome)
    return dict(sorted(found.items()))


def shares(runs: Sequence[Outcome], cc: str) -> dict[float, float]:
    """Buffer in BDP → share of the flow with `cc` in the goodput, percent, mean over its runs."""
    found = {at: mean_or_none(share_percent(o, cc) for o in its) for at, its in by_buffer(runs).items()}
    return {at: value for at, value in found.items() if value is not None}


def jains(runs: Sequence[Outcome]) -> dict[float, float]:
    """Buffer in BDP → Jain's index, mean over its runs."""
    found = {at: mean_or_none(map(jain, its)) for at, its in by_buffer(runs).items()}
    return {at: value for at, value in found.items() if value is not None}


def buffer_figure(
    name: str,
    title: str,
    lines: Mapping[str, Mapping[float, float]],
    y: str,
    *,
    caption: str = "Mean over the runs of each buffer.",
    marks: Mapping[str, Sequence[tuple[float, float]]] = {},
) -> Figure:
    """Lines of values by the buffer in BDP, as the functions above return them."""
    points = {line: list(values.items()) for line, values in lines.items()}
    return line_figure(name, title, caption, points, x="buffer in BDP", y=y, log_x=True, marks=marks)


def level(runs: Sequence[Outcome], value: float) -> list[tuple[float, float]]:
    """A horizontal line at a value, over all buffers."""
    sizes = list(by_buffer(runs))
    return [(min(sizes), value), (max(sizes), value)]
