# SPDX-License-Identifier: Apache-2.0
"""How much two thin flows' fates can tell at all: the log-odds that an observer who knows the bucket expects.

How likely each pair of fates of two packets is that come some time apart follows from `chain.py`. Behind two
policers the fates are independent. The divergence of the two (S. Kullback and R. Leibler, 1951), summed over
all pairs of packets, is the expected logarithm of the odds. No detector that looks at pairs of packets can
expect more, and thin flows have hardly a third packet near two.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from weir.analysis.detectors import FlowEvents
from weir.analysis.detectors.chain import fates_of_pairs
from weir.analysis.synthetic import with_jitter
from weir.analysis.tables import Bools, Floats

STEPS, FRAMES = 20, 20
"""Steps of the level in a frame, each filled in one tick of time, and frames in the bucket."""
NEAR = 0.0125
"""So near, in frames' times, two packets of the simulation are as far apart as asked for."""
FRAME_BITS = 1514 * 8
SECONDS = 40.0
ENOUGH = 13.0
"""Log-odds are about normal, with a variance of twice their mean d. At most 5 % undecided, where odds of 49
to 1 decide (2 % wrong), need d − 1.64 √(2d) ≥ ln 49."""


def jitter_differences(jitter_s: float) -> Floats:
    """How much later than the other one of two packets arrives, s, for flows that jitter independently."""
    rng = np.random.default_rng(1)
    at = np.arange(200_000) * 10_000_000
    flow = FlowEvents(at, np.full(len(at), 1448), np.zeros(len(at), dtype=bool), 20_000_000)
    one, other = (with_jitter(flow, jitter_s, rng).sent_ns for _ in range(2))
    return (one - other) / 1e9


def log_odds_per_pair(rate_bps: float, load: float, jitter_s: float) -> float:
    """∫ divergence over the time between two packets, s."""
    tick_s = FRAME_BITS / rate_bps / STEPS
    ticks = int(max(40 * STEPS, (6 * jitter_s + 5e-3) / tick_s))
    later, loss = fates_of_pairs(load, ticks, STEPS, FRAMES)
    fates = np.concatenate([later[:0:-1].transpose(0, 2, 1), later])
    independent = np.outer([1 - loss, loss], [1 - loss, loss])
    if jitter_s:
        edges = (np.arange(2 * ticks + 2) - ticks - 0.5) * tick_s
        jitter = np.histogram(jitter_differences(jitter_s), edges)[0] / 200_000
        for one in (0, 1):
            for other in (0, 1):
                excess = fates[:, one, other] - independent[one, other]
                spread = np.fft.irfft(np.fft.rfft(excess, 4 * ticks) * np.fft.rfft(jitter, 4 * ticks))
                fates[:, one, other] = independent[one, other] + spread[ticks : 3 * ticks + 1]
    return float((fates * np.log(np.maximum(fates, 1e-12) / independent)).sum() * tick_s)


def undecided(log_odds: float) -> float:
    """The probability that neither two policers nor one have odds of 49 to 1, if `log_odds` are expected."""
    spread = np.sqrt(2 * log_odds)
    one, two = ((sign * np.log(49) - log_odds) / spread for sign in (1, -1))
    return float(norm.cdf(one) - norm.cdf(two))


def needed_mbps(rate_mbps: float, load: float, jitter_s: float) -> float:
    """The rate of each of two flows at which `ENOUGH` can be expected after `SECONDS`."""
    pairs = ENOUGH / log_odds_per_pair(rate_mbps * 1e6, load, jitter_s)
    return float(np.sqrt(pairs / SECONDS) * FRAME_BITS / 1e6)


def test_enough_is_what_decides_95_percent() -> None:
    log_odds = np.random.default_rng(3).normal(ENOUGH, np.sqrt(2 * ENOUGH), 100_000)
    assert undecided(ENOUGH) == pytest.approx(float(np.mean(np.abs(log_odds) < np.log(49))), abs=0.003)
    assert undecided(ENOUGH) < 0.05 < undecided(ENOUGH - 2)


@pytest.mark.parametrize(
    ("rate_mbps", "load", "jitter_s", "mbps"),
    [
        (40, 1.43, 0.0, 0.63),
        (40, 1.43, 1e-3, 1.4),
        (40, 1.43, 10e-3, 3.2),
        (50, 1.2, 0.0, 0.7),
        (50, 1.2, 1e-3, 1.07),
        (80, 1.05, 1e-3, 1.07),
    ],
)
def test_flows_below_a_megabit_cannot_be_decided(
    rate_mbps: float, load: float, jitter_s: float, mbps: float
) -> None:
    needed = needed_mbps(rate_mbps, load, jitter_s)
    print(f"{rate_mbps} Mbit/s, jitter of {jitter_s * 1e3:g} ms: {needed:.2f} Mbit/s each")
    assert needed == pytest.approx(mbps, rel=0.05)


def test_the_chain_loses_what_a_simulated_bucket_does() -> None:
    """Conditional loss rates of pairs in one bucket, packet by packet, with Poisson traffic."""
    load, rng = 1.43, np.random.default_rng(2)
    expected, loss = fates_of_pairs(load, 2 * STEPS, STEPS, FRAMES)
    at = np.cumsum(rng.exponential(1 / load, 1_500_000))
    lost = simulated(at)
    assert lost.mean() == pytest.approx(loss, abs=0.005)
    for after in (0.5, 1.0, 2.0):
        near = [np.searchsorted(at, at + after + apart) for apart in (-NEAR, NEAR)]
        first = np.flatnonzero(near[1] > near[0])
        second = near[0][first]
        for fate in (0, 1):
            which = lost[first] == bool(fate)
            found = lost[second[which]].mean()
            of_chain = expected[round(after * STEPS), fate, 1] / expected[round(after * STEPS), fate].sum()
            print(after, fate, found, of_chain)
            assert found == pytest.approx(of_chain, abs=0.015)


def simulated(at: Floats) -> Bools:
    """Whether a bucket of `FRAMES` frames drops each packet; times are in those of a frame's tokens."""
    lost = np.zeros(len(at), dtype=bool)
    level, before = 1.0, 0.0
    for number, now in enumerate(at.tolist()):
        level, before = min(level + now - before, FRAMES), now
        if level >= 1:
            level -= 1
        else:
            lost[number] = True
    return lost
