# SPDX-License-Identifier: Apache-2.0
"""`weir campaign compare`: in what the results of two campaigns differ, from their summaries."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from weir.cli import completion, options
from weir.rundir.plural import plural

if TYPE_CHECKING:
    from weir.campaign.summary.compare import Comparison, FigureDifference
    from weir.campaign.summary.model import FigureValue

FORMAT = 1
"""Version of the JSON that this command prints."""
MISSING = "–"


def campaign_compare(
    a: Annotated[
        Path,
        typer.Argument(
            metavar="A",
            help="Folder of a campaign, such as runs/wehey-bbr, or its summary.json.",
            show_default=False,
            autocompletion=completion.campaign_folders,
        ),
    ],
    b: Annotated[
        Path,
        typer.Argument(
            metavar="B", help="Another one.", show_default=False, autocompletion=completion.campaign_folders
        ),
    ],
    rows: Annotated[
        int, typer.Option("--rows", min=1, help="Differing figures to show; --json has all.")
    ] = 40,
    as_json: options.AsJson = False,
) -> int:
    """Say in what the results of two campaigns differ: of two kernels, detectors, versions, or of a repeat.

    Reads summary.json, which `weir campaign` writes beside its page. Figures with 95 % intervals, which six
    runs of a cell suffice for, are first: the largest difference in mean half-widths of both intervals (above
    2, intervals of equal width do not meet). The others follow, the largest relative difference first. In
    virtual time a repeat has the same digests, and nothing differs.

    Exit code 0: same results, even if software or kernel are named as different. 1: other results, or none in
    both. 2: bad input.

    \b
    weir campaign wehey-bbr --kernel 6.12 --runs a
    weir campaign wehey-bbr --kernel 6.12+bbr3 --runs b
    weir campaign compare a/wehey-bbr b/wehey-bbr
    """
    from weir.campaign.summary.compare import compare_summaries
    from weir.campaign.summary.model import read_summary

    found = compare_summaries(read_summary(a), read_summary(b))
    if as_json:
        print(json.dumps(_as_json(found), allow_nan=False))
    else:
        _print(found, rows, Console())
    return 0 if found.same else 1


def _print(found: Comparison, rows: int, console: Console) -> None:
    for one in found.provenance:
        _line(console, f"{one.what}: {one.a or 'none'} → {one.b or 'none'}")
    for line in (*_of_cells(found), *_of_digests(found)):
        _line(console, line)
    if found.figures:
        table = Table(box=None, pad_edge=False)
        for heading in ("cell", "figure", "A", "B", "B − A", "in intervals"):
            table.add_column(
                heading, overflow="fold", justify="left" if heading in ("cell", "figure") else "right"
            )
        for difference in found.figures[:rows]:
            table.add_row(*_row(difference))
        console.print(table, markup=False)
        if len(found.figures) > rows:
            _line(
                console,
                f"and {plural(len(found.figures) - rows, 'more figure')}; --rows N or --json shows all",
            )
    for its in found.tables[:rows]:
        column = f", {its.column}" if its.column else ""
        _line(console, f"{its.table}: {its.row}{column}: {_cell(its.a)} → {_cell(its.b)}")
    if len(found.tables) > rows:
        _line(
            console,
            f"and {plural(len(found.tables) - rows, 'more value')} of the study's tables; --rows N or --json",
        )
    _line(console, _conclusion(found))


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _of_cells(found: Comparison) -> Iterator[str]:
    for only in found.only:
        figure = "" if only.figure is None else f": {only.figure.name} of {only.figure.subject}"
        yield f"only in {only.side.upper()}: {_cell_name(only.cell)}{figure}"
    for count in found.counts:
        what = "packets unexplained" if count.what == "unexplained" else f"runs {count.what}"
        yield f"{_cell_name(count.cell)}: {what}: {count.a} → {count.b}"


def _of_digests(found: Comparison) -> Iterator[str]:
    if found.digests:
        have = "has" if len(found.digests) == 1 else "have"
        yield (
            f"{len(found.digests)} of {plural(found.digests_compared, 'run')} in virtual time {have} another "
            f"digest, first {found.digests[0]}; weir digest A/RUN B/RUN names the files"
        )


def _row(one: FigureDifference) -> tuple[str, ...]:
    unit = "" if one.a.unit == "1" else f", {one.a.unit}"
    return (
        _cell_name(one.cell),
        f"{one.a.name} of {one.a.subject}{unit}",
        *(_figure(its, with_n=one.a.n != one.b.n) for its in (one.a, one.b)),
        MISSING if one.difference is None else f"{one.difference:+.4g}{_relative(one)}",
        MISSING
        if one.in_intervals is None
        else "∞"
        if math.isinf(one.in_intervals)
        else f"{one.in_intervals:.2g}",
    )


def _relative(one: FigureDifference) -> str:
    if one.relative is None:
        return ""
    percent = 100 * one.relative
    return f" ({percent:+,.0f} %)" if abs(percent) >= 10 else f" ({percent:+.2g} %)"


def _figure(its: FigureValue, with_n: bool) -> str:
    value = MISSING if its.value is None else f"{its.value:.4g}"
    interval = "" if its.low is None or its.high is None else f" ({its.low:.4g} to {its.high:.4g})"
    return f"{value}{interval}, n {its.n}" if with_n else f"{value}{interval}"


def _cell(value: str | float | None) -> str:
    return MISSING if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


def _cell_name(cell: Mapping[str, str]) -> str:
    return ", ".join(f"{axis}={label}" for axis, label in cell.items()) or "the only cell"


def _conclusion(found: Comparison) -> str:
    digests = (
        f", {plural(found.digests_compared, 'run')} with the same digest" if found.digests_compared else ""
    )
    if found.same:
        return f"the same results: {plural(found.figures_compared, 'figure')}{digests}"
    if not found.figures_compared:
        return "no figure is in both, so none is compared; the page of each says which of its runs are valid"
    of = f"{len(found.figures)} of {found.figures_compared}"
    if not found.figures:
        return f"{of} figures differ; the lines above say what does"
    measured = [one.apart for one in found.figures if one.apart is not None]
    if not measured:
        return f"{of} figures differ; none has a 95 % interval in both, for which six runs of a cell suffice"
    return f"{of} figures differ, {sum(measured)} of them with intervals that do not meet"


def _as_json(found: Comparison) -> dict[str, Any]:
    """The comparison with the derived numbers; an infinite number of intervals is null, and `apart` true."""
    figures = []
    for one in found.figures:
        intervals = one.in_intervals
        figures.append(
            {
                "cell": dict(one.cell),
                "name": one.a.name,
                "subject": one.a.subject,
                "unit": one.a.unit,
                "a": one.a.model_dump(mode="json", exclude={"name", "subject", "unit"}),
                "b": one.b.model_dump(mode="json", exclude={"name", "subject", "unit"}),
                "difference": one.difference,
                "relative": one.relative,
                "in_intervals": None if intervals is None or math.isinf(intervals) else intervals,
                "apart": one.apart,
            }
        )
    only = [
        {
            "side": its.side,
            "cell": dict(its.cell),
            "figure": None if its.figure is None else its.figure.model_dump(mode="json"),
        }
        for its in found.only
    ]
    return {
        "schema": FORMAT,
        "same": found.same,
        "provenance": [asdict(one) for one in found.provenance],
        "only": only,
        "counts": [asdict(one) | {"cell": dict(one.cell)} for one in found.counts],
        "figures": figures,
        "figures_compared": found.figures_compared,
        "tables": [asdict(one) for one in found.tables],
        "digests_compared": found.digests_compared,
        "digests": list(found.digests),
    }
