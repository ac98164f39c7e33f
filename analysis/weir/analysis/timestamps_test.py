# SPDX-License-Identifier: Apache-2.0
"""Timestamps of a host with ticks of 1 ms, made from times that the tests know."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from weir.analysis.tables import Ints
from weir.analysis.timestamps import Timestamps, delay_jitter_ns, drift_of, min_rtt_ns, tick_of, timestamps_of
from weir_tests.analysis.tcp_capture import write_run

MS = 1_000_000


def seen(faster: float = 0.0, jitter_ms: float = 0.0, seconds: float = 30.0, seed: int = 1) -> Timestamps:
    """1,000 packets/s as a capture whose clock runs faster sees them, behind a queue that is often empty."""
    rng = np.random.default_rng(seed)
    sent_ns = np.sort(rng.integers(0, int(seconds * 1e9), int(1000 * seconds)))
    queued_ns = np.where(rng.random(len(sent_ns)) < 0.2, 0.0, rng.exponential(jitter_ms * MS, len(sent_ns)))
    seen_ns = np.rint((sent_ns + queued_ns) * (1 + faster)).astype(np.int64)
    order = np.argsort(seen_ns, kind="stable")
    tsval = sent_ns // MS
    return Timestamps(seen_ns[order], tsval[order], np.zeros(len(order), dtype=np.int64))


@pytest.mark.parametrize("faster", [0.0, 50e-6, -200e-6])
@pytest.mark.parametrize("jitter_ms", [0.0, 3.0])
def test_a_tick_is_as_long_as_the_clock_of_the_capture_says(faster: float, jitter_ms: float) -> None:
    tick = tick_of(seen(faster, jitter_ms))
    assert tick is not None
    assert tick.ns == pytest.approx(MS * (1 + faster), abs=max(2 * tick.error_ns, 1.0))
    assert tick.error_ns < 10e-6 * MS


def test_the_tick_of_a_long_capture_needs_little_memory() -> None:
    at_ns = np.arange(7_200, dtype=np.int64) * 250_000_000  # half an hour
    at_ms = at_ns // 10**6
    stamps = Timestamps(at_ns + np.random.default_rng(0).integers(0, 10**6, len(at_ns)), at_ms, at_ms)
    tracemalloc.start()
    try:
        tick = tick_of(stamps)
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert tick is not None
    assert tick.ns == pytest.approx(10**6, abs=1)
    assert most_bytes < 50e6


def test_the_drift_of_two_clocks_shows_against_a_host_that_both_saw() -> None:
    drift = drift_of(seen(10e-6, 1.0, seed=1), seen(60e-6, 2.0, seed=2))
    assert drift == pytest.approx(50e-6, abs=5e-6)
    assert drift_of(seen(seed=3), seen(seed=4)) == 0.0


def test_no_drift_is_told_from_a_short_capture_or_from_other_ticks() -> None:
    assert drift_of(seen(), seen(seconds=3.0)) is None
    assert drift_of(seen(), seen(faster=0.01)) is None
    assert drift_of(seen(), Timestamps.none()) is None


def test_jitter_adds_to_that_of_the_ticks() -> None:
    exact, late = delay_jitter_ns(seen()), delay_jitter_ns(seen(jitter_ms=3.0))
    assert exact == pytest.approx(0.25 * MS, rel=0.1)
    assert late is not None
    assert late > 1.0 * MS
    assert delay_jitter_ns(Timestamps.none()) is None


def numbers(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def test_an_rtt_runs_from_an_ack_to_its_first_echo() -> None:
    acks = Timestamps(numbers(0, 5 * MS, 10 * MS), numbers(100, 105, 110), numbers(1, 1, 1))
    # 2**32 more, because each direction is unwrapped from its own beginning.
    data = Timestamps(numbers(22 * MS, 23 * MS, 31 * MS), numbers(1, 2, 3), numbers(100, 100, 110) + 2**32)
    assert min_rtt_ns(data, acks) == 21 * MS
    assert min_rtt_ns(data, Timestamps.none()) is None


def test_an_echo_that_is_repeated_while_there_is_a_hole_is_no_delay() -> None:
    acks = Timestamps(numbers(20, 21, 22, 40), numbers(7, 8, 9, 10), numbers(1, 1, 1, 21))
    back = acks.echoed()
    assert (back.time_ns.tolist(), back.tsval.tolist()) == ([20, 40], [1, 21])


def test_timestamps_are_read_by_flow(tmp_path: Path) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    write_run(tmp_path)
    data = ("10.0.0.2", "10.0.0.1", 40_000, 5_201, 6)
    absent = ("10.0.0.2", "10.0.0.1", 40_000, 5_202, 6)
    found = timestamps_of(tmp_path / "pcap" / "server.pcap", [data, absent])
    assert list(found) == [data]
    stamps = found[data]
    assert len(stamps) == 404
    assert np.abs(stamps.time_ns - stamps.time_ns[0] - MS * (stamps.tsval - 1)).max() < MS
