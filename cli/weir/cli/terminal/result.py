# SPDX-License-Identifier: Apache-2.0
"""The summary of a run for the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from weir.analysis.models import PairResult, Result
from weir.analysis.report import text
from weir.analysis.tables import TCP

# Headings in two lines keep the table within 80 columns.
_COUNTS = (
    *("Sent", "Received", "Dropped\nby switch", "Inferred\nlost"),
    *("Preci-\nsion", "Recall", "Un-\nexplained"),
)


def summary(result: Result, report: Path | None = None) -> RenderableType:
    """The headline, flows as a table, pairs with verdict and truth, policers, and the report's path."""
    good = result.explained and result.valid
    parts: list[RenderableType] = [Text(result.headline, style="bold green" if good else "bold red")]
    parts += [Text(f"  {reason}", style="red") for reason in result.invalid_reasons]
    parts += [Text(), _flows(result), Text()]
    parts += _pairs(result.pairs)
    parts += _policers(result)
    if report is not None:
        # Text, not markup, as a path may contain brackets; on one line, so that it can be copied.
        parts.append(Text(f"Report: {report}", no_wrap=True, overflow="ignore"))
    return Group(*parts)


def print_summary(result: Result, report: Path | None, console: Console) -> None:
    """Print the summary to a console."""
    console.print(summary(result, report))


def _flows(result: Result) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("Flow", vertical="bottom", no_wrap=True)
    for name in _COUNTS:
        table.add_column(name, justify="right", vertical="bottom", no_wrap=True)
    for phase in dict.fromkeys(flow.phase for flow in result.flows):
        table.add_row(Text(phase, style="bold"))
        for flow in result.flows:
            if flow.phase != phase:
                continue
            table.add_row(
                Text(f"  {flow.name}"),
                text.count(flow.sent),
                text.count(flow.received),
                text.count(flow.reported_drops),
                text.count(flow.inferred_lost if flow.protocol == TCP else None),
                text.quality(flow.precision),
                text.quality(flow.recall),
                Text(text.count(flow.unexplained), style="green" if flow.unexplained == 0 else "bold red"),
            )
    return table


def _pairs(pairs: Iterable[PairResult]) -> list[Text]:
    lines = []
    for pair in pairs:
        names = " and ".join(flow.rpartition("/")[2] for flow in pair.flows)
        right = pair.verdict == pair.truth
        # A phase, a detector and a verdict can all be called "shared".
        line = Text(f"phase {pair.phase}, {names}: detector {pair.detector} says ")
        line.append(pair.verdict.replace("_", " "), style="bold green" if right else "bold yellow")
        line.append(f", the truth is {pair.truth}: {pair.reason}")
        lines.append(line)
    return lines


def _policers(result: Result) -> list[Text]:
    lines = []
    for policer in result.policers:
        figure = policer.conformance.deviation_percent if policer.conformance else None
        conformance = (
            "not saturated for 5 s" if figure is None else f"within {text.percent(figure, 3)} of rate × 5 s"
        )
        counts = policer.agreement if policer.agrees else f"counts agree; {policer.agreement}"
        counts = "; ".join(policer.disagreements) or counts
        lines.append(
            Text(
                f"phase {policer.phase}, policer {policer.name}: {text.rate(policer.effective_rate_bps)}, "
                f"burst {text.size(policer.effective_burst_bytes)}: {conformance}; {counts}",
                style="" if not policer.disagreements else "red",
            )
        )
    return lines
