# SPDX-License-Identifier: Apache-2.0
"""Medians with distribution-free intervals."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

LEVEL = 0.05


@dataclass(frozen=True)
class Interval:
    """From one of the values to another; `coverage` is the probability that the median is between them."""

    low: float
    high: float
    coverage: float

    def holding(self, value: float) -> Interval:
        """Widened to `value` where it does not hold it."""
        return Interval(min(self.low, value), max(self.high, value), self.coverage)


def median_interval(values: Sequence[float]) -> Interval | None:
    """The narrowest symmetric interval of order statistics that covers the median in 95 % of cases.

    Below six values none does; it is the range of the values then, and the coverage is lower. None below two.
    The number of independent values below the median is binomial with p = 1/2, so the k-th smallest and the
    k-th largest of n enclose it with probability 1 − 2 P(B ≤ k − 1) (H. David, H. Nagaraja, Order Statistics,
    section 7.1); it is higher where values are equal.
    """
    ordered, n = sorted(values), len(values)
    if n < 2:
        return None
    k = max(int(stats.binom.ppf(LEVEL / 2, n, 0.5)), 1)
    while k > 1 and _coverage(k, n) < 1 - LEVEL:
        k -= 1
    return Interval(ordered[k - 1], ordered[n - k], _coverage(k, n))


def _coverage(k: int, n: int) -> float:
    return float(1 - 2 * stats.binom.cdf(k - 1, n, 0.5))


def grouped_median(groups: Sequence[Sequence[float]]) -> tuple[float | None, Interval | None]:
    """The median of all values, and the interval of the groups' medians.

    Values of a group need not be independent. The interval is widened to the median of all values where it
    does not hold that. Empty groups count for nothing; the median is None without a value, the interval with
    fewer than two groups.
    """
    known = [group for group in groups if group]
    if not known:
        return None, None
    median = statistics.median(value for group in known for value in group)
    interval = median_interval([statistics.median(group) for group in known])
    return median, None if interval is None else interval.holding(median)
