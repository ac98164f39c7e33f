# SPDX-License-Identifier: Apache-2.0
"""Makes a run from Python, as `weir run` does: real traffic in a sandbox, then the analysis."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from weir.api.errors import RunFailedError, RunInterrupted
from weir.api.progress import Show, shower
from weir.api.run import Run, open_run
from weir.controlplane.given import Given, read_given
from weir.rundir.digest import record_digest
from weir.runner.kept import drop_captures
from weir.runner.outer import run_prepared
from weir.runner.prepare import new_run_of
from weir.runner.progress import Step

_PROGRAM = "weir.runner.sandboxed"


def run(
    config: Given,
    *,
    runs: str | PathLike[str] = "runs",
    progress: bool | None = None,
) -> Run:
    """Run an experiment and open its run; needs no root, and takes as long as its flows and a few seconds.

    It works in scripts and notebooks, with an asyncio loop running or not. Ctrl-C, or a notebook's stop
    button, ends the run cleanly; a second one kills it. Outside the main thread no signal can be handled.

    Args:
        config: An experiment file, the name of a shipped experiment (`"demo"`), or an experiment's keys as a
            mapping: `{"name": "mine", "hosts": {…}, "flows": […]}`. Replays of a mapping are relative to the
            working directory.
        runs: Where run directories go: `runs`/NAME/RUN-ID.
        progress: Whether to show the run's steps; by default in notebooks and on terminals.

    Raises:
        ConfigError: the experiment is not valid, or a run does not support it; no directory is made.
        RunFailedError: the run failed; it names the directory and the reason.
        RunInterrupted: the run was stopped; a KeyboardInterrupt.
        SandboxError, ToolMissingError: this machine cannot make runs; `weir doctor` says why.
        OSError: the directory cannot be written.
    """
    text, path = read_given(config)
    with new_run_of(text, path, Path(runs)) as (experiment, run_dir):
        return _make(experiment.name, run_dir, shower(progress))


def _make(name: str, run_dir: Path, show: Show) -> Run:
    def on_line(line: str) -> None:
        step = Step.of(line)
        if step is not None:
            show(f"{name}: {step.text}")

    show(f"{name}: {run_dir}")
    ended = run_prepared(run_dir, _PROGRAM, on_line=on_line)
    if ended.state == "interrupted":
        raise RunInterrupted(run_dir, ended.error or "the run was stopped early")
    if not ended.complete:
        raise RunFailedError(run_dir, ended.problem or ended.error or f"exit code {ended.exit_status}")
    show(f"{name}: analysing")
    made = open_run(run_dir).analyse()
    record_digest(run_dir)
    drop_captures(run_dir)
    show(f"{name}: {run_dir}: {made.result.headline}")
    return made
