# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from weir.controlplane.config import parse_experiment, with_lines

TEXT = """\
name: lines
hosts:
  a: {}
  b: {line_rate: 100 Mbit/s}
  c: {line_rate: unlimited}
  d: {packet_cost: 2 us}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""
GIGABIT = 10**9


@pytest.mark.parametrize(
    ("virtual", "rates"),
    [
        (True, {"a": 10 * GIGABIT, "b": GIGABIT // 10, "c": 0, "d": 10 * GIGABIT}),
        (False, {"a": 0, "b": GIGABIT // 10, "c": 0, "d": 10 * GIGABIT}),
    ],
)
def test_a_host_has_a_line_in_virtual_time_or_if_the_file_asks_for_one(
    virtual: bool, rates: dict[str, int]
) -> None:
    hosts = with_lines(parse_experiment(TEXT), virtual=virtual).hosts
    assert {name: host.line_rate for name, host in hosts.items()} == rates


def test_an_unlimited_line_is_written_as_it_was_read() -> None:
    dumped = with_lines(parse_experiment(TEXT), virtual=True).model_dump()
    assert [host["line_rate"] for host in dumped["hosts"].values()] == [
        "10 Gbit/s",
        "100 Mbit/s",
        "unlimited",
        "10 Gbit/s",
    ]
