# SPDX-License-Identifier: Apache-2.0
"""How the fates of two packets depend on each other that come some time apart at one token bucket.

The level of a token bucket with Poisson traffic is a Markov chain: time passes in ticks, a frame takes
`steps` steps of the level, and a tick adds one. From the chain follows how likely each pair of fates is.
Behind two policers the fates are independent.
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
"""Traffic ÷ rate, of which `coupling` takes the one whose loss rate is nearest."""
LASTS_FRAMES = 190
"""How long a coupling lasts at most, in the times in which a bucket gets a frame's tokens."""


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
    """What one packet tells of a later one at the same bucket, by ticks between them.

    `by_loss` is the correlation of their fates; `by_load` the rise in the logarithm of the later one's odds
    to be dropped because the earlier one came, whatever its fate. `loss` is the loss rate of all packets.
    """

    by_loss: Floats
    by_load: Floats
    loss: float


@cache
def coupling(load: float) -> Coupling:
    """The coupling of packets at a bucket with this load."""
    fates, loss = fates_of_pairs(load, LASTS_FRAMES * STEPS, STEPS, FRAMES)
    later = fates[:, 0, 1] + fates[:, 1, 1]
    variance = loss * (1 - loss)
    return Coupling((fates[:, 1, 1] - loss * later) / variance, (later - loss) / variance, loss)


def coupling_at(loss: float) -> Coupling:
    """The coupling at a bucket that drops about this part of its packets."""
    return min((coupling(load) for load in LOADS), key=lambda each: abs(np.log(each.loss / loss)))
