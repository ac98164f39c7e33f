# SPDX-License-Identifier: Apache-2.0
"""Comparison of samples: boxes, empirical distribution functions, Kolmogorov–Smirnov, Cliff's delta."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from weir.analysis.tables import Floats

WHISKER_IQR = 1.5
"""Whiskers reach to the last value within this many interquartile ranges (J. Tukey, 1977)."""

Alternative = Literal["two-sided", "less", "greater"]


@dataclass(frozen=True)
class Box:
    """The values of a box plot of `n` values, in their unit; quartiles by linear interpolation."""

    n: int
    low_whisker: float
    q1: float
    median: float
    q3: float
    high_whisker: float
    mean: float
    outliers: tuple[float, ...]
    """Values beyond the whiskers, ascending."""


@dataclass(frozen=True)
class KsTest:
    """The Kolmogorov–Smirnov distance of two samples of `n_a` and `n_b` values, and its p."""

    statistic: float
    p: float
    n_a: int
    n_b: int


def finite(values: ArrayLike) -> Floats:
    """The values without NaN, which stands for missing ones, and without infinities."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    return numbers[np.isfinite(numbers)]


def box(values: ArrayLike) -> Box | None:
    """The box of the values without NaN; None without values."""
    known = np.sort(finite(values))
    if not len(known):
        return None
    q1, median, q3 = (float(q) for q in np.percentile(known, [25, 50, 75]))
    reach = WHISKER_IQR * (q3 - q1)
    inside = known[(known >= q1 - reach) & (known <= q3 + reach)]
    beyond = known[(known < q1 - reach) | (known > q3 + reach)]
    return Box(
        n=len(known),
        low_whisker=float(inside[0]),
        q1=q1,
        median=median,
        q3=q3,
        high_whisker=float(inside[-1]),
        mean=float(known.mean()),
        outliers=tuple(beyond.tolist()),
    )


def ecdf(values: ArrayLike) -> tuple[Floats, Floats]:
    """The empirical distribution function: distinct values ascending, and the part of values up to each."""
    known = finite(values)
    at, count = np.unique(known, return_counts=True)
    return at, np.cumsum(count) / max(len(known), 1)


def kolmogorov_smirnov(a: ArrayLike, b: ArrayLike, alternative: Alternative = "two-sided") -> KsTest | None:
    """Do two samples come from one distribution? None where one of them is empty.

    As in scipy, `less` tests whether the distribution function of `a` lies below that of `b`, so that values
    of `a` are larger; `greater` is the opposite. p is exact for small samples.
    """
    one, other = finite(a), finite(b)
    if not len(one) or not len(other):
        return None
    with warnings.catch_warnings():
        # Where rounding takes an exact p beyond 1, scipy takes the asymptotic one. Nobody can act on that.
        warnings.filterwarnings("ignore", "ks_2samp: Exact calculation unsuccessful", RuntimeWarning)
        found = stats.ks_2samp(one, other, alternative=alternative)
    return KsTest(float(found.statistic), float(found.pvalue), len(one), len(other))


def cliffs_delta(a: ArrayLike, b: ArrayLike) -> float | None:
    """How often a value of `a` exceeds one of `b`, minus how often it is less: −1 to 1; None without values.

    N. Cliff, "Dominance statistics", Psychological Bulletin 114 (1993).
    """
    one, other = finite(a), np.sort(finite(b))
    if not len(one) or not len(other):
        return None
    less = np.searchsorted(other, one, side="left").sum()
    more = len(one) * len(other) - np.searchsorted(other, one, side="right").sum()
    return float(int(less) - int(more)) / (len(one) * len(other))
