# SPDX-License-Identifier: Apache-2.0
"""Our numbers with an interval: of a count the exact one, else that of the numbers of each repeat alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from weir.analysis.statistics import Interval, Share, median_interval
from weir.campaign.load import PART
from weir.campaign.outcome import Outcome

INTERVAL = ("low", "high", "coverage, %")
"""Columns of an interval in a table."""
INTERVAL_CAPTION = (
    "Low and high: of a count its exact interval, else the interval of the numbers that each repeat gives "
    "alone; it holds the true number with the coverage, which is low with few repeats. Empty with one repeat."
)
_SHARE_COVERAGE = 0.95


@dataclass(frozen=True)
class Measured:
    """A number of the runs; NaN if they do not show the effect that it measures."""

    value: float
    interval: Interval | None = None
    """None for a number of which there is a single repeat."""


def measured(of: Callable[[Sequence[Outcome]], float | None], runs: Iterable[Outcome]) -> Measured | None:
    """`of` all runs, with the interval of the numbers that it gives for each repeat of their cells alone.

    Repeats are independent, so the order statistics of their numbers enclose the median of all possible
    repeats (`median_interval`): the method of independent replications (A. Law, Simulation Modeling and
    Analysis, section 9.4), without its assumption of normal numbers. None if `of` gives no number.
    """
    runs = list(runs)
    value = of(runs)
    if value is None:
        return None
    known = [each for repeat in repeats(runs) if (each := of(repeat)) is not None and math.isfinite(each)]
    interval = median_interval(known) if math.isfinite(value) else None
    return Measured(value, None if interval is None else interval.holding(value))


def repeats(runs: Iterable[Outcome]) -> list[list[Outcome]]:
    """The runs split so that each list has one run of each cell; runs beyond the rarest cell's are left out.

    Cells that differ in their part alone are the same one.
    """
    by_cell: dict[tuple[tuple[str, str], ...], list[Outcome]] = {}
    for run in runs:
        cell = tuple(item for item in run.cell.items() if item[0] != PART)
        by_cell.setdefault(cell, []).append(run)
    return [list(its) for its in zip(*by_cell.values(), strict=False)]


def counted(share: Share) -> Measured | None:
    """A share of a count in percent, with its exact interval; None without trials."""
    if share.rate is None:
        return None
    return Measured(100 * share.rate, Interval(100 * share.low, 100 * share.high, _SHARE_COVERAGE))


def interval_cells(interval: Interval | None, digits: int = 3) -> tuple[float | None, ...]:
    """An interval as cells of the columns `INTERVAL`."""
    if interval is None:
        return (None, None, None)
    return (round(interval.low, digits), round(interval.high, digits), round(100 * interval.coverage, 1))
