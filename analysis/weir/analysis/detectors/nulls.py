# SPDX-License-Identifier: Apache-2.0
"""What a statistic of two series would be if they had nothing in common, with each one's own autocorrelation.

Tests that take values for independent find trends in common between any two slow series. Here one series is
moved against the other in ways that keep its own course: turned round as a whole, or cut into blocks longer
than its memory and put together in another order (H. Künsch, Annals of Statistics 17, 1989, for the blocks).
"""

from __future__ import annotations

import numpy as np

from weir.analysis.tables import Floats

MIN_SHIFT = 0.05
"""Shifts nearer to none than this part of the series leave too much of it in place."""
MIN_BLOCKS = 5
"""Fewer could be arranged in too few ways for p < 0.05."""


def rank_p(statistic: float, null: Floats) -> float:
    """The part of the null at least as large, the statistic itself counted among it: never 0."""
    return float((1 + np.count_nonzero(null >= statistic)) / (1 + len(null)))


def circular_shifts(series: Floats, min_shift: float = MIN_SHIFT) -> Floats:
    """The series turned round by every amount but the smallest, a row each."""
    n = len(series)
    least = max(int(np.ceil(min_shift * n)), 1)
    turned = [np.roll(series, shift) for shift in range(least, n - least + 1)]
    return np.array(turned, dtype=np.float64).reshape(len(turned), n)


def block_permutations(series: Floats, block: int, draws: int, rng: np.random.Generator) -> Floats:
    """`draws` rows: the series turned round at random, cut into blocks and these arranged anew."""
    n = len(series)
    block_of = np.arange(n) // block
    keys = rng.random((draws, int(block_of[-1]) + 1))
    order = np.argsort(keys[:, block_of], axis=1, kind="stable")
    rows: Floats = series[(order + rng.integers(n, size=(draws, 1))) % n]
    return rows


def block_length(x: Floats, y: Floats) -> int:
    """Twice the first lag at which neither series remembers itself, at most a fifth of the series.

    Memory ends where the autocorrelation is within 2 ÷ √n, which chance alone gives.
    """
    n = len(x)
    longest = max(n // MIN_BLOCKS, 1)
    lags = []
    for series in (x, y):
        centred = series - series.mean()
        power = float(centred @ centred)
        forgotten = (
            lag
            for lag in range(1, longest + 1)
            if power == 0 or abs(float(centred[lag:] @ centred[:-lag])) / power < 2 / np.sqrt(n)
        )
        lags.append(next(forgotten, longest))
    return min(2 * max(lags), longest)
