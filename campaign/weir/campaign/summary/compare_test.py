# SPDX-License-Identifier: Apache-2.0
"""The comparison of two summaries: what differs, in which order, and what counts as the same."""

from __future__ import annotations

import math

import pytest

from weir.campaign.summary.compare import compare_summaries
from weir.campaign.summary.model import (
    CampaignFacts,
    CellSummary,
    Counts,
    FigureValue,
    GuestKernel,
    MadeBy,
    RunFacts,
    StudyTable,
    Summary,
)

COUNTS = Counts(planned=2, complete=2, invalid=0, unexplained=0)


def figure(
    name: str, value: float | None, half_width: float | None = None, coverage: float = 0.97
) -> FigureValue:
    interval = None if value is None or half_width is None else (value - half_width, value + half_width)
    return FigureValue(
        name=name,
        subject="bbr",
        unit="%",
        value=value,
        n=2,
        runs=2,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        coverage=coverage if interval else None,
    )


def cell(label: str, *figures: FigureValue, counts: Counts = COUNTS, digest: str = "d") -> CellSummary:
    run = RunFacts(
        run=f"{label}_r001", repeat=1, experiment_sha256="e", digest=digest, unexplained=0, invalid=()
    )
    return CellSummary(cell={"rate": label}, counts=counts, figures=figures, runs=(run,))


def summary(
    *cells: CellSummary, kernel: str = "6.12", version: str = "1", study: tuple[StudyTable, ...] = ()
) -> Summary:
    return Summary(
        schema_version=1,
        campaign=CampaignFacts(name="c", file_sha256="f", study=None),
        digest=None,
        made_by=MadeBy(weir_version=version, commit=None, programs={}),
        targets=("softswitch",),
        kernels=(GuestKernel(name=kernel, version=kernel, inputs_sha256=kernel),),
        congestion_controls=("bbr",),
        counts=COUNTS,
        left_out={},
        cells=cells,
        study=study,
    )


def test_a_campaign_is_the_same_as_its_repeat() -> None:
    one = summary(cell("5", figure("loss", 1.0, 0.1)))
    found = compare_summaries(one, one)
    assert found.same
    assert (found.provenance, found.figures_compared, found.digests_compared) == ((), 1, 1)


def test_another_kernel_with_the_same_results_is_named_and_no_difference() -> None:
    cells = cell("5", figure("loss", 1.0))
    found = compare_summaries(summary(cells), summary(cells, kernel="7.3", version="2"))
    assert found.same
    assert [(one.what, one.a, one.b) for one in found.provenance] == [
        ("weir", "1", "2"),
        ("kernel", "6.12 (6.12)", "7.3 (7.3)"),
        ("kernel's inputs", "6.12", "7.3"),
    ]


def test_the_largest_difference_relative_to_its_intervals_is_first() -> None:
    names = ("small", "points", "wide", "no interval", "no interval, larger", "unknown", "equal")
    a = [(1.0, 0.5), (1.0, 0.0), (1.0, 50.0), (1.0, None), (1.0, None), (None, None), (1.0, 1.0)]
    b = [(3.0, 0.5), (1.1, 0.0), (90.0, 50.0), (1.5, None), (2.0, None), (1.0, None), (1.0, 1.0)]
    one, other = (
        summary(cell("5", *(figure(name, *its) for name, its in zip(names, values, strict=True))))
        for values in (a, b)
    )
    found = compare_summaries(one, other)
    assert [its.a.name for its in found.figures] == [
        "points",
        "small",
        "wide",
        "no interval, larger",
        "no interval",
        "unknown",
    ]
    by_name = {its.a.name: its for its in found.figures}
    assert by_name["points"].in_intervals == math.inf
    assert by_name["small"].in_intervals == pytest.approx(2 / 0.5)
    assert by_name["small"].apart is True
    assert by_name["wide"].in_intervals == pytest.approx(89 / 50)
    assert by_name["wide"].apart is False
    assert by_name["no interval"].relative == pytest.approx(0.5)
    assert (by_name["unknown"].difference, by_name["unknown"].apart) == (None, None)
    assert not found.same


def test_differences_are_not_measured_by_the_range_of_few_runs() -> None:
    one, other = (summary(cell("5", figure("loss", value, 0.1, coverage=0.5))) for value in (1.0, 2.0))
    (found,) = compare_summaries(one, other).figures
    assert (found.in_intervals, found.apart, found.relative) == (None, None, 1.0)


def test_cells_and_figures_that_only_one_has_are_named() -> None:
    one = summary(cell("5", figure("loss", 1.0)), cell("10"))
    other = summary(cell("5", figure("delay", 1.0)), cell("20"))
    found = compare_summaries(one, other)
    assert [(its.side, its.cell["rate"], its.figure and its.figure.name) for its in found.only] == [
        ("a", "10", None),
        ("b", "20", None),
        ("a", "5", "loss"),
        ("b", "5", "delay"),
    ]
    assert not found.same


def test_cells_are_matched_whatever_the_order_of_their_axes() -> None:
    one, other = (
        CellSummary(cell=dict(axes), counts=COUNTS, figures=(figure("loss", 1.0),), runs=())
        for axes in ((("rate", "5"), ("cc", "bbr")), (("cc", "bbr"), ("rate", "5")))
    )
    assert compare_summaries(summary(one), summary(other)).same


def test_other_counts_and_other_digests_are_differences_although_all_figures_are_the_same() -> None:
    more = Counts(planned=2, complete=2, invalid=1, unexplained=3)
    found = compare_summaries(summary(cell("5")), summary(cell("5", counts=more)))
    assert [(its.what, its.a, its.b) for its in found.counts] == [("invalid", 0, 1), ("unexplained", 0, 3)]
    assert not found.same
    found = compare_summaries(summary(cell("5")), summary(cell("5", digest="other")))
    assert found.digests == ("5_r001",)
    assert not found.same


def test_rows_of_a_study_are_matched_by_their_first_columns_that_tell_them_apart() -> None:
    def table(*rows: tuple[str | float | None, ...]) -> tuple[StudyTable, ...]:
        return (StudyTable(name="t", title="T", columns=("scenario", "rule", "ours"), rows=rows),)

    one = table(("BBR", "50 %", 1.0), ("BBR", "95 %", 2.0), ("CUBIC", "50 %", 3.0))
    other = table(("CUBIC", "50 %", 3.0), ("BBR", "95 %", 2.5), ("CUBIC", "95 %", None))
    found = compare_summaries(summary(study=one), summary(study=other))
    assert [(its.row, its.column, its.a, its.b) for its in found.tables] == [
        ("BBR, 50 %", "", "a row", None),
        ("BBR, 95 %", "ours", 2.0, 2.5),
        ("CUBIC, 95 %", "", None, "a row"),
    ]
    assert not found.same
    assert [(its.table, its.a, its.b) for its in compare_summaries(summary(study=one), summary()).tables] == [
        ("t", "3 rows", None)
    ]
