# SPDX-License-Identifier: Apache-2.0
"""Compares the summaries of two campaigns. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weir.campaign.summary.model import CellSummary, FigureValue, StudyTable, Summary, Value
from weir.rundir.plural import plural

COVERAGE = 0.95
"""The coverage of the intervals by which differences are measured."""
_Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FigureDifference:
    """A figure of a cell that two campaigns have with different values, numbers or intervals."""

    cell: Mapping[str, str]
    a: FigureValue
    b: FigureValue

    @property
    def difference(self) -> float | None:
        """b − a, in the unit of both; None if one has no value."""
        return None if self.a.value is None or self.b.value is None else self.b.value - self.a.value

    @property
    def relative(self) -> float | None:
        """The difference ÷ a; None if that is 0 or unknown."""
        return self.difference / abs(self.a.value) if self.difference is not None and self.a.value else None

    @property
    def in_intervals(self) -> float | None:
        """The size of the difference ÷ the mean half-width of both intervals.

        None if one has no interval of `COVERAGE`; infinite if both intervals are points. Above 2, equally
        wide intervals around their values do not meet.
        """
        a, b = _interval(self.a), _interval(self.b)
        if self.difference is None or a is None or b is None:
            return None
        half_width = (a[1] - a[0] + b[1] - b[0]) / 4
        if half_width == 0:
            return math.inf if self.difference else 0.0
        return abs(self.difference) / half_width

    @property
    def apart(self) -> bool | None:
        """Whether the intervals do not meet; None if one has none of `COVERAGE`."""
        a, b = _interval(self.a), _interval(self.b)
        return None if a is None or b is None else a[1] < b[0] or b[1] < a[0]


def _interval(figure: FigureValue) -> tuple[float, float] | None:
    """Both ends; None if the interval covers less, as the range of fewer than six runs does."""
    if figure.low is None or figure.high is None or (figure.coverage or 0) < COVERAGE:
        return None
    return figure.low, figure.high


@dataclass(frozen=True)
class OnlyIn:
    """A cell, or one figure of it, that only one of two campaigns has."""

    side: str
    """a or b."""
    cell: Mapping[str, str]
    figure: FigureValue | None = None


@dataclass(frozen=True)
class CountDifference:
    """A number of runs or packets of a cell that differs: planned, complete, invalid, unexplained."""

    cell: Mapping[str, str]
    what: str
    a: int
    b: int


@dataclass(frozen=True)
class TableDifference:
    """One value of a study's table that differs; `a` or `b` is None where only one has the row."""

    table: str
    row: str
    column: str
    a: Value
    b: Value


@dataclass(frozen=True)
class Provenance:
    """A difference in what the campaigns were made from and by; it is no difference of results."""

    what: str
    a: str
    b: str


@dataclass(frozen=True)
class Comparison:
    """All in which two campaigns differ."""

    provenance: tuple[Provenance, ...]
    only: tuple[OnlyIn, ...]
    counts: tuple[CountDifference, ...]
    figures: tuple[FigureDifference, ...]
    """The largest first: by `in_intervals`, then those without intervals by the size of `relative`."""
    tables: tuple[TableDifference, ...]
    digests: tuple[str, ...]
    """Runs that both have, with different digests: their captures or results are not the same bytes."""
    digests_compared: int
    """Runs that both have with a digest, so in virtual time."""
    figures_compared: int

    @property
    def same(self) -> bool:
        """Whether all results are the same, and there are any; provenance may differ."""
        if not (self.figures_compared or self.digests_compared):
            return False
        return not (self.only or self.counts or self.figures or self.tables or self.digests)


def compare_summaries(a: Summary, b: Summary) -> Comparison:
    """Compare two campaigns, cell by cell; a cell is known by its labels, whatever the order of the axes."""
    cells_a, cells_b = ({_key(cell): cell for cell in its.cells} for its in (a, b))
    both = [(cell, cells_b[key]) for key, cell in cells_a.items() if key in cells_b]
    only = [OnlyIn("a", cell.cell) for key, cell in cells_a.items() if key not in cells_b]
    only += [OnlyIn("b", cell.cell) for key, cell in cells_b.items() if key not in cells_a]
    figures: list[FigureDifference] = []
    for one, other in both:
        of_a, of_b = ({(its.name, its.subject): its for its in cell.figures} for cell in (one, other))
        only += [OnlyIn("a", one.cell, its) for key, its in of_a.items() if key not in of_b]
        only += [OnlyIn("b", one.cell, its) for key, its in of_b.items() if key not in of_a]
        figures += [
            FigureDifference(one.cell, its, of_b[key])
            for key, its in of_a.items()
            if key in of_b and its != of_b[key]
        ]
    digests_a, digests_b = (
        {run.run: run.digest for cell in its.cells for run in cell.runs if run.digest} for its in (a, b)
    )
    in_both = digests_a.keys() & digests_b.keys()
    return Comparison(
        provenance=tuple(_provenance(a, b)),
        only=tuple(only),
        counts=tuple(difference for one, other in both for difference in _counts(one, other)),
        figures=tuple(sorted(figures, key=_rank)),
        tables=tuple(_tables(a.study, b.study)),
        digests=tuple(sorted(run for run in in_both if digests_a[run] != digests_b[run])),
        digests_compared=len(in_both),
        figures_compared=sum(
            len({(f.name, f.subject) for f in one.figures} & {(f.name, f.subject) for f in other.figures})
            for one, other in both
        ),
    )


