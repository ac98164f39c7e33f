# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weir.analysis.detectors.policing.bucket import Arrivals
from weir.analysis.detectors.policing.fit import BucketFit, fit_bucket
from weir.analysis.detectors.policing.policing_test import BURST, FRAME, RATE, bursts, policed
from weir.analysis.statistics import share


def arrivals(rng: np.random.Generator, rate: float, burst: float) -> Arrivals:
    time_s = bursts(rng, 10, 2 * rate)
    return Arrivals(time_s, np.full(len(time_s), float(FRAME)), policed(time_s, rate, burst)[0])


def fitted(packets: Arrivals, time_error_s: float) -> BucketFit:
    fit = fit_bucket(packets, time_error_s=time_error_s)
    assert fit is not None
    return fit


def test_intervals_of_exact_times_hold_rate_and_burst_in_95_percent() -> None:
    rates, of_bursts, narrower = [], [], []
    for seed in range(60):
        rng = np.random.default_rng([11, seed])
        rate, burst = rng.uniform(1e5, 1e6), rng.uniform(8e3, 1e5)
        packets = arrivals(rng, rate, burst)
        exact = fitted(packets, 0.0)
        rates.append(exact.rate_low <= rate <= exact.rate_high)
        of_bursts.append(exact.burst_low <= burst <= exact.burst_high)
        if seed < 15:
            unknown = fitted(packets, float("inf"))
            widths = [np.log(fit.rate_high / fit.rate_low) for fit in (exact, unknown)]
            narrower.append(widths[0] / widths[1])
    print(share(sum(rates), 60), share(sum(of_bursts), 60), f"median width ×{np.median(narrower):.2f}")
    for held in (rates, of_bursts):
        found = share(sum(held), len(held))
        assert found.low <= 0.95 <= found.high
    assert np.median(narrower) < 0.7


def test_errors_of_more_than_a_byte_at_the_rate_are_allowed_for(rng: np.random.Generator) -> None:
    packets = arrivals(rng, RATE, BURST)
    assert fitted(packets, 2 / RATE) == fitted(packets, float("inf"))


def test_a_packet_that_contradicts_each_bucket_leaves_the_intervals_of_inexact_times(
    rng: np.random.Generator,
) -> None:
    packets = arrivals(rng, RATE, BURST)
    wrong = packets.lost.copy()
    wrong[np.flatnonzero(wrong)[10]] = False
    wrong[5] = True  # in the first burst, from a full bucket
    packets = replace(packets, lost=wrong)
    assert fitted(packets, 0.0) == fitted(packets, float("inf"))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)
