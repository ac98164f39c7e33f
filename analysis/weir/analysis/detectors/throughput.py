# SPDX-License-Identifier: Apache-2.0
"""WeHeY's throughput comparison: is a per-client bucket the common bottleneck of both paths?

Z. Shmeis et al., "Localizing Traffic Differentiation", IMC 2023. When a bucket limits the client,
simultaneous replays on two paths together get the throughput of a replay on one path. So the difference
between the throughput of the single replay and the sum of the simultaneous ones should be smaller than
differences between replays at other times (`history`), which are due to ordinary changes of the network. The
steps are those of the authors' published analysis server:

1. The two simultaneous replays' samples are added one by one, up to the shorter one's end.
2. N being the smaller number of samples of the single replay and of the sum, N ÷ 2 of each are drawn at
   random without replacement, and their means compared: |x − y| ÷ max(x, y). As many draws as `history` has
   values.
3. A one-sided Mann–Whitney U test asks whether these differences are smaller than the history's.
4. The paths have a common bottleneck when p < 0.05. (The server writes p down; the level is the one of the
   loss-trend test.)

The server counts differences in percent, which does not change ranks. The test needs three replays and a
history, so it is a function and not a detector of captures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from weir.analysis.tables import Floats

ALPHA = 0.05
PART = 0.5


@dataclass(frozen=True)
class ThroughputResult:
    """Whether the throughputs agree: `difference` is the median relative one, `u` and `p` are the test's."""

    common: bool
    difference: float
    u: float
    p: float


def throughput_comparison(
    single_bps: Floats,
    simultaneous_bps: tuple[Floats, Floats],
    history: Floats,
    rng: np.random.Generator,
) -> ThroughputResult:
    """Compare samples of the single replay with the sum of both simultaneous ones.

    `history` holds relative differences. Raises ValueError with fewer than four samples of a replay, without
    a history, or with a negative value.
    """
    together = added(*simultaneous_bps)
    if min(len(single_bps), len(together)) < 4 or not len(history):
        raise ValueError(
            f"{len(single_bps)} and {len(together)} samples, {len(history)} earlier differences; "
            "valid: at least 4, 4 and 1"
        )
    if min(single_bps.min(), together.min(), history.min()) < 0:
        raise ValueError("a negative throughput or difference; both are 0 or more")
    found = differences(single_bps, together, len(history), rng)
    test = stats.mannwhitneyu(found, history, alternative="less")
    p = float(test.pvalue)
    return ThroughputResult(p < ALPHA, float(np.median(found)), float(test.statistic), p)


def added(one: Floats, other: Floats) -> Floats:
    """The sum sample by sample, up to the shorter one's end."""
    both = min(len(one), len(other))
    return one[:both] + other[:both]


def differences(x: Floats, y: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Relative differences of the means of random halves; 0 where both means are 0."""
    half = int(min(len(x), len(y)) * PART)
    means = np.array(
        [[rng.choice(samples, half, replace=False).mean() for samples in (x, y)] for _ in range(draws)]
    )
    larger = means.max(axis=1)
    result: Floats = np.abs(means[:, 0] - means[:, 1]) / np.where(larger > 0, larger, 1.0)
    return result
