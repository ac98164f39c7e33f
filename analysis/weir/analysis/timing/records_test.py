# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from weir.analysis.timing.records import records_of

MS = 1_000_000


def test_a_clock_that_was_set_back_is_found_by_times_that_go_back() -> None:
    stamps = np.array([0, 10, 20, 15, 16, 17, 18, 25, 30, 8, 9, 10, 11]) * MS
    records = records_of(np.arange(100, 113), stamps)
    assert records.set_back.tolist() == [103, 109]
    assert (records.by_ns // MS).tolist() == [5, 27]
    unfolded = records.unfolded(records.number, records.stamp_ns) // MS
    assert unfolded.tolist() == [0, 10, 20, 20, 21, 22, 23, 30, 35, 35, 36, 37, 38]


def test_records_out_of_order_are_no_clock_that_was_set_back() -> None:
    stamps = np.array([0, 10, 20, 12, 30, 40, 50, 60]) * MS
    assert len(records_of(np.arange(8), stamps).set_back) == 0
    stamps = np.array([0, 1_000, 2_000, 1_500, 1_600, 1_700, 1_800, 3_000])
    assert len(records_of(np.arange(8), stamps).set_back) == 0, "less than a millisecond"


def test_records_are_in_the_order_of_the_file_however_they_are_given() -> None:
    records = records_of(np.array([3, 1, 2]), np.array([30, 10, 20]))
    assert records.number.tolist() == [1, 2, 3]
    assert records.stamp_ns.tolist() == [10, 20, 30]
