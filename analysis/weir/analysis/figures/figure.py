# SPDX-License-Identifier: Apache-2.0
"""Kinds of figures: each function takes numbers and returns a plotly figure as plain data, with its table.

Colours are names: `@c0` to `@c7`, `@soft`, `@card`, `@ink`, `@line`; an alpha may follow, as in `@c0+33`.
The page's style sheet defines their values, light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from weir.analysis.report.text import plain
from weir.analysis.statistics import Box, HeatMap, Share, box, ecdf

COLOURS = 8
LONGEST_NAME = 24
LEGEND_PX = 14
LETTER_PX = 6
CROWDED = 12
"""Box plots with more scenarios take the full width of the page, and height for their names."""
MOST_NAMES = 48
"""Names that such a plot has space for."""
UPRIGHT_NAMES = 24
"""With more, the names stand upright, else they would cover each other."""
SYMBOLS = ("circle", "diamond-open", "square-open")
DASHES = ("dot", "dash", "dashdot")
Cell = str | float | int | None
Values = Mapping[str, Mapping[str, Sequence[float | None]]]
"""series → scenario → values."""


class Link(str):
    """A cell that links to a file in the page's directory: the text, and `href`."""

    href: str

    def __new__(cls, text: str, href: str) -> Self:
        """Make a text that is also a link."""
        made = super().__new__(cls, text)
        made.href = href
        return made


@dataclass(frozen=True)
class Table:
    """A table: `rows` under `columns`; `name` becomes the name of its file."""

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Figure(Table):
    """A table that is also drawn: `traces` and `layout` are plotly's, with names for colours."""

    traces: tuple[Mapping[str, Any], ...]
    layout: Mapping[str, Any]
    height: int = 320
    wide: bool = False
    """Whether it takes the full width of the page."""


def colour(number: int) -> str:
    """The name of a series' colour; series beyond the palette share one."""
    return f"@c{number}" if number < COLOURS else "@soft"


def _known(values: Iterable[float | None]) -> list[float]:
    return [float(value) for value in values if value is not None and math.isfinite(value)]


def _shortened(names: Sequence[str]) -> list[str]:
    """Names for an axis or a legend: long ones are cut in the middle, unless some would be the same."""
    cut = [name if len(name) <= LONGEST_NAME else f"{name[:9]}…{name[10 - LONGEST_NAME :]}" for name in names]
    return cut if len(set(cut)) == len(set(names)) else list(names)


def _categories(names: Iterable[str], most: int | None = None) -> dict[str, Any]:
    """An axis of names, in their order; of more than `most`, one in so many is shown."""
    order = list(dict.fromkeys(names))
    named = order[:: math.ceil(len(order) / most)] if most and order else order
    axis = {"type": "category", "tickvals": named, "ticktext": _shortened(named)}
    return axis if named == order else axis | {"categoryorder": "array", "categoryarray": order}


def box_figure(
    name: str,
    title: str,
    caption: str,
    values: Values,
    *,
    unit: str,
    tick: str = "",
    log: bool = False,
) -> Figure:
    """Box plots by scenario, a colour per series; the table has every value."""
    rows: list[tuple[Cell, ...]] = []
    traces: list[Mapping[str, Any]] = []
    for number, (series, scenarios) in enumerate(values.items()):
        drawn: list[tuple[str, Box, list[float]]] = []
        for scenario, measured in scenarios.items():
            known = _known(measured)
            rows += [(series, scenario, value) for value in known]
            found = box(known)
            if found is not None:
                drawn.append((scenario, found, known))
        if drawn:
            traces.append(_boxes(series, drawn, colour(number)))
    axis = _categories((scenario for its in values.values() for scenario in its), MOST_NAMES)
    wide, upright = len(axis["tickvals"]) > CROWDED, len(axis["tickvals"]) > UPRIGHT_NAMES
    height = 400 if wide else Figure.height
    if upright:
        height = 260 + LETTER_PX * max(map(len, axis["ticktext"]))
    return Figure(
        name,
        title,
        caption,
        ("series", "scenario", unit),
        tuple(rows),
        tuple(traces),
        {
            "boxmode": "group",
            "yaxis": {"title": unit, "tickformat": tick, "type": "log" if log else "linear"},
            "xaxis": axis | {"tickangle": 90} if upright else axis,
        },
        height=height,
        wide=wide,
    )


