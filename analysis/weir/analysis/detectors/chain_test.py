# SPDX-License-Identifier: Apache-2.0
"""The coupling of two packets at one bucket; `information_test.py` compares the chain with a simulation."""

from __future__ import annotations

import pytest

from weir.analysis.detectors.chain import LOADS, STEPS, coupling, coupling_at, fates_of_pairs

FINE_STEPS, FRAMES = 24, 24


@pytest.mark.parametrize("load", [1.1, 1.4])
def test_coarse_steps_give_the_coupling_of_fine_ones(load: float) -> None:
    fates, loss = fates_of_pairs(load, 5 * FINE_STEPS, FINE_STEPS, FRAMES)
    later = fates[:, 0, 1] + fates[:, 1, 1]
    by_loss = (fates[:, 1, 1] - loss * later) / (loss * (1 - loss))
    for after in (0.5, 1.0, 2.0, 5.0):
        coarse = coupling(load).by_loss[round(after * STEPS)]
        print(load, after, coarse, by_loss[round(after * FINE_STEPS)])
        assert coarse == pytest.approx(by_loss[round(after * FINE_STEPS)], abs=0.03)


@pytest.mark.parametrize("load", LOADS)
def test_a_bucket_is_known_by_its_loss_rate(load: float) -> None:
    assert coupling_at(fates_of_pairs(load, 0, STEPS, 16)[1]) is coupling(load)


@pytest.mark.parametrize("load", LOADS)
def test_packets_far_apart_are_independent_over_a_frame(load: float) -> None:
    found = coupling(load)
    assert abs(found.by_loss[-STEPS:].mean()) < 0.05
    assert abs(found.by_load[-STEPS:].mean()) < 0.05 * found.by_load[0]
