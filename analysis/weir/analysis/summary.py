# SPDX-License-Identifier: Apache-2.0
"""What the terminal shows at the end of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from weir.analysis.models import PairResult, Result
from weir.analysis.report import text

_RIGHT = ("Sent", "Received", "Dropped", "Inferred", "Precision", "Recall", "Unexplained")


def summary(result: Result, report: Path | None = None) -> RenderableType:
    """The verdict, a table per flow, the pairs beside the truth, the policers, the path of the report."""
    good = result.explained and result.valid
    parts: list[RenderableType] = [Text(result.headline, style="bold green" if good else "bold red")]
    parts += [Text(f"  {reason}", style="red") for reason in result.invalid_reasons]
    parts.append(_flows(result))
    if result.pairs:
        parts.append(_pairs(result.pairs))
    parts += _policers(result)
    if report is not None:
        # Text, not markup: a path may hold brackets, and must stay on one line to be copied.
        parts.append(Text(f"Report: {report}", no_wrap=True, overflow="ignore"))
    return Group(*parts)


def print_summary(result: Result, report: Path | None, console: Console) -> None:
    """Print the summary; the tables are as wide as they need, so that no number is cut."""
    console.print(summary(result, report), soft_wrap=False)


def _table(*left: str, right: Iterable[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right")
    return table


def _flows(result: Result) -> Table:
    table = _table("Phase", "Flow", "CC", "Policer", right=_RIGHT)
    for flow in result.flows:
        table.add_row(
            Text(flow.phase),
            Text(flow.name),
            Text(flow.cc or text.MISSING),
            Text(flow.policer or "none"),
            text.count(flow.sent),
            text.count(flow.received),
            text.count(flow.reported_drops),
            text.count(flow.inferred_lost),
            text.quality(flow.precision),
            text.quality(flow.recall),
            Text(text.count(flow.unexplained), style="green" if flow.unexplained == 0 else "bold red"),
        )
    return table


def _pairs(pairs: Iterable[PairResult]) -> Table:
    table = _table("Phase", "Pair", "Truth", "Verdict", "Detector", "Why")
    for pair in pairs:
        style = "green" if pair.verdict == pair.truth else "yellow"
        table.add_row(
            Text(pair.phase),
            Text(" and ".join(flow.rpartition("/")[2] for flow in pair.flows)),
            Text(pair.truth),
            Text(pair.verdict.replace("_", " "), style=style),
            Text(pair.detector),
            Text(pair.reason),
        )
    return table


def _policers(result: Result) -> list[Text]:
    lines = []
    for policer in result.policers:
        figure = policer.conformance.deviation_percent if policer.conformance else None
        held = (
            "not saturated for 5 s" if figure is None else f"within {text.percent(figure, 3)} of rate × 5 s"
        )
        counts = "counts agree" if not policer.disagreements else "; ".join(policer.disagreements)
        lines.append(
            Text(
                f"Policer {policer.phase}/{policer.name}: {text.rate(policer.effective_rate_bps)}, burst "
                f"{text.size(policer.effective_burst_bytes)}: {held}; {counts}",
                style="" if not policer.disagreements else "red",
            )
        )
    return lines
