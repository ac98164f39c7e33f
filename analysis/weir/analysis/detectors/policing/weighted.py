# SPDX-License-Identifier: Apache-2.0
"""Mean and 95 % interval of weighted values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.analysis.tables import Floats

LIKELY = 1e-4
"""Values with a smaller weight lie outside of the next, finer grid."""


@dataclass(frozen=True)
class Estimate:
    """A mean and the ends of the interval that holds 95 %."""

    mean: float
    low: float
    high: float


def weights_of(cost: Floats, tail: float) -> Floats:
    """Weights exp(−tail·cost) with a sum of 1."""
    weights = np.exp(tail * (cost.min() - cost))
    result: Floats = weights / weights.sum()
    return result


def estimate(values: Floats, weights: Floats) -> Estimate:
    """Mean and interval of weighted values; each stands for the range to its neighbours."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order]) - weights[order] / 2
    low, high = np.interp((0.025, 0.975), below, values[order])
    mean = float(np.sum(weights * values))
    return Estimate(mean, min(float(low), mean), max(float(high), mean))
