# SPDX-License-Identifier: Apache-2.0
"""`weir evaluate --paths`: detectors of pairs over jitter and over the properties of paths."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from weir.cli.errors import EXIT_INTERRUPTED, InputError
from weir.cli.terminal.progress import TerminalBar
from weir.cli.terminal.shares import share_text
from weir.rundir.plural import plural

if TYPE_CHECKING:
    from weir.analysis.paths.judging import PathEvaluation, PathTrial
    from weir.analysis.paths.pair import Source

TRIALS = "trials.csv"


def evaluate_paths_command(
    directories: Sequence[Path],
    detectors: Sequence[str],
    *,
    runs: int,
    seconds: float,
    seed: int,
    out: Path | None,
    data: Path | None,
    as_json: bool,
    console: Console,
) -> int:
    """Judge `runs` simulated pairs of each truth, or those of finished runs or data sets, at every jitter.

    With `data`, write the pairs there instead. Ctrl-C shows what has been judged so far.

    Raises:
        UnknownDetectorError: an unknown name; the message lists the valid ones.
        InputError: no pair; or `data` together with `out`, or a data set that is already there.
        RunFileError, PathFilesError, CaptureError: a directory's files are missing or malformed.
        OSError: a file cannot be written.
    """
    from weir.analysis.detectors import pair_detector
    from weir.analysis.evaluate import DEFAULT_DETECTORS
    from weir.analysis.paths.judging import JITTERS_S, evaluate_paths, judge_all

    names = tuple(detectors) or DEFAULT_DETECTORS
    for name in names:
        pair_detector(name)
    sources = _sources(directories, runs, seconds, seed)
    if data is not None:
        if out is not None or detectors:
            raise InputError("--data only writes the pairs; judge them with: weir evaluate --paths DIR")
        return _write(sources, data, as_json=as_json, console=console)
    trials: list[PathTrial] = []
    interrupted = False
    done = 0
    with _Bar(len(sources)) as bar, closing(judge_all(sources, names, JITTERS_S)) as judged:
        try:
            for found in judged:
                trials += found
                done += 1
                bar.done(done)
        except KeyboardInterrupt:
            interrupted = True
    if not trials:
        if interrupted:
            return EXIT_INTERRUPTED
        raise InputError("no pair of flows can be judged in these runs")
    evaluations = evaluate_paths(trials)
    over = _over(directories, runs, seconds, seed) | {"pairs": len({one.pair for one in trials})}
    page = _page(evaluations, trials, over, out)
    if as_json:
        answer = {
            "schema": 1,
            **over,
            "page": None if page is None else str(page),
            "complete": not interrupted,
        }
        print(json.dumps({**answer, "evaluations": [one.to_json() for one in evaluations]}))
    else:
        console.print(path_table(evaluations))
        if page is not None:
            console.print(
                f"Page: {page}; every verdict: {page.parent / TRIALS}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
    if interrupted:
        Console(stderr=True).print(
            f"weir: stopped after {done} of {len(sources)} sources of pairs", style="red", highlight=False
        )
    return EXIT_INTERRUPTED if interrupted else 0


def _sources(directories: Sequence[Path], runs: int, seconds: float, seed: int) -> list[Source]:
    from weir.analysis.paths.files import is_data_set, read_index
    from weir.analysis.paths.pair import OfRun, Simulated

    if not directories:
        return [Simulated(2 * (seed // 2) + number, seconds) for number in range(2 * runs)]
    sources: list[Source] = []
    for directory in directories:
        sources += read_index(directory) if is_data_set(directory) else [OfRun(directory)]
    return sources


def _over(directories: Sequence[Path], runs: int, seconds: float, seed: int) -> dict[str, Any]:
    if directories:
        return {"results": [str(directory) for directory in directories]}
    return {"runs": runs, "seconds": seconds, "first_seed": 2 * (seed // 2)}


def _page(
    evaluations: Sequence[PathEvaluation],
    trials: Sequence[PathTrial],
    over: dict[str, Any],
    out: Path | None,
) -> Path | None:
    if out is None:
        return None
    from weir.analysis.figures import path_study, write_study

    if "results" in over:
        of = plural(len(over["results"]), "run or data set", "runs or data sets")
        meta = f"{plural(over['pairs'], 'pair')} of {of}"
    else:
        last = over["first_seed"] + 2 * over["runs"] - 1
        meta = (
            f"{plural(over['pairs'], 'simulated pair')} of {over['seconds']:g} s, "
            f"seeds {over['first_seed']} to {last}"
        )
    page, warnings = write_study(path_study(evaluations, meta), out)
    for warning in warnings:
        Console(stderr=True).print(warning, style="yellow", highlight=False, markup=False)
    _write_trials(trials, out / TRIALS)
    return page


def _write_trials(trials: Sequence[PathTrial], path: Path) -> None:
    """Every verdict with its truth and the properties of its path."""
    from weir.analysis.paths.judging import in_ms
    from weir.rundir.whole_files import replacing

    factors = list(dict.fromkeys(name for one in trials for name in one.factors))
    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(
            [
                "pair",
                "source",
                "part",
                "truth",
                "jitter_ms",
                "detector",
                "verdict",
                "score",
                "p",
                "cpu_s",
                *factors,
            ]
        )
        for one in trials:
            its = one.trial
            about = [one.pair, its.scenario, one.part, its.truth, in_ms(one.jitter_s)]
            found = [its.detector, its.verdict, its.score, its.p, round(its.cpu_s, 4)]
            table.writerow([*about, *found, *(one.factors.get(name) for name in factors)])


def _write(sources: Sequence[Source], data: Path, *, as_json: bool, console: Console) -> int:
    from weir.analysis.paths.files import add_to_index, is_data_set, write_all

    if is_data_set(data):
        raise InputError(f"{data} already holds a data set; valid: a directory without one")
    data.mkdir(parents=True, exist_ok=True)
    done = pairs = 0
    interrupted = False
    with _Bar(len(sources)) as bar, closing(write_all(sources, data)) as written:
        try:
            for lines in written:
                add_to_index(lines, data)
                done, pairs = done + 1, pairs + len(lines)
                bar.done(done)
        except KeyboardInterrupt:
            interrupted = True
    if as_json:
        print(json.dumps({"schema": 1, "data": str(data), "pairs": pairs, "complete": not interrupted}))
    elif not interrupted:
        console.print(f"{plural(pairs, 'pair')} in {data}", highlight=False, markup=False, soft_wrap=True)
    if interrupted:
        stopped = f"weir: stopped; {plural(pairs, 'pair is', 'pairs are')} in {data}"
        Console(stderr=True).print(stopped, style="red", highlight=False, markup=False, soft_wrap=True)
    return EXIT_INTERRUPTED if interrupted else 0


def path_table(found: Sequence[PathEvaluation]) -> Table:
    """One row per detector and jitter over all pairs; shares with their exact 95 % intervals, in percent."""
    from weir.analysis.figures.paths import jitter_text

    table = Table(box=None, pad_edge=False)
    for heading in ("detector", "jitter"):
        table.add_column(heading, no_wrap=True)
    for heading in ("pairs", "cannot tell", "false neg. %", "false pos. %", "p < 0.05 %", "cpu s"):
        table.add_column(heading, justify="right", overflow="fold")  # no part of a figure may be cut off
    last = ""
    for one in found:
        if one.factor != "all":
            continue
        its = one.evaluation
        table.add_row(
            its.detector if its.detector != last else "",
            jitter_text(one.jitter_s),
            str(its.trials),
            str(its.undecided),
            *(share_text(part) for part in (its.false_negatives, its.false_positives, its.p_below_level)),
            f"{its.cpu_s:.2f}",
        )
        last = its.detector
    return table


class _Bar(TerminalBar):
    """Counts the sources of pairs that are done, on stderr."""

    def __init__(self, total: int) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("pairs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        super().__init__(console, Progress(*columns, console=console, transient=True))
        self._task = self._progress.add_task("", total=total)

    def done(self, count: int) -> None:
        self._progress.update(self._task, completed=count)
