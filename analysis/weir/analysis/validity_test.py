# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from weir.analysis.clocks import AlignedClock, align
from weir.analysis.validity import same_clock

NOW_NS = 1_760_000_000_000_000_000


def clock(offset_ns: int, noise_ns: int, seed: int) -> AlignedClock:
    rng = np.random.default_rng(seed)
    sent = NOW_NS + np.arange(0, 5_000_000_000, 5_000_000)
    return align(sent, sent - NOW_NS + offset_ns + rng.integers(0, noise_ns, len(sent)))


def test_a_host_without_drops_gets_the_best_fit_of_its_machine() -> None:
    own = {"a": clock(20_000, 50_000, 1), "b": clock(25_000, 5_000, 2)}
    found = same_clock(own, {"a", "b", "quiet"})
    assert found["a"] is own["a"]
    assert found["quiet"].fit is own["b"].fit
    assert len(found["quiet"].anchor_ns) == 0


def test_a_host_without_drops_has_no_clock_where_clocks_differ() -> None:
    own = {"a": clock(0, 5_000, 1), "b": clock(80_000_000, 5_000, 2)}
    assert set(same_clock(own, {"a", "b", "quiet"})) == {"a", "b"}


def test_without_any_drop_no_clock_is_aligned() -> None:
    assert same_clock({}, {"a"}) == {}
