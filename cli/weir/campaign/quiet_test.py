# SPDX-License-Identifier: Apache-2.0
from weir.campaign.quiet import busy_share, share_between


def test_what_is_neither_idle_nor_waiting_for_disks_is_busy() -> None:
    # user, nice, system, idle, iowait, irq, softirq, steal: 30 of 200 ticks of two processors in a second.
    before = [100, 0, 50, 1000, 20, 0, 5, 0]
    after = [115, 2, 60, 1165, 25, 1, 6, 1]
    assert share_between(before, after) == 30 / 200
    assert share_between(before, before) == 0.0


def test_a_share_is_between_nothing_and_all() -> None:
    assert 0.0 <= busy_share(0.05) <= 1.0