def _boxes(series: str, drawn: Sequence[tuple[str, Box, list[float]]], ink: str) -> Mapping[str, Any]:
    """Boxes with given quartiles and whiskers, so that the page does not compute its own."""
    boxes = [found for _, found, _ in drawn]
    return {
        "type": "box",
        "name": series,
        "orientation": "v",
        "x": [scenario for scenario, _, _ in drawn],
        "q1": [found.q1 for found in boxes],
        "median": [found.median for found in boxes],
        "q3": [found.q3 for found in boxes],
        "lowerfence": [found.low_whisker for found in boxes],
        "upperfence": [found.high_whisker for found in boxes],
        "mean": [found.mean for found in boxes],
        # Only the points beyond the whiskers are drawn.
        "y": [known for _, _, known in drawn],
        "boxpoints": "outliers",
        "line": {"color": ink, "width": 1.5},
        "fillcolor": f"{ink}+33",
        "marker": {"color": ink, "size": 4},
    }


def ecdf_figure(
    name: str, title: str, caption: str, values: Mapping[str, Sequence[float | None]], *, unit: str
) -> Figure:
    """Empirical distribution functions, a line per series."""
    rows: list[tuple[Cell, ...]] = []
    traces = []
    legend = dict(zip(values, _shortened(list(values)), strict=True))
    for number, (series, measured) in enumerate(values.items()):
        at, part = ecdf(_known(measured))
        rows += [(series, *point) for point in zip(at.tolist(), part.tolist(), strict=True)]
        if len(at):
            # Series beyond the palette repeat its colours with other dashes.
            ink, dash = colour(number % COLOURS), ("solid", *DASHES)[number // COLOURS % (1 + len(DASHES))]
            traces.append(_line(legend[series], at.tolist(), part.tolist(), ink, shape="hv", dash=dash))
    return Figure(
        name,
        title,
        caption,
        ("series", unit, "part of samples"),
        tuple(rows),
        tuple(traces),
        {"xaxis": {"title": unit}, "yaxis": {"title": "part of samples", "range": [0, 1.02]}},
        # Extra height for the legend above the lines.
        height=max(320, 260 + LEGEND_PX * len(traces)),
        wide=max(map(len, legend.values()), default=0) > LONGEST_NAME,
    )


def line_figure(
    name: str,
    title: str,
    caption: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x: str,
    y: str,
    diagonal: bool = False,
    log_x: bool = False,
    square: bool = False,
    marks: Mapping[str, Sequence[tuple[float, float]]] = {},
) -> Figure:
    """Lines through points, a colour per series; `diagonal` adds the line of equality.

    `marks` are lines to compare with, such as published numbers: dotted, and in the table too.
    """
    legend = dict(zip((*lines, *marks), _shortened([*lines, *marks]), strict=True))
    traces = [
        _line(legend[series], [p[0] for p in points], [p[1] for p in points], colour(number))
        for number, (series, points) in enumerate(lines.items())
        if points
    ]
    traces += [
        _line(
            legend[series],
            [p[0] for p in points],
            [p[1] for p in points],
            "@soft",
            dash=DASHES[number % len(DASHES)],
        )
        for number, (series, points) in enumerate(marks.items())
    ]
    if diagonal:
        traces.append(_line("", [0, 1], [0, 1], "@soft", dash="dot"))
    layout: dict[str, Any] = {
        "xaxis": {"title": x, "type": "log" if log_x else "linear"},
        "yaxis": {"title": y, "rangemode": "tozero"},
    }
    if square:
        layout["xaxis"]["range"] = layout["yaxis"]["range"] = [-0.02, 1.02]
    rows = tuple((series, *point) for series, points in (*lines.items(), *marks.items()) for point in points)
    return Figure(name, title, caption, ("series", x, y), rows, tuple(traces), layout)


def _line(
    series: str,
    x: Sequence[float],
    y: Sequence[float],
    ink: str,
    *,
    shape: str = "linear",
    dash: str = "solid",
) -> Mapping[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) < 30 and shape == "linear" and dash == "solid" else "lines",
        "name": series,
        "showlegend": bool(series),
        "x": list(x),
        "y": list(y),
        "line": {"color": ink, "width": 1.7, "shape": shape, "dash": dash},
        "marker": {"color": ink, "size": 5},
    }


