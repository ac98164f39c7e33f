# SPDX-License-Identifier: Apache-2.0
"""`weir evaluate`: the accuracy of detectors, computed by weir.analysis.evaluate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from weir.analysis.errors import UnknownDetectorError
from weir.cli import completion, options
from weir.cli.errors import InputError
from weir.cli.evaluate_paths import evaluate_paths_command
from weir.cli.terminal.shares import share_text
from weir.rundir.plural import plural

if TYPE_CHECKING:
    from weir.analysis.evaluate import Evaluation
    from weir.analysis.evaluate_policing import PolicingEvaluation
    from weir.analysis.evaluate_policing_runs import LeftOut


def evaluate(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN…]",
            help="Finished runs; with --paths also data sets. None: simulated scenarios.",
            show_default=False,
            autocompletion=completion.run_directories,
        ),
    ] = None,
    detectors: Annotated[
        list[str] | None,
        typer.Option(
            "--detector",
            metavar="NAME",
            help="Only this one; may be repeated.",
            autocompletion=completion.detectors,
        ),
    ] = None,
    scenarios: Annotated[
        list[str] | None, typer.Option("--scenario", metavar="NAME", help="Only this one; may be repeated.")
    ] = None,
    runs: Annotated[
        int,
        typer.Option(
            "--runs", callback=options.within(1, 100_000), help="Draws of each scenario, to 100000."
        ),
    ] = 20,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", callback=options.within(2, 3600), help="Length of each simulated run, 2 to 3600."
        ),
    ] = 20.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="First seed; validate from 1000 on.")] = 0,
    jitter_ms: Annotated[
        float,
        typer.Option(
            "--jitter",
            metavar="MS",
            callback=options.within(0, 10_000),
            help="Mean jitter before the policer, in milliseconds, to 10000.",
        ),
    ] = 0.0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Also write a page with figures, SVG and CSV.",
            callback=options.folder,
        ),
    ] = None,
    policing: Annotated[
        bool, typer.Option("--policing", help="Detectors of policing instead, of single flows.")
    ] = False,
    paths: Annotated[
        bool, typer.Option("--paths", help="Over jitter from 0 to 10 ms and over all properties of paths.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="With --paths: write the pairs there as files instead.",
            callback=options.folder,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Count how often detectors are right where the truth is known.

    Over the results of runs (with --detector, over their captures), or over simulated flows that share a
    policer, a queue or nothing: false negatives and positives with exact intervals, area under the ROC curve,
    p-values where nothing is shared. With --policing, over the flows in the captures of runs, or over
    simulated ones: wrong verdicts, and how near rate and burst of the policer are.

    With --paths, over pairs whose properties are drawn at random: rate, burst, RTTs, other traffic, a queue
    in front, random loss, pauses of the application. Each pair is judged at seven amounts of jitter before
    the policer; --runs are pairs of each truth. RUN… may also be data sets that --data wrote.
    """
    if paths:
        if scenarios or policing or jitter_ms:
            raise InputError(
                "--paths takes runs or data sets, --detector, --runs, --seconds, --seed, --data, --out, "
                "--json and no other options"
            )
        return evaluate_paths_command(
            directories or [],
            detectors or [],
            runs=runs,
            seconds=seconds,
            seed=seed,
            out=out,
            data=data,
            as_json=as_json,
            console=Console(),
        )
    if data is not None:
        raise InputError("--data needs --paths")
    return evaluate_command(
        directories or [],
        detectors or [],
        scenarios or [],
        runs=runs,
        seconds=seconds,
        seed=seed,
        jitter_ms=jitter_ms,
        out=out,
        policing=policing,
        as_json=as_json,
        console=Console(),
    )


