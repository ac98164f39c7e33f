# SPDX-License-Identifier: Apache-2.0
"""`weir evaluate`: how often detectors are right; the work is in weir.analysis.evaluate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from weir.analysis.evaluate import (
    DEFAULT_DETECTORS,
    Evaluation,
    evaluate,
    run_trials,
    synthetic_trials,
)
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
    as_json: bool,
    console: Console,
) -> int:
    """Show errors, ROC areas and calibration over finished runs, or over simulated scenarios without any.

    Raises:
        UnknownDetectorError, UnknownScenarioError: a name that is not there; the message lists them.
        RunFileError: a directory without the result of a run.
    """
    if directories:
        trials = list(run_trials(directories))
    else:
        names = detectors or DEFAULT_DETECTORS
        trials = list(synthetic_trials(names, scenarios or tuple(SCENARIOS), runs, seconds, seed))
    found = evaluate(trials)
    if as_json:
        print(json.dumps({"schema": 1, "evaluations": [one.to_json() for one in found]}))
    else:
        console.print(evaluation_table(found))
    return 0


def evaluation_table(found: Sequence[Evaluation]) -> Table:
    """One row per detector and scenario; shares with their exact 95 % intervals, in percent."""
    table = Table(box=None, pad_edge=False)
    table.add_column("detector", no_wrap=True)
    table.add_column("scenario", no_wrap=True)
    for heading in ("trials", "cannot tell", "false neg. %", "false pos. %", "AUC", "p < 0.05 %", "cpu s"):
        table.add_column(heading, justify="right")
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
