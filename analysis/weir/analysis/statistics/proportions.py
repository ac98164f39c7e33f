# SPDX-License-Identifier: Apache-2.0
"""Proportions of trials, with exact confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import stats

LEVEL = 0.05


@dataclass(frozen=True)
class Share:
    """`count` of `of` with the exact 95 % interval; `rate` is None when `of` is 0."""

    count: int
    of: int
    rate: float | None
    low: float
    high: float


def share(count: int, of: int) -> Share:
    """A count with its interval (C. Clopper, E. Pearson, Biometrika 26, 1934)."""
    if not of:
        return Share(count, of, None, 0.0, 1.0)
    interval = stats.binomtest(count, of).proportion_ci(1 - LEVEL, method="exact")
    return Share(count, of, count / of, float(interval.low), float(interval.high))
