# SPDX-License-Identifier: Apache-2.0
"""`weir export`: makes an archive of runs for the reviewers of a paper, or for anyone else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from rich.console import Console

from weir.cli import completion, options
from weir.cli.signals import stopped_by_sigterm
from weir.rundir.plural import plural

_MOST_LINES = 10


def export(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…",
            help="Run directories, such as runs/demo/latest, or campaigns' folders: their complete runs.",
            show_default=False,
            autocompletion=completion.runs_and_campaigns,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The archive; by default named after the runs.",
            callback=options.writable,
        ),
    ] = None,
    licence: Annotated[
        str,
        typer.Option("--license", metavar="TEXT", help="Its terms, such as CC-BY-4.0, an address or a text."),
    ] = "",
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Also take runs that did not finish or were not analysed.")
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Make one archive of runs: files, checksums, versions, seeds, commands to repeat them, a README.

    It is a zip with RO-Crate metadata, as artifact evaluation and data repositories take them. Absolute
    paths, host and user names are left out of logs and messages; where your own files have some, it says so.
    `weir import` checks such an archive, opens it, and says how to analyse its runs again.

    weir export runs/demo/latest runs/wehey-bbr --license CC-BY-4.0 -o artifact.zip
    """
    return export_command(
        runs, out, licence=licence, unfinished=unfinished, as_json=as_json, console=Console()
    )


def export_command(
    paths: Sequence[Path],
    out: Path | None,
    *,
    licence: str,
    unfinished: bool,
    as_json: bool,
    console: Console,
) -> int:
    """Write an archive of the runs at `paths`; returns the exit code.

    Raises ArchiveError and RunFileError for the runs, OSError for the archive.
    """
    from weir.archive.contents import contents_of
    from weir.archive.record import License, Origin
    from weir.archive.write import default_name, write_archive
    from weir.cli.terminal.transfer import TransferBar, size_text
    from weir.rundir.software import project_commit, weir_version

    contents = contents_of(paths, unfinished=unfinished)
    place = out or Path(default_name(contents))
    origin = Origin(weir_version(), project_commit(), datetime.now(UTC))
    bar = TransferBar("exporting", Console(stderr=True), contents.size_bytes)
    with stopped_by_sigterm(), bar:
        written = write_archive(contents, place, origin, License(licence), progress=bar.done)
    if as_json:
        answer = asdict(written) | {
            "schema": 1,
            "path": str(written.path),
            "runs": [
                {
                    "run": run.folder,
                    "source": str(run.source),
                    "complete": run.manifest.complete,
                    "valid": run.manifest.valid,
                    "analysed": run.analysed,
                    "analysable": run.raw,
                }
                for run in contents.runs
            ],
            "files": len(contents.items),
        }
        print(json.dumps(answer))
        return 0

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    for line in written.remains[:_MOST_LINES]:
        say(f"still in the archive: {line}", "yellow")
    if written.remains[_MOST_LINES:]:
        say(f"… and {len(written.remains) - _MOST_LINES} more such lines; its README names them", "yellow")
    if not all(run.raw for run in contents.runs):
        without = sum(not run.raw for run in contents.runs)
        say(f"{plural(without, 'run')} without captures, which cannot be analysed again", "yellow")
    if not licence:
        say("no license stated: a reader may not know what is allowed; --license CC-BY-4.0", "yellow")
    say(
        f"{written.path}: {plural(len(contents.runs), 'run')}, {plural(len(contents.items), 'file')}, "
        f"{size_text(written.size_bytes)}"
    )
    say(f"SHA-256 {written.sha256}")
    say(f"open it with: weir import {quote(str(written.path))}")
    return 0
