# SPDX-License-Identifier: Apache-2.0
"""Are a flow's losses independent of each other?

Random losses are: given the loss rate, none makes another one more or less likely. The losses at a policer or
a queue are not, even where they do not follow what the flow sent, because most of the traffic there is not in
the capture: they come together while the other traffic overfills the bucket, and come evenly from one that
stays empty, as it passes bytes at its rate. Only the order of packets counts, so that jitter hides nothing.

Two kinds of statistics, with p the loss rate around each packet (of `LOSSES_AROUND` losses, so that a rate
that changes slowly is no dependence) and y = 1 for a lost packet:

- the gaps between losses in expected losses, −Σ ln(1 − p), which are exponential if losses are independent
  (Brown, Barbieri, Ventura, Kass, Frank: The time-rescaling theorem, 2002), by the statistic of Anderson and
  Darling (A test of goodness of fit, 1954);
- Σ (y − p) over pairs of packets that are at most m apart, for m = 1, 2, 4, … up to the mean gap.

Each is standardised by its mean and deviation among series with the same losses in another order, which keeps
their number in each window, and the largest is ranked among theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir.analysis.tables import Bools, Floats

LOSSES_AROUND = 30
SERIES = 199
"""Series with independent losses. They are drawn alike each time, so that a capture has one verdict."""
MOST_PACKETS = 50_000
"""Of more, passed ones are left out at random, which leaves independent losses independent."""
MIN_GAPS = 4
ALPHA = 0.01
"""A smaller p is dependence, which 5 of 348 flows with independent random losses had (seeds 0 to 399), and
all but 12 of 317 that their application limits, in a policer with a third to a half that is not captured. In
half of those 12, the load would not have shown either (`load.py`)."""


def independence_p(lost: Bools) -> float | None:
    """The p-value that losses are independent of each other; None with too few to tell.

    `lost` is of the packets in the order of their times.
    """
    rng = np.random.default_rng(0)
    if len(lost) > MOST_PACKETS:
        lost = lost[lost | (rng.random(len(lost)) < MOST_PACKETS / len(lost))][:MOST_PACKETS]
    if 2 * np.count_nonzero(lost) > len(lost):
        lost = ~lost  # of losses and passed packets, the rarer ones: both are independent, or none
    if np.count_nonzero(lost) <= MIN_GAPS:
        return None
    gap = len(lost) / np.count_nonzero(lost)
    window = min(len(lost), int(np.ceil(LOSSES_AROUND * gap)))
    reaches = [2**power for power in range(int(np.log2(gap)) + 1)]
    # Losses in any order within each window are as likely as those of the flow, if they are independent.
    part = np.arange(len(lost)) * (len(lost) // window) // len(lost)
    series = [lost[np.argsort(part + rng.random(len(lost)))] for _ in range(SERIES)]
    found = np.array([_statistics(its, window, reaches) for its in (lost, *series)])
    deviation = np.maximum(found[1:].std(axis=0), 1e-12)
    z = (found - found[1:].mean(axis=0)) / deviation
    z[:, 1:] = np.abs(z[:, 1:])  # of either sign, but gaps are never too exponential
    largest = z.max(axis=1)
    return float((1 + np.count_nonzero(largest[1:] >= largest[0])) / (1 + SERIES))


def _rate(lost: Bools, window: int) -> Floats:
    """The loss rate of the `window` packets around each packet."""
    count = np.concatenate([[0], np.cumsum(lost)])
    low = np.clip(np.arange(len(lost)) - window // 2, 0, len(lost) - window)
    rate: Floats = np.clip((count[low + window] - count[low]) / window, 1e-6, 1 - 1e-6)
    return rate


def _statistics(lost: Bools, window: int, reaches: Sequence[int]) -> Floats:
    """That of the gaps, then the sums over pairs at most each of `reaches` packets apart."""
    rate = _rate(lost, window)
    excess = lost - rate
    expected = np.cumsum(-np.log1p(-rate))
    before = np.concatenate([[0.0], np.cumsum(excess)])[:-1]
    pairs = [
        float(excess @ (before - np.concatenate([np.zeros(reach), before[:-reach]]))) for reach in reaches
    ]
    return np.array([_anderson_darling(np.diff(expected[lost])), *pairs])


def _anderson_darling(gaps: Floats) -> float:
    """A² of the exponential distribution with their mean."""
    share = np.clip(1 - np.exp(-np.sort(gaps) / gaps.mean()), 1e-9, 1 - 1e-9)
    weight = 2 * np.arange(len(share)) + 1
    return float(-len(share) - np.mean(weight * (np.log(share) + np.log(1 - share[::-1]))))
