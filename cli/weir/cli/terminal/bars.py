# SPDX-License-Identifier: Apache-2.0
"""Bar charts of characters, and the rates of a counter over intervals of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII = " .:-=+*#@"


def bars(values: Sequence[float | None], top: float, rows: int, *, ascii_only: bool = False) -> list[str]:
    """One character per value in each of `rows` lines, top line first; `top` fills all lines.

    A value above 0 is visible, however small; None is blank.
    """
    levels = ASCII if ascii_only else BLOCKS
    steps = len(levels) - 1
    heights = [_height(value, top, rows * steps) for value in values]
    return [
        "".join(levels[min(steps, max(0, height - row * steps))] for height in heights)
        for row in reversed(range(rows))
    ]


def _height(value: float | None, top: float, steps: int) -> int:
    if value is None or value <= 0 or top <= 0:
        return 0
    return max(1, min(steps, round(value / top * steps)))


class Counter:
    """Values of a growing counter at rising times, and their differences."""

    def __init__(self) -> None:
        """Start without values."""
        self._times_s: list[float] = []
        self._values: list[int] = []

    def add(self, time_s: float, value: int) -> None:
        """Append the counter's value at `time_s`."""
        self._times_s.append(time_s)
        self._values.append(value)

    @property
    def total(self) -> int:
        """Increase from the first value to the last."""
        return self._values[-1] - self._values[0] if self._values else 0

    def rate(self, over_s: float) -> float:
        """Increase per second over the last `over_s` seconds, or since the first value if that is later."""
        if len(self._values) < 2:
            return 0.0
        end_s = self._times_s[-1]
        begin_s = max(self._times_s[0], end_s - over_s)
        return (self._values[-1] - self._at(begin_s)) / (end_s - begin_s)

    def rates(self, edges_s: Sequence[float]) -> list[float | None]:
        """Increase per second between neighbouring edges; None where the last value is before the end.

        Between two values the counter is taken to grow evenly.
        """
        known_s = self._times_s[-1] if self._times_s else float("-inf")
        return [
            (self._at(end_s) - self._at(begin_s)) / (end_s - begin_s) if end_s <= known_s else None
            for begin_s, end_s in pairwise(edges_s)
        ]

    def _at(self, time_s: float) -> float:
        later = bisect_right(self._times_s, time_s)
        if later == 0:
            return self._values[0]
        if later == len(self._times_s):
            return self._values[-1]
        begin_s, end_s = self._times_s[later - 1 : later + 1]
        low, high = self._values[later - 1 : later + 1]
        return low + (high - low) * (time_s - begin_s) / (end_s - begin_s)
