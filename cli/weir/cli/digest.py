# SPDX-License-Identifier: Apache-2.0
"""`weir digest`: one string per run, and the files in which runs differ; see `weir.rundir.digest`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from weir.cli import completion, options


def digest(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…",
            help="Run directories, such as runs/demo/latest.",
            show_default=False,
            autocompletion=completion.run_directories,
        ),
    ],
    files: Annotated[bool, typer.Option("--files", help="Show the digest of every file, too.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Print the digest of a run's captures, telemetry and results; of several runs, say what differs.

    In virtual time, repeats of an experiment have the same digest. Exit code 1 if the runs differ.
    """
    from weir.rundir.digest import digest_of

    found = [digest_of(run) for run in runs]
    differing = sorted({path for other in found[1:] for path in found[0].differing(other)})
    if as_json:
        answers = [
            {"run": str(run), "digest": its.total, "files": dict(its.files)}
            for run, its in zip(runs, found, strict=True)
        ]
        print(json.dumps({"schema": 1, "runs": answers, "differing": differing}))
        return 1 if differing else 0
    for run, its in zip(runs, found, strict=True):
        print(f"{its.total}  {run}")
        if files:
            for path, of_file in its.files.items():
                print(f"  {of_file}  {path}")
    if len(runs) > 1:
        same = f"the {len(runs)} runs are identical"
        print(f"these files differ: {', '.join(differing)}" if differing else same)
    return 1 if differing else 0
