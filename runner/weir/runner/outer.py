# SPDX-License-Identifier: Apache-2.0
"""The outer half of a run: starts the inner half in a sandbox, and completes the manifest if that one dies.

The inner half is `weir.runner.execute`. This half survives a crash in the sandbox. If it is killed
itself, the inner half notices and ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from weir.controlplane.config import load_experiment
from weir.rundir.directory import RunDirectory, held
from weir.rundir.manifest_file import ManifestFile
from weir.runner.ended import STOPPED, STOPPED_EARLY, Ended
from weir.runner.virtual import run_virtually
from weir.topo.sandbox import run_in_sandbox


def is_virtual(run_dir: Path) -> bool:
    """Whether the run of a prepared directory is in virtual time. Raises RunFileError."""
    return ManifestFile.load(run_dir).manifest.virtual_time is not None


def run_prepared(
    run_dir: Path,
    program: str,
    options: Sequence[str] = (),
    *,
    announce_stop: bool = True,
    on_line: Callable[[str], None] | None = None,
    on_virtual_s: Callable[[float], None] | None = None,
) -> Ended:
    """Run the experiment of a directory that `weir.runner.prepare` has made.

    `program` is the module that the sandbox runs, with the directory and `options` as its arguments; it
    calls `weir.runner.execute.run_inside`. `announce_stop` is that of `run_in_sandbox`; `on_line` receives
    the lines of its stdout, `on_virtual_s` the time of a run in virtual time about once per second of it.
    Raises SandboxError, ToolMissingError, KernelInputError if the kernel of the run does not exist any more.
    """
    virtual = is_virtual(run_dir)
    # The sandbox gets the lock, which its program could take only after its imports, and a guest not at all.
    with held(run_dir) as lock:
        if virtual:
            return run_virtually(
                run_dir, program, options, lock=lock, on_line=on_line, on_virtual_s=on_virtual_s
            )
        return _run_in_real_time(
            run_dir, program, options, lock=lock, announce_stop=announce_stop, on_line=on_line
        )


def _run_in_real_time(
    run_dir: Path,
    program: str,
    options: Sequence[str],
    *,
    lock: int,
    announce_stop: bool,
    on_line: Callable[[str], None] | None,
) -> Ended:
    on_testbed = ManifestFile.load(run_dir).manifest.testbed is not None
    elsewhere = load_experiment(RunDirectory(run_dir).config).switch.address is not None
    status = run_in_sandbox(
        program,
        [str(run_dir), *options],
        announce_stop=announce_stop,
        on_line=on_line,
        with_origin=elsewhere and not on_testbed,
        isolated=not on_testbed,
        kept_open=[lock],
    )
    manifest = ManifestFile.load(run_dir)
    problem = None
    if manifest.state == "running" and status in STOPPED:  # so early that it had not read the manifest
        manifest.end_if_possible("interrupted", STOPPED_EARLY)
    elif manifest.state == "running":
        problem = f"the run died with exit code {status}"
        manifest.end_if_possible("failed", problem)
    return Ended(manifest.state, manifest.manifest.error, status, problem)
