# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

import pytest

from weir.topo.capture import CaptureResult, parse_counters
from weir.topo.process import ProcessError
from weir_tests.topo.runner import Runner


@pytest.mark.parametrize(
    ("line", "counters"),
    [
        # Printed by tcpdump 4.99.3 on SIGUSR1.
        (
            "tcpdump: 2834 packets captured, 4048 packets received by filter, 3 packets dropped by kernel\n",
            (2834, 4048, 3),
        ),
        ("tcpdump: 1 packet captured, 1 packet received by filter, 0 packets dropped by kernel", (1, 1, 0)),
    ],
)
def test_counters_are_read(line: str, counters: tuple[int, int, int]) -> None:
    assert parse_counters(line) == counters


def test_foreign_counters_are_refused() -> None:
    with pytest.raises(ProcessError, match="cannot be read from 'hello'"):
        parse_counters("hello")


@pytest.mark.parametrize(
    ("captured", "seen", "dropped", "lost"),
    [(10, 10, 0, 0), (11, 10, 0, 0), (9, 10, 0, 1), (8, 10, 2, 2), (7, 10, 2, 3), (10, 10, 2, 2)],
)
def test_lost_counts_dropped_and_unread_packets(captured: int, seen: int, dropped: int, lost: int) -> None:
    assert CaptureResult("a", Path("a.pcap"), captured, seen, dropped).lost == lost


def test_root_of_a_user_namespace_that_may_not_set_groups_captures(runner: Runner) -> None:
    # As in a rootless container: tcpdump would drop root privileges, and fail.
    root = replace(runner, prefix=("unshare", "--user", "--map-root-user", "--"))
    assert root.result("captured")["uid"] != 0
