# SPDX-License-Identifier: Apache-2.0
"""The picture of one phase: passed and dropped traffic of each policer over the phase's time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from weir.analysis.report import text
from weir.cli.terminal.bars import Counter, bars
from weir.controlplane.units import format_rate
from weir.rundir.plural import plural
from weir.runner.progress import Reading, Sample

LABEL_WIDTH = 12
NUMBER_WIDTH = 16
MIN_CHART_WIDTH = 24
"""A narrower chart leaves out the numbers beside it."""
ROWS, MOST_ROWS = 3, 8
"""Height of the chart of drops when printed, and its limit on a whole screen."""
_RATE_OVER_S = 1.0


@dataclass
class _Meter:
    """The counters of one policer or queue."""

    last: Reading
    passed: Counter = field(default_factory=Counter)
    passed_bits: Counter = field(default_factory=Counter)
    dropped: Counter = field(default_factory=Counter)

    def add(self, time_s: float, reading: Reading) -> None:
        self.last = reading
        self.passed.add(time_s, reading.passed_packets)
        self.passed_bits.add(time_s, reading.passed_bytes * 8)
        self.dropped.add(time_s, reading.dropped_packets)

    def heading(self) -> Text:
        met, dropped = self.passed.total + self.dropped.total, self.dropped.total
        rate = "" if self.last.rate_bps is None else f", {format_rate(self.last.rate_bps)}"
        share = f" ({text.share(dropped / met)})" if met else ""
        heading = Text(f"  {self.last.name}", style="bold")
        return heading.append(f"{rate}: {dropped:,} of {plural(met, 'packet')} dropped{share}", "not bold")


class PhasePicture:
    """Draws the samples of a phase. The time axis is the whole phase; charts fill while it runs."""

    def __init__(self, name: str, duration_s: float, begin_s: float) -> None:
        """Draw the phase `name` that began at `begin_s` (`time.monotonic`)."""
        self._name, self._duration_s, self._begin_s = name, duration_s, begin_s
        self._now_s = 0.0
        self._meters: dict[str, _Meter] = {}
        self.note = ""
        """A line below the picture."""
        self.height: int | None = None
        """Lines of the screen that the picture fills; None when it is printed."""

    def add(self, sample: Sample) -> None:
        """Add a sample."""
        for reading in sample.readings:
            meter = self._meters.setdefault(reading.name, _Meter(reading))
            meter.add(sample.time_s - self._begin_s, reading)

    def advance(self, now_s: float) -> None:
        """Set the present time (`time.monotonic`)."""
        self._now_s = now_s - self._begin_s

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lines within the width; on a screen, charts use its height."""
        width = options.max_width - 1  # some terminals wrap after a character in the last column
        rows = ROWS
        if self.height is not None:
            room = self.height - 4 - 3 * len(self._meters)
            rows = max(1, min(MOST_ROWS, room // max(1, len(self._meters))))
        for line in self._lines(width, rows, ascii_only=options.ascii_only):
            line.truncate(max(1, width), overflow="crop" if options.ascii_only else "ellipsis")
            line.no_wrap = True
            yield line

    def _lines(self, width: int, rows: int, *, ascii_only: bool) -> Iterator[Text]:
        chart_width = width - LABEL_WIDTH - NUMBER_WIDTH
        with_numbers = chart_width >= MIN_CHART_WIDTH
        if not with_numbers:
            chart_width = max(1, width - LABEL_WIDTH)
        axis_s = max(self._duration_s, self._now_s)
        edges_s = [axis_s * column / chart_width for column in range(chart_width + 1)]

        elapsed_s = min(self._now_s, self._duration_s)
        head = Text(f"  phase {self._name}", style="bold")
        yield head.append(f": {elapsed_s:.0f} of {self._duration_s:g} s", "not bold")
        for meter in self._meters.values():
            yield Text()
            yield meter.heading()
            rates = meter.passed_bits.rates(edges_s)
            top = max(_highest(rates), meter.last.rate_bps or 0)
            number = text.rate(meter.passed_bits.rate(_RATE_OVER_S)) if with_numbers else ""
            yield from _chart("passed", bars(rates, top, 1, ascii_only=ascii_only), "green", number)
            rates = meter.dropped.rates(edges_s)
            top = _highest(rates)
            number = f"{meter.dropped.rate(_RATE_OVER_S):,.0f} packets/s" if with_numbers else ""
            yield from _chart("dropped", bars(rates, top, rows, ascii_only=ascii_only), "red", number)
        if self._meters:
            end = f"{axis_s:.0f} s"
            yield Text(" " * LABEL_WIDTH + "0 s".ljust(chart_width - len(end)) + end, style="dim")
        if self.note:
            yield Text(self.note)


def _chart(label: str, lines: list[str], style: str, number: str) -> Iterator[Text]:
    """The lines of a chart, with label and number beside the lowest one."""
    *upper, lowest = lines
    for line in upper:
        yield Text(" " * LABEL_WIDTH).append(line, style)
    label = f"    {label}"
    yield Text(label.ljust(LABEL_WIDTH)).append(lowest, style).append(number.rjust(NUMBER_WIDTH))


def _highest(values: list[float | None]) -> float:
    return max((value for value in values if value is not None), default=0.0)
