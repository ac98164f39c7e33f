# SPDX-License-Identifier: Apache-2.0
"""`weir run`: the outer half. Makes the run directory, runs the experiment in a sandbox, analyses the result.

The inner half is `weir.cli.execute`. This half survives whatever happens in the sandbox, so it has the last
word in the manifest; when it is killed itself, the inner half notices and ends the run.
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from weir.cli.errors import EXIT_DISK
from weir.cli.files import CONFIG_NAME, write_whole
from weir.cli.manifest import ManifestFile
from weir.cli.replays import keep_replays, read_replays
from weir.cli.runnable import check_runnable
from weir.controlplane.config import load_experiment
from weir.topo.sandbox import run_in_sandbox

_ENDS = {"failed": "failed", "interrupted": "was stopped before its end"}


def run_command(config: Path, runs: Path, *, as_json: bool = False) -> int:
    """Run an experiment and analyse it; returns the exit code (0, 1, or 130 after Ctrl-C).

    Raises what `load_experiment`, `run_in_sandbox` and `report_run` raise.
    """
    experiment = load_experiment(config)
    check_runnable(experiment, config)
    replays = read_replays(experiment, config)
    run_dir = make_run_dir(runs / experiment.name)
    write_whole(run_dir / CONFIG_NAME, config.read_bytes())
    keep_replays(run_dir, replays)
    ManifestFile.create(run_dir, run_dir.name, experiment)
    point_latest_to(run_dir)
    Console(stderr=True).print(f"[bold]{experiment.name}[/bold] → {run_dir}", highlight=False)
    return run_prepared(run_dir) or analyse_run(run_dir, as_json=as_json)


def run_prepared(run_dir: Path) -> int:
    """Run the experiment of a directory that has its config and manifest.

    Returns 0 when the run is complete; otherwise, and raises, what `run_command` does.
    """
    progress = Console(stderr=True)
    code = run_in_sandbox("weir.cli.execute", [str(run_dir)])
    manifest = ManifestFile.load(run_dir)
    if manifest.state == "running":
        problem = f"the run died with exit code {code}"
        manifest.end_if_possible("failed", problem)
        if code != EXIT_DISK:  # which the run has said, and could not write down
            progress.print(f"weir: {problem}", style="red", highlight=False)
    if manifest.state != "complete":
        progress.print(
            f"weir: the run {_ENDS[manifest.state]}; what it wrote is in {run_dir}",
            style="red",
            highlight=False,
            soft_wrap=True,
        )
        return code or 1
    return 0


def analyse_run(run_dir: Path, *, as_json: bool = False) -> int:
    """Analyse a complete run; returns and raises what `report_run` does."""
    Console(stderr=True).print("  analysing")
    # Only now: what analyses takes seconds to load, which nobody should wait for before the traffic.
    from weir.cli.report import report_run

    return report_run(run_dir, as_json=as_json, console=Console())


def make_run_dir(parent: Path) -> Path:
    """Make a new directory named after the time (UTC), so that names sort by age."""
    stem = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1000):
        run_dir = parent / (stem if attempt == 0 else f"{stem}-{attempt}")
        try:
            run_dir.mkdir()
        except FileExistsError:
            continue
        return run_dir.absolute()
    raise FileExistsError(f"{parent} holds 1000 runs of {stem} already")


def point_latest_to(run_dir: Path) -> None:
    """Let the symbolic link `latest` beside the run directory name it, at once for whoever reads it."""
    part = run_dir.parent / ".latest.part"
    part.unlink(missing_ok=True)
    part.symlink_to(run_dir.name)
    part.replace(run_dir.parent / "latest")