def dot_figure(
    name: str,
    title: str,
    caption: str,
    values: Mapping[str, Mapping[str, float]],
    *,
    unit: str,
    log: bool = False,
) -> Figure:
    """A dot per value in the row of its category, a colour per series: series → category → value.

    Dots, not bars: the length of a bar means nothing on a logarithmic axis.
    """
    order = list(dict.fromkeys(category for its in values.values() for category in its))
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": series,
            "x": list(its.values()),
            "y": list(its),
            "marker": {"color": colour(number), "size": 9, "symbol": SYMBOLS[number % len(SYMBOLS)]},
        }
        for number, (series, its) in enumerate(values.items())
        if its
    ]
    return Figure(
        name,
        title,
        caption,
        ("series", "category", unit),
        tuple((series, category, value) for series, its in values.items() for category, value in its.items()),
        tuple(traces),
        {
            "xaxis": {"title": unit, "type": "log" if log else "linear"},
            "yaxis": {"type": "category", "categoryarray": order[::-1], "categoryorder": "array"},
        },
        height=110 + 26 * len(order),
    )


def share_figure(name: str, title: str, caption: str, shares: Mapping[str, Mapping[str, Share]]) -> Figure:
    """Counts as percent with their exact 95 % intervals: series → scenario → count."""
    rows: list[tuple[Cell, ...]] = []
    traces = []
    for number, (series, scenarios) in enumerate(shares.items()):
        known = [(scenario, its, its.rate) for scenario, its in scenarios.items()]
        rows += [(series, scenario, s.count, s.of, s.rate, s.low, s.high) for scenario, s, _ in known]
        drawn = [(scenario, s, rate) for scenario, s, rate in known if rate is not None]
        if drawn:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "orientation": "h",
                    "name": series,
                    "x": [100 * rate for _, _, rate in drawn],
                    "y": [scenario for scenario, _, _ in drawn],
                    "error_x": {
                        "type": "data",
                        "symmetric": False,
                        "array": [100 * (s.high - rate) for _, s, rate in drawn],
                        "arrayminus": [100 * (rate - s.low) for _, s, rate in drawn],
                        "color": colour(number),
                        "thickness": 1.2,
                        "width": 3,
                    },
                    "customdata": [f"{s.count} of {s.of}" for _, s, _ in drawn],
                    "hovertemplate": "%{y}: %{customdata}",
                    "marker": {"color": colour(number), "size": 7},
                }
            )
    order = list(dict.fromkeys(scenario for its in shares.values() for scenario in its))
    return Figure(
        name,
        title,
        caption,
        ("series", "scenario", "count", "of", "rate", "low", "high"),
        tuple(rows),
        tuple(traces),
        {
            "scattermode": "group",
            "xaxis": {"title": "percent", "range": [-2, 102]},
            "yaxis": {**_categories(order), "categoryarray": order[::-1], "categoryorder": "array"},
        },
        height=110 + 22 * len(order) * max(len(shares), 1),
    )


def heat_figure(
    name: str,
    title: str,
    caption: str,
    grid: HeatMap,
    *,
    x: str,
    y: str,
    value: str,
    digits: int = 3,
    diverging: bool = False,
) -> Figure:
    """A heat map with its values in the cells; `diverging` has one colour below 0 and one above.

    Numbers grow from the bottom, words are read from the top.
    """
    rows = tuple(
        (grid.x[i], grid.y[j], cell, grid.counts[j][i])
        for j, line in enumerate(grid.values)
        for i, cell in enumerate(line)
    )
    scale = [[0, "@c1"], [0.5, "@card"], [1, "@c0"]] if diverging else [[0, "@card"], [1, "@c0"]]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": [_words(at) for at in grid.x],
        "y": [_words(at) for at in grid.y],
        "z": [list(line) for line in grid.values],
        "text": [["" if cell is None else plain(cell, digits) for cell in line] for line in grid.values],
        "texttemplate": "%{text}",
        "colorscale": scale,
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "colorbar": {"title": value, "thickness": 10, "outlinewidth": 0},
    }
    if diverging:
        trace["zmid"] = 0
    return Figure(
        name,
        title,
        caption,
        (x, y, value, "samples"),
        rows,
        (trace,),
        {
            "xaxis": {"title": x, **_categories(_words(at) for at in grid.x)},
            "yaxis": {"title": y, **_categories(_words(at) for at in grid.y)}
            | ({"autorange": "reversed"} if any(isinstance(at, str) for at in grid.y) else {}),
        },
        height=150 + 40 * len(grid.y),
    )


def _words(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
