# SPDX-License-Identifier: Apache-2.0
import itertools
import time
from pathlib import Path

from weir.topo.scheduling import PERIOD_NS, SchedulingProbe, lateness_of, summary, wake_ups


class Clock:
    """Injected time: each sleep is longer than requested by the next of `extra_ns`."""

    def __init__(self, extra_ns: list[int]) -> None:
        self.now_ns = 1_000_000
        self.extra_ns = extra_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9) + self.extra_ns.pop(0)


def test_delays_are_those_of_the_clock() -> None:
    clock = Clock([0, 300_000, 70_000])
    moments, delays = wake_ups(clock.now_ns, lambda: clock.now_ns, clock.sleep, lambda: not clock.extra_ns)
    assert list(delays) == [0, 300_000, 70_000]
    assert [after - before for before, after in itertools.pairwise(moments)] == [PERIOD_NS] * 2


def test_a_stall_counts_for_as_long_as_it_lasted() -> None:
    # 22 ms cover the four times 5, 10, 15 and 20 ms after the one that was slept for.
    clock = Clock([22_000_000, 0])
    _, delays = wake_ups(clock.now_ns, lambda: clock.now_ns, clock.sleep, lambda: not clock.extra_ns)
    assert list(delays) == [22_000_000, 17_000_000, 12_000_000, 7_000_000, 2_000_000, 0]


def test_percentiles_are_of_nearest_rank() -> None:
    found = lateness_of([1000 * n for n in range(1000, 0, -1)])
    assert found is not None
    assert (found.samples, found.p50_s, found.p99_s, found.p999_s, found.max_s) == (
        1000,
        500e-6,
        990e-6,
        999e-6,
        1e-3,
    )
    assert lateness_of([]) is None


def test_only_what_happened_while_flows_ran_counts() -> None:
    found = summary([10, 20, 30, 40], [1, 9_000, 3, 8_000], [("a", 5, 15), ("b", 25, 35)])
    assert found is not None
    assert found["samples"] == 2
    assert found["max_s"] == 3e-9
    assert found["phases"]["a"]["max_s"] == 1e-9
    assert summary([10], [1], []) is None


def test_the_process_measures_until_it_is_ended(tmp_path: Path) -> None:
    with SchedulingProbe(tmp_path) as probe:
        probe.begin("main")
        until_ns = time.monotonic_ns() + 10 * PERIOD_NS
        while time.monotonic_ns() < until_ns:
            pass
        probe.end()
        found = probe.stop()
    assert found is not None
    # Every period has a sample, however late the process was.
    assert 0 <= found["stolen_share"] < 1
    assert 9 <= found["samples"] == found["phases"]["main"]["samples"]
    assert 0 <= found["p50_s"] <= found["p99_s"] <= found["max_s"]
