# SPDX-License-Identifier: Apache-2.0
"""Medians with distribution-free intervals."""

from __future__ import annotations

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
