# SPDX-License-Identifier: Apache-2.0
"""The campaign on one page: a row per cell of the matrix, a line per run, the detectors beside the truth."""

from __future__ import annotations

import importlib.resources
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from weir.analysis.evaluate import Evaluation, Trial, evaluate, score_of
from weir.campaign.load import Campaign, Cell
from weir.campaign.outcome import Outcome
from weir.cli.files import write_whole

PAGE = "index.html"
_HERE = Path(__file__).parent
_STYLE = importlib.resources.files("weir.analysis.report") / "page.css"


@dataclass(frozen=True)
class CellRow:
    """One cell of the matrix over its valid runs; None where nothing was measured."""

    cell: Cell
    planned: int
    complete: int
    invalid: int
    unexplained: int
    loss_ratio: float | None
    """Median over the runs' measured flows."""
    throughput_bps: float | None
    """Median likewise."""


def write_page(folder: Path, campaign: Campaign, found: Sequence[Outcome]) -> Path:
    """Write the page into the campaign's folder and return its path."""
    path = folder / PAGE
    write_whole(path, render_page(campaign, found).encode())
    return path


def render_page(campaign: Campaign, found: Sequence[Outcome]) -> str:
    """The page as text; every string of the campaign and its runs is escaped by the template."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        campaign=campaign,
        cells=cell_rows(campaign, found),
        detectors=detectors(found),
        outcomes=found,
        invalid=sum(not outcome.valid for outcome in found),
        unexplained=sum(outcome.unexplained for outcome in found),
        css=Markup(_STYLE.read_text(encoding="utf-8")),
    )


def cell_rows(campaign: Campaign, found: Sequence[Outcome]) -> list[CellRow]:
    """A row per cell, in the order of the matrix."""
    cells: dict[tuple[str, ...], list[str]] = {}
    for run in campaign.runs:
        cells.setdefault(tuple(run.cell.values()), []).append(run.key)
    by_key = {outcome.key: outcome for outcome in found}
    rows = []
    for labels, keys in cells.items():
        its = [by_key[key] for key in keys if key in by_key]
        flows = [flow for outcome in its if outcome.valid for flow in outcome.measured]
        rows.append(
            CellRow(
                cell=dict(zip(campaign.axes, labels, strict=True)),
                planned=len(keys),
                complete=len(its),
                invalid=sum(not outcome.valid for outcome in its),
                unexplained=sum(outcome.unexplained for outcome in its),
                loss_ratio=_median(flows, "loss_ratio"),
                throughput_bps=_median(flows, "throughput_bps"),
            )
        )
    return rows


def _median(flows: Sequence[Any], name: str) -> float | None:
    values = [flow[name] for flow in flows if flow[name] is not None]
    return statistics.median(values) if values else None


def detectors(found: Sequence[Outcome]) -> list[Evaluation]:
    """Every detector of pairs over the valid runs."""
    trials = []
    for outcome in found:
        if not outcome.valid:
            continue
        for pair in outcome.result["pairs"]:
            score, p = score_of(pair["detail"])
            name = " ".join(outcome.cell.values())
            trials.append(Trial(pair["detector"], name, pair["truth"], pair["verdict"], score, p, 0.0))
    return [evaluation for evaluation in evaluate(trials) if evaluation.scenario == "all"]
