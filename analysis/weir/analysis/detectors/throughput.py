# SPDX-License-Identifier: Apache-2.0
"""WeHeY's throughput comparison: is a client's own bucket the common bottleneck of both paths?

Z. Shmeis et al., "Localizing Traffic Differentiation", IMC 2023. When a bucket limits the client, the
replays on two paths at once get together what the replay on one path gets alone. So the relative difference
between the throughput of the single replay and the sum of the simultaneous ones should be no larger than
differences between replays of the same client at other times (`history`). Differences are resampled: halves
of the samples of each, drawn at random, compared by their means; a one-sided Mann–Whitney U test asks
whether they are smaller than the history's. It needs three replays and a history, so it is a function and
not a detector of captures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from weir.analysis.tables import Floats

ALPHA = 0.05
DRAWS = 200


@dataclass(frozen=True)
class ThroughputResult:
    """Whether the throughputs agree; `difference` is the median relative difference, `p` of the test."""

    common: bool
    difference: float
    p: float


def throughput_comparison(
    single_bps: Floats, simultaneous_bps: Floats, history: Floats, rng: np.random.Generator
) -> ThroughputResult:
    """Compare samples of the single replay with those of the sum of both; `history` are relative differences.

    Raises ValueError with fewer than four samples of either, or without a history.
    """
    if min(len(single_bps), len(simultaneous_bps)) < 4 or not len(history):
        raise ValueError(
            f"{len(single_bps)} and {len(simultaneous_bps)} samples, {len(history)} earlier differences; "
            "valid: at least 4, 4 and 1"
        )
    found = np.array([_difference(single_bps, simultaneous_bps, rng) for _ in range(DRAWS)])
    p = float(stats.mannwhitneyu(np.abs(found), np.abs(history), alternative="less").pvalue)
    return ThroughputResult(p < ALPHA, float(np.median(found)), p)


def _difference(x: Floats, y: Floats, rng: np.random.Generator) -> float:
    means = [float(rng.choice(samples, len(samples) // 2, replace=False).mean()) for samples in (x, y)]
    return (means[0] - means[1]) / max(*means, 1e-9)
