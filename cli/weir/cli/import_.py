# SPDX-License-Identifier: Apache-2.0
"""`weir import`: checks an archive of runs and opens it."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from weir.cli import completion, options
from weir.cli.signals import stopped_by_sigterm
from weir.rundir.plural import plural

if TYPE_CHECKING:
    from weir.archive.read import Limits
    from weir.archive.unpack import Imported, ImportedRun

_MOST_LINES = 20


def import_(
    archive: Annotated[
        Path,
        typer.Argument(
            metavar="ARCHIVE",
            help="An archive of `weir export`.",
            show_default=False,
            callback=options.readable,
            autocompletion=completion.archives,
        ),
    ],
    runs: options.Runs = Path("runs"),
    max_size: Annotated[
        int, typer.Option("--max-size", metavar="GB", min=1, help="Most that it may unpack to.")
    ] = 100,
    as_json: options.AsJson = False,
) -> int:
    """Check an archive of runs, and put them into RUNS/<experiment>/<run>: all of them or none.

    Every file is compared with its checksum. What `weir export` never writes is refused: paths that lead
    elsewhere, links, devices, names that occur twice. A run that is there already must be the same one.

    `weir report RUN` then analyses a run again; nothing of an archive is executed. Its report.html is a page
    with scripts by whoever made the archive, which that command makes anew.
    """
    from weir.archive.read import GB, Limits

    limits = Limits(total_bytes=max_size * GB)
    return import_command(archive, runs, limits, as_json=as_json, console=Console())


def import_command(archive: Path, runs: Path, limits: Limits, *, as_json: bool, console: Console) -> int:
    """Import an archive; returns the exit code. Raises ArchiveError for the archive, OSError."""
    from weir.archive.unpack import import_archive
    from weir.cli.terminal.transfer import TransferBar, size_text
    from weir.rundir.software import project_commit, weir_version

    bar = TransferBar("importing", Console(stderr=True))
    with stopped_by_sigterm(), bar:
        imported = import_archive(archive, runs, limits, bar.done)
    if as_json:
        print(json.dumps(_as_json(archive, imported)))
        return 0

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    for run in imported.runs[:_MOST_LINES]:
        say(_line(run))
    if imported.runs[_MOST_LINES:]:
        say(f"… and {plural(len(imported.runs) - _MOST_LINES, 'more run')}")
    new = sum(run.new for run in imported.runs)
    there = (
        f", {plural(len(imported.runs) - new, 'was', 'were')} there already"
        if new < len(imported.runs)
        else ""
    )
    say(
        f"{plural(imported.files, 'file')}, {size_text(imported.size_bytes)}, all as their checksums say; "
        f"{plural(new, 'new run')} in {runs}{there}"
    )
    analysable = [run for run in imported.runs if run.run.analysable]
    if analysable:
        say(f"analyse again:  weir report {quote(str(analysable[0].path))}")
        this = _software(weir_version(), project_commit())
        made_by = {_software(run.run.manifest.weir_version, run.run.manifest.commit) for run in analysable}
        if others := sorted(made_by - {this}):
            text = f"made by {_plain(', '.join(others))}; this is {this}, which may analyse otherwise"
            say(text, "yellow")
    if len(analysable) < len(imported.runs):
        without = len(imported.runs) - len(analysable)
        say(f"without captures, so not to be analysed again: {without}", "yellow")
    for campaign in imported.campaigns:
        say(f"campaign:       {campaign / 'index.html'}")
    return 0


def _software(version: str, commit: str | None) -> str:
    return f"weir {version}{f' ({commit})' if commit else ''}"


def _line(run: ImportedRun) -> str:
    from weir.archive.record import instant
    from weir.cli.terminal.transfer import size_text

    manifest = run.run.manifest
    ended = instant(manifest.finished_ns) if manifest.complete else None
    facts = [
        f"ended {ended}" if ended else "did not finish",
        "no seed" if manifest.seed is None else f"seed {manifest.seed}",
        _software(manifest.weir_version, manifest.commit),
        plural(len(run.run.files), "file"),
        size_text(run.run.size_bytes),
    ]
    if not manifest.valid:
        facts.append(f"INVALID: {'; '.join(manifest.invalid_reasons)}")
    if not run.new:
        facts.append("was there already")
    return f"{run.run.folder}: {_plain(', '.join(facts))}"


def _plain(text: str) -> str:
    """A text of an archive without characters that control a terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)


def _as_json(archive: Path, imported: Imported) -> dict[str, Any]:
    return {
        "schema": 1,
        "archive": str(archive),
        "files": imported.files,
        "size_bytes": imported.size_bytes,
        "runs": [
            {
                "run": str(run.path),
                "new": run.new,
                "name": run.run.manifest.name,
                "run_id": run.run.manifest.run_id,
                "complete": run.run.manifest.complete,
                "valid": run.run.manifest.valid,
                "seed": run.run.manifest.seed,
                "weir_version": run.run.manifest.weir_version,
                "commit": run.run.manifest.commit,
                "files": len(run.run.files),
                "size_bytes": run.run.size_bytes,
                "analysable": run.run.analysable,
            }
            for run in imported.runs
        ],
        "campaigns": [str(campaign) for campaign in imported.campaigns],
    }