def _key(cell: CellSummary) -> _Key:
    return tuple(sorted(cell.cell.items()))


def _rank(one: FigureDifference) -> tuple[float, float]:
    """Sorts the largest first; those without intervals follow, and those without values are last."""
    relative = -1.0 if one.difference is None else math.inf if one.relative is None else abs(one.relative)
    return (1.0 if one.in_intervals is None else -one.in_intervals, -relative)


def _counts(a: CellSummary, b: CellSummary) -> Iterator[CountDifference]:
    numbers_a, numbers_b = a.counts.model_dump(), b.counts.model_dump()
    for what, count in numbers_a.items():
        if count != numbers_b[what]:
            yield CountDifference(a.cell, what, count, numbers_b[what])


def _provenance(a: Summary, b: Summary) -> Iterator[Provenance]:
    for (what, of_a), of_b in zip(_facts(a).items(), _facts(b).values(), strict=True):
        if of_a != of_b:
            yield Provenance(what, of_a, of_b)


def _facts(summary: Summary) -> dict[str, str]:
    made_by = summary.made_by
    kernels = [f"{kernel.name or kernel.version} ({kernel.version})" for kernel in summary.kernels]
    return {
        "campaign": summary.campaign.name,
        "campaign file": f"SHA-256 {summary.campaign.file_sha256[:16]}",
        "study": summary.campaign.study or "none",
        "weir": "no complete run" if made_by is None else made_by.weir_version,
        "commit": "unknown" if made_by is None or made_by.commit is None else made_by.commit,
        "programs": ""
        if made_by is None
        else ", ".join(f"{name} {digest}" for name, digest in made_by.programs.items()),
        "switch": ", ".join(summary.targets),
        "kernel": ", ".join(kernels) or "of the machine, real time",
        "kernel's inputs": ", ".join(kernel.inputs_sha256[:16] for kernel in summary.kernels),
        "congestion controls": ", ".join(summary.congestion_controls),
        "left out": ", ".join(f"{plural(runs, 'run')}: no {cc}" for cc, runs in summary.left_out.items()),
    }


def _tables(a: Sequence[StudyTable], b: Sequence[StudyTable]) -> Iterator[TableDifference]:
    tables_b = {table.name: table for table in b}
    for table in a:
        other = tables_b.pop(table.name, None)
        if other is None:
            yield TableDifference(table.name, "all", "", plural(len(table.rows), "row"), None)
        else:
            yield from _table(table, other)
    for other in tables_b.values():
        yield TableDifference(other.name, "all", "", None, plural(len(other.rows), "row"))


def _table(a: StudyTable, b: StudyTable) -> Iterator[TableDifference]:
    if a.columns != b.columns:
        yield TableDifference(a.name, "heading", "", ", ".join(a.columns), ", ".join(b.columns))
        return
    width = next(
        (
            width
            for width in range(1, len(a.columns))
            if all(_tells_apart(rows, width) for rows in (a.rows, b.rows))
        ),
        len(a.columns),
    )
    rows_b = {row[:width]: row for row in b.rows}
    for row in a.rows:
        name, other = _row_name(row[:width]), rows_b.pop(row[:width], None)
        if other is None:
            yield TableDifference(a.name, name, "", "a row", None)
            continue
        for column, of_a, of_b in zip(a.columns, row, other, strict=True):
            if of_a != of_b:
                yield TableDifference(a.name, name, column, of_a, of_b)
    for row in rows_b.values():
        yield TableDifference(a.name, _row_name(row[:width]), "", None, "a row")


def _tells_apart(rows: Sequence[Sequence[Value]], width: int) -> bool:
    """Whether the first `width` columns are different in each row."""
    return len({tuple(row[:width]) for row in rows}) == len(rows)


def _row_name(cells: Sequence[Value]) -> str:
    return ", ".join(str(cell) for cell in cells)