def evaluate_command(
    directories: Sequence[Path],
    detectors: Sequence[str],
    scenarios: Sequence[str],
    *,
    runs: int,
    seconds: float,
    seed: int,
    jitter_ms: float = 0.0,
    out: Path | None = None,
    policing: bool = False,
    as_json: bool,
    console: Console,
) -> int:
    """Show errors, ROC areas and calibration over finished runs; without any, over simulated scenarios.

    With `policing`, the accuracy of policing detectors: verdicts, rates and bursts.

    Raises:
        UnknownDetectorError, UnknownScenarioError: an unknown name; the message lists the valid ones.
        RunFileError: a directory without the result of a run; with `detectors` or `policing`, without its
            captures.
        InputError: `scenarios` or `out` with `policing`; `jitter_ms` with `policing` of runs.
        OSError: the page cannot be written to `out`.
    """
    from weir.analysis.evaluate import DEFAULT_DETECTORS, evaluate, run_trials, synthetic_trials
    from weir.analysis.evaluate_runs import judged_trials
    from weir.analysis.figures import evaluation, write_study
    from weir.analysis.synthetic import SCENARIOS

    if policing:
        if scenarios or out is not None or (directories and jitter_ms):
            raise InputError(
                "--policing takes --detector, --seed, --json and either runs, or --runs, --seconds and "
                "--jitter"
            )
        return _evaluate_policing(
            directories, detectors, runs, seconds, seed, jitter_ms / 1e3, as_json, console
        )
    if directories and detectors:
        trials = list(judged_trials(directories, detectors, jitter_s=jitter_ms / 1e3, seed=seed))
    elif directories:
        if jitter_ms:
            raise InputError("--jitter is added to captures, not to results: name a --detector")
        trials = list(run_trials(directories))
    else:
        names = detectors or DEFAULT_DETECTORS
        chosen = scenarios or tuple(SCENARIOS)
        trials = list(synthetic_trials(names, chosen, runs, seconds, seed, jitter_ms / 1e3))
    found = evaluate(trials)
    over = (
        {"results": [str(directory) for directory in directories]}
        if directories
        else {"runs": runs, "seconds": seconds, "first_seed": seed}
    ) | ({"jitter_ms": jitter_ms} if jitter_ms else {})
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
        console.print(warning, style="yellow", highlight=False, markup=False)
    if page is not None:
        console.print(f"Page: {page}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _words(over: Mapping[str, Any]) -> str:
    jitter = f", {over['jitter_ms']:g} ms of jitter" if "jitter_ms" in over else ""
    if "results" in over:
        return f"results of {plural(len(over['results']), 'run')}{jitter}"
    first, runs = over["first_seed"], over["runs"]
    seeds = f"seeds {first} to {first + runs - 1}"
    return f"{runs} draws of {over['seconds']:g} s of each scenario, {seeds}{jitter}"


def _evaluate_policing(
    directories: Sequence[Path],
    detectors: Sequence[str],
    runs: int,
    seconds: float,
    seed: int,
    jitter_s: float,
    as_json: bool,
    console: Console,
) -> int:
    from weir.analysis.detectors.policing import POLICING_DETECTORS
    from weir.analysis.evaluate_policing import evaluate_policing, policing_trials
    from weir.analysis.evaluate_policing_runs import policing_trials_of_runs

    for name in detectors:
        if name not in POLICING_DETECTORS:
            raise UnknownDetectorError(
                f"no detector {name!r} of policing; valid: {', '.join(POLICING_DETECTORS)}"
            )
    names = detectors or tuple(POLICING_DETECTORS)
    left_out: list[LeftOut] = []
    if directories:
        trials, left_out = policing_trials_of_runs(directories, names)
    else:
        trials = [trial for name in names for trial in policing_trials(name, runs, seconds, seed, jitter_s)]
    found = evaluate_policing(trials)
    if as_json:
        answer: dict[str, Any] = {"schema": 1, "runs": runs, "seconds": seconds, "first_seed": seed}
        if directories:
            answer = {
                "schema": 1,
                "results": [str(directory) for directory in directories],
                "flows": [asdict(trial) for trial in trials],
                "left_out": [one.to_json() for one in left_out],
            }
        print(json.dumps({**answer, "policing": [one.to_json() for one in found]}))
        return 0
    console.print(policing_evaluation_table(found, "run" if directories else "flows"))
    if left_out:
        console.print(f"Left out: {plural(len(left_out), 'measured flow')}", style="yellow", highlight=False)
        for one in left_out:
            console.print(f"  {one.run} {one.flow}: {one.reason}", highlight=False, markup=False)
    return 0


def policing_evaluation_table(found: Sequence[PolicingEvaluation], over: str) -> Table:
    """One row per detector and kind or run; shares with their exact 95 % intervals, in percent."""
    table = Table(
        box=None,
        pad_edge=False,
        caption="near: rate within 5 %, burst within 10 % or a frame; held: in the 95 % interval",
        caption_justify="left",
    )
    table.add_column("detector", no_wrap=True)
    table.add_column(over, no_wrap=True)
    headings = (
        "trials",
        "cannot tell",
        "wrong %",
        "rate near %",
        "burst near %",
        "rate held %",
        "burst held %",
        "cpu s",
    )
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold")  # no part of a figure may be cut off
    for one in found:
        counts = (str(one.trials), str(one.undecided))
        kinds = (one.wrong, one.rate_near, one.burst_near, one.rate_held, one.burst_held)
        shares = (share_text(kind) for kind in kinds)
        table.add_row(one.detector, one.kind, *counts, *shares, f"{one.cpu_s:.2f}")
    return table


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
            share_text(one.false_negatives),
            share_text(one.false_positives),
            "" if one.auc is None else f"{one.auc:.3f}",
            share_text(one.p_below_level),
            f"{one.cpu_s:.2f}",
        )
    return table
