# SPDX-License-Identifier: Apache-2.0
import pytest

from weir.topo.processors import ShareMeter, Shares, busy_share, shares_between


def test_time_that_is_neither_idle_nor_iowait_is_busy() -> None:
    # user, nice, system, idle, iowait, irq, softirq, steal: 32 of 200 ticks of two processors in a second.
    before = [100, 0, 50, 1000, 20, 0, 5, 0]
    after = [115, 2, 60, 1163, 25, 1, 6, 3]
    assert shares_between(before, after) == Shares(busy=32 / 200, stolen=3 / 200)
    assert shares_between(before, before) == Shares(0.0, 0.0)


def test_only_time_between_begin_and_end_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([[100, 0, 0, 0, 0, 0, 0, 5], [110, 0, 0, 10, 0, 0, 0, 5], [900] * 8, [900] * 7 + [920]])
    monkeypatch.setattr("weir.topo.processors.clock_ticks", lambda: next(readings))
    meter = ShareMeter()
    assert meter.shares == Shares(0.0, 0.0)
    for _ in range(2):
        meter.begin()
        meter.end()
    assert meter.shares == Shares(busy=30 / 40, stolen=20 / 40)


def test_a_share_is_between_0_and_1() -> None:
    assert 0.0 <= busy_share(0.05) <= 1.0
