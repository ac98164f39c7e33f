# SPDX-License-Identifier: Apache-2.0
"""`weir evaluate`: how often detectors are right; the work is in weir.analysis.evaluate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from weir.analysis.detectors.policing import POLICING_DETECTORS
from weir.analysis.errors import UnknownDetectorError
from weir.analysis.evaluate import (
    DEFAULT_DETECTORS,
    Evaluation,
    evaluate,
    run_trials,
    synthetic_trials,
)
from weir.analysis.evaluate_policing import evaluate_policing, policing_trials
from weir.analysis.evaluate_runs import judged_trials
from weir.analysis.figures import evaluation, write_study
from weir.analysis.statistics import Share
from weir.analysis.synthetic import SCENARIOS


def evaluate_command(
    directories: Sequence[Path],
    detectors: Sequence[str],
    scenarios: Sequence[str],
    *,
    runs: int,
    seconds: float,
    seed: int,
    out: Path | None = None,
    as_json: bool,
    console: Console,
) -> int:
    """Show errors, ROC areas and calibration over finished runs, or over simulated scenarios without any.

    Raises:
        UnknownDetectorError, UnknownScenarioError: a name that is not there; the message lists them.
        RunFileError: a directory without the result of a run; with `detectors`, without its captures.
        OSError: the page cannot be written to `out`.
    """
    if directories and detectors:
        trials = list(judged_trials(directories, detectors))
    elif directories:
        trials = list(run_trials(directories))
    else:
        names = detectors or DEFAULT_DETECTORS
        trials = list(synthetic_trials(names, scenarios or tuple(SCENARIOS), runs, seconds, seed))
    found = evaluate(trials)
    over = (
        {"results": [str(directory) for directory in directories]}
        if directories
        else {"runs": runs, "seconds": seconds, "first_seed": seed}
    )
    page: Path | None = None
    warnings: tuple[str, ...] = ()
    if out is not None:
        page, warnings = write_study(evaluation(found, _words(over)), out)
    if as_json:
        answer = {"schema": 1, **over, "page": None if page is None else str(page)}
        print(json.dumps({**answer, "evaluations": [one.to_json() for one in found]}))
        return 0
    console.print(evaluation_table(found))
    for warning in warnings:
        console.print(warning, style="yellow", highlight=False)
    if page is not None:
        console.print(f"Page: {page}", highlight=False, soft_wrap=True)
    return 0


def _words(over: Mapping[str, Any]) -> str:
    if "results" in over:
        return f"results of {len(over['results'])} runs"
    first, runs = over["first_seed"], over["runs"]
    return f"{runs} draws of {over['seconds']:g} s of each scenario, seeds {first} to {first + runs - 1}"


def evaluate_policing_command(
    detectors: Sequence[str], *, runs: int, seconds: float, seed: int, as_json: bool, console: Console
) -> int:
    """Show how often detectors of policing are right over simulated flows, and how near their estimates are.

    Raises UnknownDetectorError for a name that is not there.
    """
    for name in detectors:
        if name not in POLICING_DETECTORS:
            raise UnknownDetectorError(
                f"no detector {name!r} of policing; valid: {', '.join(POLICING_DETECTORS)}"
            )
    trials = [
        trial
        for name in detectors or POLICING_DETECTORS
        for trial in policing_trials(name, runs, seconds, seed)
    ]
    found = evaluate_policing(trials)
    if as_json:
        over = {"schema": 1, "runs": runs, "seconds": seconds, "first_seed": seed}
        print(json.dumps({**over, "policing": [one.to_json() for one in found]}))
        return 0
    table = Table(box=None, pad_edge=False)
    table.add_column("detector", no_wrap=True)
    table.add_column("flows", no_wrap=True)
    headings = (
        "trials",
        "cannot tell",
        "wrong %",
        "rate within 5 %",
        "burst within 10 % or a frame",
        "rate in its interval",
        "cpu s",
    )
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold")  # no part of a figure may be cut off
    for one in found:
        counts = (str(one.trials), str(one.undecided))
        shares = (_share(s) for s in (one.wrong, one.rate_near, one.burst_near, one.rate_held))
        table.add_row(one.detector, one.kind, *counts, *shares, f"{one.cpu_s:.2f}")
    console.print(table)
    return 0


def evaluation_table(found: Sequence[Evaluation]) -> Table:
    """One row per detector and scenario; shares with their exact 95 % intervals, in percent."""
    table = Table(box=None, pad_edge=False)
    table.add_column("detector", no_wrap=True)
    table.add_column("scenario", no_wrap=True)
    for heading in ("trials", "cannot tell", "false neg. %", "false pos. %", "AUC", "p < 0.05 %", "cpu s"):
        table.add_column(heading, justify="right", overflow="fold")  # no part of a figure may be cut off
    for one in found:
        table.add_row(
            one.detector if one.scenario == "all" else "",
            one.scenario,
            str(one.trials),
            str(one.undecided),
            _share(one.false_negatives),
            _share(one.false_positives),
            "" if one.auc is None else f"{one.auc:.3f}",
            _share(one.p_below_level),
            f"{one.cpu_s:.2f}",
        )
    return table


def _share(found: Share) -> str:
    if found.rate is None:
        return ""
    return f"{found.rate * 100:.0f} ({found.low * 100:.0f}–{found.high * 100:.0f})"
