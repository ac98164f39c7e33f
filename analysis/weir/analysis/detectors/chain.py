# SPDX-License-Identifier: Apache-2.0
"""How the fates of two packets depend on each other that come some time apart at one token bucket.

The level of a token bucket with Poisson traffic is a Markov chain: time passes in ticks, a frame takes
`steps` steps of the level, and a tick adds one. From the chain follows how likely each pair of fates is.
Behind two policers the fates are independent.

All frames are alike, so the level modulo a frame is known for as long as the bucket is never full. Where much
is dropped, the correlation of fates therefore does not fade, but repeats with the period of a frame's tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.linalg import expm

from weir.analysis.tables import Floats

STEPS, FRAMES = 8, 16
"""Steps of the level in a frame, and frames in the bucket, of `coupling`."""
LOADS = (1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 1.8, 2.2, 3.0)
"""Traffic ÷ rate, of which `coupling_at` takes the one whose loss rate is nearest."""
LASTS_FRAMES = 190
"""A coupling ends here, in the times in which a bucket gets a frame's tokens."""


def fates_of_pairs(load: float, ticks: int, steps: int, frames: int) -> tuple[Floats, float]:
    """P(fate of the first, fate of the second) by ticks between them, 1 for dropped; then the loss rate.

    `load` is traffic ÷ rate; the first shape is (ticks + 1, 2, 2).
    """
    levels = steps * frames
    here = np.arange(levels)
    tokens = np.zeros((levels, levels))
    tokens[here, np.minimum(here + 1, levels - 1)] = 1
    packets = np.zeros((levels, levels))  # of the other traffic
    packets[here[steps:], here[:-steps]] = load / steps / 2
    packets[here[steps:], here[steps:]] = -load / steps / 2
    half = expm(packets)
    tick = half @ tokens @ half  # half of the packets before the token comes
    balance = tick.T - np.eye(levels)
    balance[-1] = 1
    usual = np.linalg.solve(balance, np.eye(levels)[-1])
    dropped, passed = usual.copy(), np.zeros(levels)
    dropped[steps:] = 0
    passed[:-steps] = usual[steps:]
    result = np.empty((ticks + 1, 2, 2))
    for after in range(ticks + 1):
        for fate, level in enumerate((passed, dropped)):
            result[after, fate] = level[steps:].sum(), level[:steps].sum()
        passed, dropped = passed @ tick, dropped @ tick
    return result, float(usual[:steps].sum())


@dataclass(frozen=True)
class Coupling:
    """Correlation and added log-odds of loss of two packets at one bucket, by ticks between them.

    `by_loss` is the correlation of the two packets' losses. `by_load` is how much the earlier packet, dropped
    or not, adds to the logarithm of the later packet's odds to be dropped.
    """

    by_loss: Floats
    by_load: Floats


@cache
def coupling(load: float) -> Coupling:
    """The coupling of packets at a bucket with this load."""
    fates, loss = fates_of_pairs(load, LASTS_FRAMES * STEPS, STEPS, FRAMES)
    later = fates[:, 0, 1] + fates[:, 1, 1]
    variance = loss * (1 - loss)
    return Coupling((fates[:, 1, 1] - loss * later) / variance, (later - loss) / variance)


def coupling_at(loss: float) -> Coupling:
    """The coupling at a bucket that drops about this part of its packets."""
    return coupling(min(LOADS, key=lambda load: abs(np.log(_loss_rate(load) / loss))))


@cache
def _loss_rate(load: float) -> float:
    return fates_of_pairs(load, 0, STEPS, FRAMES)[1]
