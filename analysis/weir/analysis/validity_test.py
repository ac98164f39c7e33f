# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weir.analysis.clocks import AlignedClock, align
from weir.analysis.timing.moved import HostClock, Piece
from weir.analysis.timing.run import NO_CLOCKS, RunClocks
from weir.analysis.validity import MAX_RESIDUAL_NS, clock_error_ns, same_clock

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


def test_a_host_without_drops_has_no_clock_where_clocks_that_began_alike_drift_apart() -> None:
    def drifting(ppm: float, seed: int) -> AlignedClock:
        sent = NOW_NS + np.arange(0, 600_000_000_000, 200_000_000)
        delay_ns = np.random.default_rng(seed).integers(0, 50_000, len(sent))
        return align(sent, sent - NOW_NS + np.rint((sent - NOW_NS) * ppm * 1e-6).astype(np.int64) + delay_ns)

    apart = {"a": drifting(0.0, 1), "b": drifting(100.0, 2)}
    assert set(same_clock(apart, {"a", "b", "quiet"})) == {"a", "b"}
    alike = {"a": drifting(100.0, 1), "b": drifting(100.0, 2)}
    assert set(same_clock(alike, {"a", "b", "quiet"})) == {"a", "b", "quiet"}


def test_without_any_drop_no_clock_is_aligned() -> None:
    assert same_clock({}, {"a"}) == {}


def late(number: int, delay_ns: int, offset_ns: int, seed: int) -> AlignedClock:
    """A clock pinned by a few drops of a switch whose delay varies."""
    rng = np.random.default_rng(seed)
    sent = NOW_NS + np.sort(rng.integers(0, 10_000_000_000, number))
    return align(sent, sent - NOW_NS + offset_ns + rng.exponential(delay_ns, number).astype(np.int64))


def one_host(name: str, error_ns: int | None, *, same: bool = True) -> HostClock:
    piece = Piece(0, 0, 0, 0.0)
    return HostClock(name, (piece,), (), 0, 0.0, 0, error_ns, error_ns, "both directions", 100, same)


def clocks_of(errors: Mapping[str, int | None], *, same: bool = True) -> RunClocks:
    hosts = {name: one_host(name, error, same=same) for name, error in errors.items()}
    return RunClocks(hosts, "a", 0, frozenset(hosts))


def test_a_varying_delay_to_the_switch_does_not_make_a_clock_inexact_that_many_drops_pin() -> None:
    fit = late(400, 4_000_000, 0, 3).fit
    assert fit.error_ns is not None
    assert fit.error_ns < MAX_RESIDUAL_NS < fit.spread_ns
    assert clock_error_ns("a", {"a": fit}, NO_CLOCKS) <= fit.error_ns


def test_a_host_with_few_drops_is_pinned_over_another_one_with_the_same_clock() -> None:
    many, few = late(2_000, 3_000_000, 0, 4).fit, late(9, 8_000_000, 0, 5).fit
    assert few.residual_ns > MAX_RESIDUAL_NS
    alone = clock_error_ns("b", {"a": many, "b": few}, NO_CLOCKS)
    assert alone > MAX_RESIDUAL_NS
    beside = clocks_of({"a": 0, "b": 200_000})
    assert clock_error_ns("b", {"a": many, "b": few}, beside) < 400_000
    unknown = clocks_of({"a": 0, "b": None})
    assert clock_error_ns("b", {"a": many, "b": few}, unknown) == alone


def test_the_error_of_a_line_is_not_exceeded() -> None:
    wrong = 0
    for seed in range(40):
        for number, delay in ((12, 2_000_000), (200, 500_000)):
            fit = late(number, delay, 7_000, seed).fit
            at = NOW_NS + np.array([0, 10_000_000_000])
            assert fit.error_ns is not None
            wrong += int(np.abs(fit.to_target(at) - (at - NOW_NS + 7_000)).max() > fit.error_ns)
    assert wrong <= 6, "of 80; each is exceeded with a probability of 0.05 or less"


def test_a_host_without_drops_has_the_error_of_its_clock_beside_the_one_with_drops() -> None:
    own = {"a": clock(20_000, 5_000, 1)}
    apart = clocks_of({"a": 0, "quiet": 300_000, "lost": None}, same=False)
    found = same_clock(own, {"a", "quiet", "lost"}, apart)
    assert set(found) == {"a", "quiet"}
    assert found["quiet"].jitter_ns == 300_000
    assert found["a"].jitter_ns < 5_000
    together = same_clock(own, {"a", "quiet"}, clocks_of({"a": 0, "quiet": 300_000}))
    assert together["quiet"].jitter_ns == 0
