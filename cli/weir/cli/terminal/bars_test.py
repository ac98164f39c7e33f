# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import pairwise

import pytest

from weir.cli.terminal.bars import Counter, bars


def test_the_highest_value_fills_all_rows_and_missing_values_are_blank() -> None:
    assert bars([16.0, 8.0, 0.0, None], top=16, rows=2) == ["█   ", "██  "]


def test_a_small_value_is_visible_and_one_above_the_top_fits() -> None:
    assert bars([0.001, 100.0], top=8, rows=1) == ["▁█"]


def test_ascii_replaces_the_blocks() -> None:
    assert bars([8.0, 4.0, 1.0], top=8, rows=1, ascii_only=True) == ["@=."]


def test_nothing_to_compare_with_is_blank() -> None:
    assert bars([0.0, None], top=0, rows=1) == ["  "]


def counter(*values: tuple[float, int]) -> Counter:
    made = Counter()
    for time_s, value in values:
        made.add(time_s, value)
    return made


def test_rates_count_each_packet_once_whatever_the_edges_are() -> None:
    counted = counter((0.1, 1000), (0.4, 1030), (1.1, 1100), (2.0, 1190))
    edges_s = [0.0, 0.3, 0.7, 1.6, 2.0]
    rates = counted.rates(edges_s)
    lengths = [end - begin for begin, end in pairwise(edges_s)]
    counts = [rate * length for rate, length in zip(rates, lengths, strict=True) if rate is not None]
    assert sum(counts) == pytest.approx(counted.total)
    assert counted.total == 190


def test_intervals_that_the_samples_do_not_reach_are_unknown() -> None:
    assert counter((0.0, 0), (1.0, 8)).rates([0.0, 1.0, 2.0]) == [8.0, None]
    assert counter().rates([0.0, 1.0]) == [None]


def test_the_present_rate_covers_the_last_second_only() -> None:
    counted = counter((0.0, 0), (5.0, 1000), (5.5, 1010), (6.0, 1020))
    assert counted.rate(over_s=1.0) == pytest.approx(20)
    assert counter((0.0, 7)).rate(over_s=1.0) == 0
