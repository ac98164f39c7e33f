# SPDX-License-Identifier: Apache-2.0
"""Numbers with an interval: of a count, and of the repeats of cells."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from weir.analysis.statistics import share
from weir.campaign.outcome import Outcome
from weir.campaign.studies.measured import counted, interval_cells, measured, repeats


def run(value: float, **cell: str) -> Outcome:
    """A run of a cell, whose result is a number."""
    manifest: Any = SimpleNamespace()
    return Outcome("run", Path(), cell, 0, manifest, {"value": value}, ())


def mean(runs: Sequence[Outcome]) -> float | None:
    return statistics.fmean(values(runs)) if runs else None


def values(runs: Sequence[Outcome]) -> list[float]:
    return [cast(float, one.result["value"]) for one in runs]


def test_each_repeat_has_one_run_of_each_cell_and_parts_do_not_make_cells() -> None:
    runs = [
        run(1, part="alone", rtt="5 ms"),
        run(2, part="alone", rtt="9 ms"),
        run(3, part="alone again", rtt="5 ms"),
        run(4, part="alone again", rtt="9 ms"),
        run(5, part="alone again", rtt="9 ms"),
    ]
    assert [values(repeat) for repeat in repeats(runs)] == [[1, 2], [3, 4]]
    assert repeats([]) == []


def test_the_interval_is_that_of_the_numbers_of_each_repeat() -> None:
    runs = [run(float(a + b), cell=str(b)) for a in range(5) for b in (0, 10)]
    found = measured(mean, runs)
    assert found is not None
    assert found.value == 7
    # Of five repeats, 5 to 9: their range misses the median where all are on one side of it.
    assert interval_cells(found.interval) == (5, 9, round(100 * (1 - 2 / 2**5), 1))


def test_the_interval_holds_the_number_of_all_runs_together() -> None:
    # A largest mean over cells is below the mean of each repeat's largest value.
    runs = [run(value, cell=cell) for cell, its in {"a": (9, 1), "b": (1, 9)}.items() for value in its]

    def largest(runs: Sequence[Outcome]) -> float:
        cells = {one.cell["cell"] for one in runs}
        return max(mean([one for one in runs if one.cell["cell"] == cell]) or 0.0 for cell in cells)

    found = measured(largest, runs)
    assert found is not None
    assert interval_cells(found.interval) == (5, 9, 50)


def test_one_repeat_has_no_interval_and_what_is_not_shown_neither() -> None:
    alone = measured(mean, [run(1, cell="a"), run(2, cell="b")])
    assert alone is not None
    assert (alone.value, alone.interval) == (1.5, None)
    assert measured(mean, []) is None
    unseen = measured(lambda runs: math.nan if len(runs) > 1 else 1.0, [run(1, cell="a"), run(2, cell="a")])
    assert unseen is not None
    assert math.isnan(unseen.value)
    assert unseen.interval is None
    assert interval_cells(None) == (None, None, None)


def test_a_repeat_that_does_not_show_the_effect_counts_for_nothing() -> None:
    found = measured(lambda runs: max(values(runs)), [run(each, cell="a") for each in (1, math.nan, 3, 4)])
    assert found is not None
    assert interval_cells(found.interval) == (1, 4, 75)


def test_a_count_has_its_exact_interval() -> None:
    found = counted(share(0, 10))
    assert found is not None
    # Clopper and Pearson: 1 − 0.025^(1/10).
    assert interval_cells(found.interval) == (0, pytest.approx(100 * (1 - 0.025**0.1), abs=1e-3), 95)
    assert counted(share(0, 0)) is None
