# SPDX-License-Identifier: Apache-2.0
"""`weir report`: repeats the analysis of one run, or compares several runs and captures on one page."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from weir.cli import completion, options
from weir.cli.errors import InputError
from weir.rundir.directory import RunDirectory, held, is_held


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…",
            help="Run directories, such as runs/demo/latest, or captures.",
            show_default=False,
            autocompletion=completion.run_directories,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Where the page goes; by default report/ beside the runs.",
            callback=options.folder,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Analyse one run again and rebuild its report.html, or set several runs or captures side by side.

    Several, or captures (compressed or not), make DIR/index.html: loss, delay, correlation, throughput,
    fairness and retransmissions by scenario, tests, verdicts; figures also as SVG (needs Chromium) and CSV.
    """
    return report_command(paths, out, as_json=as_json, console=Console())


def report_command(paths: Sequence[Path], out: Path | None, *, as_json: bool, console: Console) -> int:
    """Rebuild the result and report of one run, or write one page about several runs and captures.

    Raises:
        InputError: a path is neither a run directory nor a file, or is a run under way.
        RunFileError, CaptureError: a file of a run, or a capture, is missing or malformed.
        OSError: a file cannot be read or written.
    """
    from weir.analysis import analyse
    from weir.analysis.figures import Figure, Records, of_capture, of_run, study, write_study

    for path in paths:
        manifest = RunDirectory(path).manifest
        if not path.is_file() and not manifest.is_file():
            raise InputError(
                f"{path}: no {manifest.name} in it; valid: a run directory (runs/demo/latest) or a capture"
            )
        # Two analyses of a run at a time: the one that ends first may delete the captures (`keep: results`).
        if path.is_dir() and is_held(path):
            raise InputError(f"{path}: the run is under way; valid: a run that has ended")
    if len(paths) == 1 and paths[0].is_dir() and out is None:
        with held(paths[0]):
            code = report_run(paths[0], as_json=as_json, console=console)
            _drop_captures(paths[0])
        return code
    directory = out or default_directory(paths)
    records = Records()
    for path in paths:
        if path.is_dir():
            if not RunDirectory(path).result.is_file():
                analyse(path)
            records += of_run(path)
        else:
            records += of_capture(path)
    found = study(records, title_of(paths))
    page, warnings = write_study(found, directory)
    if as_json:
        files = [
            {
                "name": item.name,
                "title": item.title,
                "csv": f"data/{item.name}.csv",
                "svg": f"figures/{item.name}.svg" if isinstance(item, Figure) and not warnings else None,
            }
            for item in found.tables
        ]
        answer = {
            "schema": 1,
            "page": str(page),
            "runs": len(paths),
            "flows": len(records.flows),
            "figures": files,
            "notes": [*found.notes, *warnings],
        }
        print(json.dumps(answer))
        return 0
    for line in (*found.notes, *warnings):
        console.print(line, style="yellow", highlight=False, markup=False)
    console.print(f"{found.meta}: {page}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _drop_captures(run_dir: Path) -> None:
    """Delete the captures if the run's experiment says so; without a valid experiment they are kept."""
    from weir.controlplane.config import ConfigError
    from weir.runner.kept import drop_captures

    try:
        drop_captures(run_dir)
    except ConfigError as error:
        # The page is whole: nothing of it comes from the experiment file.
        kept = f"{run_dir}: its captures are kept, as only its config.yaml can say otherwise"
        for line in (*str(error).splitlines(), kept):
            print(f"weir: {line}", file=sys.stderr)


def default_directory(paths: Sequence[Path]) -> Path:
    """`report` in the deepest directory that contains all runs; never inside a run."""
    parent = Path(os.path.commonpath([path.resolve().parent for path in paths]))
    # Captures are in a run, whose files `weir export` archives.
    for folder in (parent, *parent.parents):
        if RunDirectory(folder).manifest.is_file():
            return folder.parent / "report"
    return parent / "report"


def title_of(paths: Sequence[Path]) -> str:
    """Title of the page: the name of its only path, or of the directory that contains all."""
    if len(paths) == 1:
        return paths[0].name
    return Path(os.path.commonpath([path.resolve().parent for path in paths])).name or "Runs"


def report_run(run_dir: Path, *, as_json: bool, console: Console) -> int:
    """Rebuild `result.json` and `report.html` of a run directory and show the summary.

    Raises RunFileError and CaptureError where a file of the run is missing or malformed.
    """
    from weir.analysis import analyse, write_report
    from weir.cli.terminal.result import print_summary

    result = analyse(run_dir)
    report = write_report(run_dir)
    if as_json:
        print(result.model_dump_json(by_alias=True))
    else:
        print_summary(result, report, console)
    return 0
