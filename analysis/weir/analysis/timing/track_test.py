# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from weir.analysis.errors import ClockError
from weir.analysis.tables import Floats
from weir.analysis.timing.bounds import NOTHING, Side
from weir.analysis.timing.parts import LEAST_STEP_NS
from weir.analysis.timing.track import Track, fit_track

S, MS, US = 1e9, 1e6, 1e3


@dataclass(frozen=True)
class Truth:
    """The difference of two clocks, ns, and the packets between them."""

    offset: float = 0.0
    ppm: float = 0.0
    steps: tuple[tuple[float, float], ...] = ()
    seconds: float = 60.0
    packets: int = 6000
    least: tuple[float, float] = (100 * US, 100 * US)
    """The least delay there and back."""
    noise: float = 200 * US
    queue: float = 0.0
    """The largest delay of a queue on the way there, which fills and drains slowly."""

    def at(self, x: Floats) -> Floats:
        found = self.offset + self.ppm * 1e-6 * x
        for at, size in self.steps:
            found = found + size * (x >= at)
        return np.asarray(found)

    def sides(self, seed: int = 1) -> tuple[Side, Side]:
        rng = np.random.default_rng(seed)
        there, back = (
            np.sort(rng.uniform(0, self.seconds * S, n)) for n in (self.packets, self.packets // 2)
        )
        queue = self.queue * np.abs(np.sin(there / (self.seconds * S) * 9))
        above = self.at(there) + self.least[0] + rng.exponential(self.noise, len(there)) + queue
        below = self.at(back) - self.least[1] - rng.exponential(self.noise, len(back))
        return Side(there, above), Side(back, -below)

    def fit(self, seed: int = 1) -> Track:
        return fit_track(*self.sides(seed))

    def errors(self, track: Track) -> Floats:
        """Of the track, except within 0.5 s of a step, where it may be early or late."""
        x = np.linspace(0, self.seconds * S, 4001)
        for at, _ in self.steps:
            x = x[np.abs(x - at) > 0.5 * S]
        return np.asarray(track.at(x) - self.at(x))


def test_offset_and_drift_from_both_directions_lie_in_the_middle() -> None:
    truth = Truth(offset=50 * MS, ppm=-50.0)
    track = truth.fit()
    assert track.steps == ()
    assert track.lines[0].slope * 1e6 == pytest.approx(-50.0, abs=0.2)
    assert np.abs(truth.errors(track)).max() < 10 * US
    assert track.error is not None
    assert 100 * US <= track.error <= 200 * US


def test_delays_that_differ_move_the_difference_by_half_of_that_and_no_more_than_the_error() -> None:
    truth = Truth(offset=-3 * MS, least=(4 * MS, 1 * MS))
    track = truth.fit()
    assert np.median(truth.errors(track)) == pytest.approx(1.5 * MS, abs=20 * US)
    assert track.error is not None
    assert 2.5 * MS <= track.error <= 2.6 * MS


@given(
    moments=st.lists(st.floats(0, 60), min_size=1, max_size=3, unique=True),
    offset_ms=st.floats(-50, 50),
    step_ms=st.sampled_from((0.0, -3.0, 40.0)),
    delay_ms=st.floats(0, 20),
    seed=st.integers(0, 1000),
)
@example(moments=[0.0, 5.0], offset_ms=1.0, step_ms=0.0, delay_ms=0.5, seed=1)
def test_a_few_moments_with_packets_leave_an_error_that_the_difference_is_within(
    moments: list[float], offset_ms: float, step_ms: float, delay_ms: float, seed: int
) -> None:
    # A step within a moment may have too few packets on one side to show.
    assume(not any(at < 30 < at + 0.005 for at in moments))
    rng = np.random.default_rng(seed)
    x = np.concatenate([at * S + np.sort(rng.uniform(0, 5 * MS, 40)) for at in sorted(moments)])
    true = offset_ms * MS + step_ms * MS * (x >= 30 * S)
    there = rng.random(len(x)) < 0.5
    delays = delay_ms * MS + rng.exponential(200 * US, len(x))
    above, below = Side(x[there], (true + delays)[there]), Side(x[~there], (delays - true)[~there])
    track = fit_track(above, below)
    if track.error is None:
        assert step_ms != 0  # within a part, whose packets contradict each other
        return
    # A moment may lie in two parts, so that each has packets of a few microseconds less delay.
    assert np.abs(track.at(x) - true).max() <= track.error + 1.0


@pytest.mark.parametrize("there", [None, 200])
@pytest.mark.parametrize("back", [*range(1, 11), 16, 17])
def test_few_packets_leave_an_error_that_the_difference_of_clocks_that_were_not_set_is_within(
    back: int, there: int | None
) -> None:
    beyond, stated = [], 0
    for seed in range(80):
        rng = np.random.default_rng((seed, back))
        seconds, noise = rng.choice([0.01, 1, 10, 60]), rng.choice([20 * US, 300 * US, 5 * MS])
        times = [np.sort(rng.uniform(0, seconds * S, n)) for n in (there or back, back)]
        # In every third case the packets of the two directions overlap in time only partly.
        times[1] += rng.uniform(0, seconds * S) * (seed % 3 == 0)
        truth = Truth(offset=rng.uniform(-50 * MS, 50 * MS), ppm=rng.uniform(-60, 60))
        above, below = (
            Side(x, sign * truth.at(x) + least + noise * rng.exponential(1, len(x)) ** (1 + seed % 2 * 2))
            for x, sign, least in zip(times, (1, -1), rng.choice([10 * US, 100 * US, 5 * MS], 2), strict=True)
        )
        track = fit_track(above, below)
        if track.error is not None:
            x = np.concatenate(times)
            stated += 1
            beyond += [seed] if np.abs(track.at(x) - truth.at(x)).max() > track.error + 1.0 else []
    print(f"{len(beyond)} of {stated} beyond the error, {80 - stated} unknown")
    assert beyond == []
    # Two packets that are not near each other in time leave it open.
    assert stated >= (80 if there else 10)


def test_a_step_without_packets_of_both_directions_after_it_leaves_the_error_unknown() -> None:
    above, below = Truth(steps=((30 * S, -20 * MS),)).sides()
    few = np.isin(np.arange(len(below)), np.flatnonzero(below.x < 25 * S)[::150])
    track = fit_track(above, below.select(few))
    assert len(track.steps) == 1
    assert track.both
    assert track.error is None


def test_a_step_among_the_only_packets_leaves_the_error_unknown() -> None:
    x = np.arange(40.0) * 100 * US
    true = 40 * MS * (x >= 2 * MS)
    there = np.arange(40) % 2 == 0
    delays = np.full(40, 0.5 * MS)
    above, below = Side(x[there], (true + delays)[there]), Side(x[~there], (delays - true)[~there])
    assert fit_track(above, below).error is None


def test_packets_of_both_directions_in_no_part_together_leave_the_error_unknown() -> None:
    track = fit_track(Side(np.array([0.0]), np.array([MS])), Side(np.array([5 * S]), np.array([MS])))
    assert track.error is None


def test_one_direction_includes_the_least_delay_and_says_that_the_error_is_unknown() -> None:
    truth = Truth(offset=5 * MS, ppm=50.0, steps=((20 * S, 4 * MS),))
    track = fit_track(truth.sides()[0], NOTHING)
    assert truth.errors(track) == pytest.approx(100 * US, abs=20 * US)
    assert track.error is None
    back = fit_track(NOTHING, truth.sides()[1])
    assert truth.errors(back) == pytest.approx(-100 * US, abs=20 * US)


@pytest.mark.parametrize("size", [2 * MS, -2 * MS, 1 * S, -1 * S, 40 * S])
def test_a_step_is_found_with_its_time_and_size(size: float) -> None:
    truth = Truth(offset=1 * MS, ppm=50.0, steps=((23.4 * S, size),))
    track = truth.fit()
    ((at, found),) = track.steps
    assert abs(at - 23.4 * S) < 100 * MS
    assert found == pytest.approx(size, abs=50 * US)
    assert np.abs(truth.errors(track)).max() < 30 * US


def test_two_steps_are_told_apart_although_one_direction_rests_in_between() -> None:
    # The sizes and times of a run whose TCP flow stalled at the first step.
    truth = Truth(steps=((2.8 * S, -2 * MS), (3.8 * S, -4 * MS)), seconds=8.0, noise=20 * US)
    above, below = truth.sides()
    above = above.select((above.x < 2.8 * S) | (above.x > 3.3 * S))
    track = fit_track(above, below)
    assert [round(size / MS) for _, size in track.steps] == [-2, -4]
    assert track.error is not None
    x = np.linspace(0, 8 * S, 801)
    x = x[(np.abs(x - 2.8 * S) > 100 * MS) & (np.abs(x - 3.8 * S) > 100 * MS)]
    assert np.abs(track.at(x) - truth.at(x)).max() <= track.error


def test_a_queue_that_fills_and_drains_is_no_step() -> None:
    truth = Truth(ppm=20.0, queue=80 * MS)
    track = truth.fit()
    assert track.steps == ()
    assert track.error is not None
    assert np.abs(truth.errors(track)).max() <= track.error


def test_a_step_is_found_although_a_queue_hides_it_in_one_direction() -> None:
    truth = Truth(ppm=20.0, queue=80 * MS, steps=((31 * S, 3 * MS),))
    track = truth.fit()
    ((at, size),) = track.steps
    assert abs(at - 31 * S) < 200 * MS
    assert size == pytest.approx(3 * MS, abs=200 * US)


@settings(max_examples=40, deadline=None)
@given(
    fills=st.floats(5, 50),
    lasts=st.floats(2, 60),
    delay=st.floats(5 * MS, 100 * MS),
    back=st.integers(24, 200),
    silent=st.booleans(),
    seed=st.integers(0, 2**16),
)
# It tilts the envelope of its direction, as it fills in the middle and lasts to the end.
@example(fills=30, lasts=30, delay=5 * MS, back=24, silent=False, seed=0)
# Of the parts with packets of both directions, few are before it.
@example(fills=6.3, lasts=60, delay=20 * MS, back=26, silent=False, seed=51593)
# The only packet back after it was itself delayed a little.
@example(fills=46.6, lasts=30, delay=20 * MS, back=12, silent=False, seed=47470)
# Its own packets divide it into stretches of one level.
@example(fills=7.7, lasts=60, delay=100 * MS, back=26, silent=False, seed=7342)
def test_a_queue_that_fills_at_once_and_stays_full_is_no_step(
    fills: float, lasts: float, delay: float, back: int, silent: bool, seed: int
) -> None:
    truth = Truth(ppm=20.0, noise=50 * US)
    above, below = truth.sides(seed)
    full = [(side.x >= fills * S) & (side.x < (fills + lasts) * S) for side in (above, below)]
    few = np.zeros(len(below), dtype=bool)
    few[np.random.default_rng(seed).integers(0, len(below), back)] = True
    # A flow's acknowledgments, or those of its start and end only.
    few &= ~full[1] | (not silent)
    few[:4] = True
    there, back_again = Side(above.x, above.y + delay * full[0]), below.select(few)
    track = fit_track(there, back_again)
    assert track.steps == ()
    assert track.error is not None
    assert np.abs(truth.errors(track)).max() <= track.error
    assert fit_track(back_again, there).steps == ()


@pytest.mark.parametrize(
    ("fills", "full", "at", "size", "back", "seed"),
    [
        (31.7, 100 * MS, 47.9, -2 * MS, 3000, 2998),
        (26.3, 100 * MS, 53.0, -2 * MS, 3000, 14525),
        (7.5, 100 * MS, 47.3, 20 * MS, 3000, 48495),
        (18.2, 100 * MS, 28.0, -200 * MS, 3000, 26321),
        (14.6, 5 * MS, 25.0, -200 * MS, 3000, 31427),
        (31.4, 100 * MS, 34.2, -20 * MS, 1000, 33669),
        (21.3, 5 * MS, 34.8, 2 * MS, 3000, 19972),
    ],
)
def test_a_step_while_a_queue_stays_full_is_told_from_the_queue(
    fills: float, full: float, at: float, size: float, back: int, seed: int
) -> None:
    truth = Truth(ppm=20.0, steps=((at * S, size),))
    above, below = truth.sides(seed)
    few = np.random.default_rng(seed).permutation(len(below)) < back
    track = fit_track(Side(above.x, above.y + full * (above.x >= fills * S)), below.select(few))
    ((_, found),) = track.steps
    assert found == pytest.approx(size, abs=200 * US)
    assert track.error is not None
    assert np.abs(truth.errors(track)).max() <= track.error < 300 * US


@pytest.mark.parametrize("size", [20 * MS, -20 * MS])
def test_a_queue_that_fills_as_the_clock_steps_leaves_the_step_in_doubt(size: float) -> None:
    truth = Truth(steps=((30 * S, size),))
    above, below = truth.sides()
    track = fit_track(Side(above.x, above.y + 50 * MS * (above.x >= 30 * S)), below)
    assert track.error is not None
    assert max(np.abs(truth.errors(track)).max(), 50 * MS) <= track.error < 51 * MS


@pytest.mark.parametrize(("at", "seed"), [(38.7, 45839), (30.2, 18172), (12.8, 9323)])
def test_a_step_as_large_as_the_delays_of_a_queue_is_found_where_few_packets_come_back(
    at: float, seed: int
) -> None:
    truth = Truth(ppm=20.0, noise=20 * US, queue=20 * MS, steps=((at * S, 20 * MS),))
    above, below = truth.sides(seed)
    track = fit_track(above, below.select(np.random.default_rng(seed).permutation(len(below)) < 300))
    ((found_at, found),) = track.steps
    assert abs(found_at - at * S) < 500 * MS
    assert found == pytest.approx(20 * MS, abs=200 * US)


def test_a_stall_of_both_directions_is_no_step() -> None:
    truth = Truth()
    above, below = truth.sides()
    stalled = [
        Side(side.x, side.y + np.where((side.x > 20 * S) & (side.x < 22 * S), 30 * MS, 0))
        for side in (above, below)
    ]
    assert fit_track(*stalled).steps == ()


def test_mismatched_packets_are_left_out() -> None:
    truth = Truth(offset=2 * MS, ppm=-10.0)
    above, below = truth.sides()
    above.y[[100, 2000, 4000]] -= 500 * MS
    below.y[[50, 1500]] -= 700 * MS
    track = fit_track(above, below)
    assert track.steps == ()
    assert np.abs(truth.errors(track)).max() < 20 * US


def test_a_few_packets_give_an_offset() -> None:
    track = fit_track(
        Side(np.array([0.0, 5.0]), np.array([70.0, 60.0])), Side(np.array([3.0]), np.array([-40.0]))
    )
    assert track.at(np.array([0.0, 5.0])).tolist() == [50.0, 50.0]


def test_without_a_packet_there_is_no_difference() -> None:
    with pytest.raises(ClockError, match="no packet was stamped by both"):
        fit_track(NOTHING, NOTHING)


@settings(max_examples=40, deadline=None)
@given(
    offset=st.floats(-10 * S, 10 * S),
    ppm=st.floats(-60, 60),
    at=st.floats(5, 55),
    size=st.one_of(st.floats(2 * MS, 2 * S), st.floats(-2 * S, -2 * MS)),
    queue=st.sampled_from([0.0, 20 * MS]),
    seed=st.integers(0, 2**16),
)
@example(offset=0.0, ppm=0.0, at=5.0, size=2 * MS, queue=20 * MS, seed=1917)
@example(offset=0.0, ppm=0.0, at=5.0, size=-2 * MS, queue=20 * MS, seed=318)
@example(offset=0.0, ppm=0.0, at=5.0, size=-9_976_427.0, queue=20 * MS, seed=319)
@example(offset=0.0, ppm=0.0, at=24.0, size=-2 * MS, queue=20 * MS, seed=42474)
@example(offset=0.0, ppm=0.0, at=24.5, size=-2 * MS, queue=20 * MS, seed=42474)
@example(offset=0.0, ppm=0.0, at=42.0, size=2 * MS, queue=20 * MS, seed=908)
@example(offset=7.14 * S, ppm=-32.14, at=54.54, size=19_324_700.0, queue=20 * MS, seed=3547)
def test_any_offset_drift_and_step_are_found_within_the_error_stated(
    offset: float, ppm: float, at: float, size: float, queue: float, seed: int
) -> None:
    truth = Truth(offset=offset, ppm=ppm, steps=((at * S, size),), queue=queue)
    track = truth.fit(seed)
    assert track.error is not None
    assert track.error < 600 * US
    assert np.abs(truth.errors(track)).max() <= track.error
    ((found_at, found_size),) = (step for step in track.steps if abs(step[1]) >= LEAST_STEP_NS)
    assert abs(found_at - at * S) < 250 * MS
    assert abs(found_size - size) <= track.error


@settings(max_examples=40, deadline=None)
@given(
    noise=st.floats(1 * US, 2 * MS),
    packets=st.integers(200, 20_000),
    queue=st.sampled_from([0.0, 5 * MS, 100 * MS]),
    seed=st.integers(0, 2**16),
)
def test_a_clock_that_was_not_set_has_no_step_of_a_millisecond(
    noise: float, packets: int, queue: float, seed: int
) -> None:
    truth = Truth(packets=packets, noise=noise, queue=queue, ppm=10.0)
    track = truth.fit(seed)
    assert [size for _, size in track.steps if abs(size) > max(1 * MS, 4 * noise)] == []
