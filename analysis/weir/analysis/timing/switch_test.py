# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from weir.analysis.tables import Ints
from weir.analysis.timing.switch import LEAST_STAMPS, switch_steps, without_steps

S = 1_000_000_000
NOW_NS = 1_760_000_000 * S


def stamps(steps: list[tuple[int, int]], number: int = 2000, late_ns: int = 200_000) -> tuple[Ints, Ints]:
    """Times of sending, and those of a switch whose clock began at 0 and runs 20 ppm faster."""
    rng = np.random.default_rng(number)
    since = np.sort(rng.integers(0, 60 * S, number))
    seen = since + np.rint(since * 20e-6).astype(np.int64) + rng.exponential(late_ns, number).astype(np.int64)
    for at, size in steps:
        seen = seen + size * (since >= at)
    return NOW_NS + since, seen


@pytest.mark.parametrize("size", [20_000_000, -20_000_000, 3 * S, -29 * S])
def test_a_switch_that_was_restarted_or_set_is_found(size: int) -> None:
    sent, seen = stamps([(30 * S, size)])
    (step,) = switch_steps(sent, seen)
    assert abs(step.at_ns - NOW_NS - 30 * S) < S / 2
    assert abs(step.size_ns - size) < 200_000
    steady = without_steps((step,), sent, seen)
    assert np.abs(steady - stamps([])[1]).max() < max(200_000, abs(step.size_ns - size) + 1)


def test_a_switch_that_is_late_for_a_while_was_not_set() -> None:
    sent, seen = stamps([])
    busy = (sent > NOW_NS + 20 * S) & (sent < NOW_NS + 27 * S)
    assert switch_steps(sent, seen + np.where(busy, 30_000_000, 0)) == ()


def test_few_reports_show_no_step() -> None:
    sent, seen = stamps([(30 * S, S)], number=LEAST_STAMPS - 1)
    assert switch_steps(sent, seen) == ()


def test_a_step_smaller_than_a_switch_may_be_late_is_left() -> None:
    sent, seen = stamps([(30 * S, 3_000_000)])
    assert switch_steps(sent, seen) == ()
