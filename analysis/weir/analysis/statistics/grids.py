# SPDX-License-Identifier: Apache-2.0
"""Groups values by two factors for a heat map."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from weir.analysis.tables import Floats

Factor = float | str


@dataclass(frozen=True)
class HeatMap:
    """One value per cell, `values[y][x]`, None without measurements; `counts[y][x]` measurements."""

    x: tuple[Factor, ...]
    y: tuple[Factor, ...]
    values: tuple[tuple[float | None, ...], ...]
    counts: tuple[tuple[int, ...], ...]


def _median(values: Floats) -> float:
    return float(np.median(values))


def heat_map(
    points: Iterable[tuple[Factor, Factor, float | None]], of_cell: Callable[[Floats], float] = _median
) -> HeatMap:
    """Group (x, y, value) into a grid; numbers on an axis are sorted, words keep their order.

    Several values of a cell become one by `of_cell`, by default their median; None and NaN are left out.
    """
    cells: dict[tuple[Factor, Factor], list[float]] = {}
    for x, y, value in points:
        its = cells.setdefault((x, y), [])
        if value is not None and np.isfinite(value):
            its.append(float(value))
    xs, ys = _axis([x for x, _ in cells]), _axis([y for _, y in cells])
    merged = {at: of_cell(np.array(values)) for at, values in cells.items() if values}
    return HeatMap(
        x=xs,
        y=ys,
        values=tuple(tuple(merged.get((x, y)) for x in xs) for y in ys),
        counts=tuple(tuple(len(cells.get((x, y), ())) for x in xs) for y in ys),
    )


def _axis(values: list[Factor]) -> tuple[Factor, ...]:
    distinct = list(dict.fromkeys(values))
    numbers = [value for value in distinct if not isinstance(value, str)]
    words = [value for value in distinct if isinstance(value, str)]
    return (*sorted(numbers), *words)
