# SPDX-License-Identifier: Apache-2.0
"""Null distributions of a statistic of two series, which keep each series' autocorrelation.

Tests that assume independent values find common trends in any two slow series. Here one series is resampled:
shifted circularly, or cut into blocks longer than its memory that are put in random order (H. Künsch, Annals
of Statistics 17, 1989).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weir.analysis.tables import Floats

MIN_SHIFT = 0.05
"""Smallest shift, as a part of the series: smaller ones leave it almost unchanged."""
MIN_BLOCKS = 5
"""Fewer blocks have too few orders for p < 0.05."""


def rank_p(statistic: float, null: Floats) -> float:
    """The part of the null at least as large as the statistic, which is counted too: never 0."""
    return float((1 + np.count_nonzero(null >= statistic)) / (1 + len(null)))


def circular_shifts(series: Floats, min_shift: float = MIN_SHIFT) -> Iterator[Floats]:
    """The series shifted circularly by all amounts but the smallest; one at a time, as all are n² values."""
    n = len(series)
    least = max(int(np.ceil(min_shift * n)), 1)
    for shift in range(least, n - least + 1):
        yield np.roll(series, shift)


def block_permutations(series: Floats, block: int, draws: int, rng: np.random.Generator) -> Floats:
    """`draws` rows: the series shifted circularly by a random amount, cut into blocks, in random order."""
    n = len(series)
    block_of = np.arange(n) // block
    keys = rng.random((draws, int(block_of[-1]) + 1))
    order = np.argsort(keys[:, block_of], axis=1, kind="stable")
    rows: Floats = series[(order + rng.integers(n, size=(draws, 1))) % n]
    return rows


def block_length(x: Floats, y: Floats) -> int:
    """Twice the first lag without autocorrelation in either series, at most a fifth of the series.

    An autocorrelation below 2 ÷ √n counts as none: chance alone gives as much.
    """
    n = len(x)
    longest = max(n // MIN_BLOCKS, 1)
    lags = []
    for series in (x, y):
        centred = series - series.mean()
        power = float(centred @ centred)
        uncorrelated = (
            lag
            for lag in range(1, longest + 1)
            if power == 0 or abs(float(centred[lag:] @ centred[:-lag])) / power < 2 / np.sqrt(n)
        )
        lags.append(next(uncorrelated, longest))
    return min(2 * max(lags), longest)
