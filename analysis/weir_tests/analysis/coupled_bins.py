# SPDX-License-Identifier: Apache-2.0
"""How two series of bins are coupled at the same moment, by sums over all pairs of bins at each lag."""

from __future__ import annotations

import numpy as np

from weir.analysis.detectors.loss_rates import BIN_S, LAGS_S, NEAR_S, REACHES
from weir.analysis.tables import Floats


def z_of_all_pairs(one: Floats, other: Floats, coupled_s: float) -> float:
    """z of the sum at lag 0 among those at other lags, as the text of `loss_rates.py` has it."""
    lags = np.arange(-round(LAGS_S / BIN_S), round(LAGS_S / BIN_S) + 1)
    near = np.arange(-round(REACHES * coupled_s / BIN_S), round(REACHES * coupled_s / BIN_S) + 1)
    weights = np.exp(-np.abs(near) * BIN_S / coupled_s)
    sums = np.array(
        [
            sum(w * (np.roll(other, -(lag + k)) @ one) for k, w in zip(near, weights, strict=True))
            for lag in lags
        ]
    )
    chance = sums[np.abs(lags) >= round(NEAR_S / BIN_S)]
    return float((sums[len(sums) // 2] - chance.mean()) / chance.std())
