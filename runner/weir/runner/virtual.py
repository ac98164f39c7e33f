# SPDX-License-Identifier: Apache-2.0
"""The outer half of a run in virtual time: the same inner half as in real time, in a guest.

weir run
  └─ sandbox          (`run_in_sandbox`: whatever happens, nothing outlives it)
       └─ in_guest    (starts the kernel; its console goes to logs/kernel.log)
            └─ guest  (`weir.kernel.guest_init`, then the program of a run in real time, as root)
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from weir.kernel.errors import KernelInputError
from weir.kernel.guest import report_of
from weir.kernel.store import KernelStore, kernels_folder
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest_file import ManifestFile
from weir.runner.core import own_core
from weir.runner.ended import STOPPED, STOPPED_EARLY, Ended
from weir.runner.in_guest import PROBLEM, RunJob
from weir.topo.sandbox import run_in_sandbox

_NOT_REPEATABLE = (
    "this kernel takes entropy from the host (weir kernel list): another run of the same file will differ"
)


def run_virtually(
    run_dir: Path,
    program: str,
    options: Sequence[str] = (),
    *,
    lock: int,
    on_virtual_s: Callable[[float], None] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Ended:
    """Run the experiment of a prepared directory in a guest; as `weir.runner.outer.run_prepared`.

    `lock` is the descriptor of the directory's lock, which lasts as long as the sandbox. Raises
    KernelInputError if the store has no kernel of the manifest's digest.
    """
    manifest = ManifestFile.load(run_dir)
    virtual_time = manifest.manifest.virtual_time
    assert virtual_time is not None
    stored = KernelStore(kernels_folder()).built(virtual_time.kernel.inputs_sha256)
    if stored is None:
        raise KernelInputError(f"kernel {virtual_time.kernel.name!r} of this run does not exist any more")
    if not virtual_time.kernel.repeatable:
        manifest.add_notes([_NOT_REPEATABLE])
        manifest.write()
    RunDirectory(run_dir).logs.mkdir(exist_ok=True)
    problems: list[str] = []

    def receive(line: str) -> None:
        report = report_of(line)
        if "virtual_s" in report:
            if on_virtual_s is not None:
                on_virtual_s(float(report["virtual_s"]))
        elif PROBLEM in report:
            problems.append(str(report[PROBLEM]))
        elif on_line is not None:
            on_line(line)
        else:
            print(line, flush=True)

    with own_core() as core:
        job = RunJob(
            kernel=str(stored.program),
            memory_mb=virtual_time.memory_mb,
            seed=manifest.manifest.seed or 0,
            epoch_ns=virtual_time.epoch_ns or 0,
            core=core,
            run_dir=str(run_dir.absolute()),
            console=str(RunDirectory(run_dir.absolute()).logs / "kernel.log"),
            program=program,
            options=tuple(options),
        )
        status = run_in_sandbox(
            "weir.runner.in_guest", [json.dumps(asdict(job))], on_line=receive, kept_open=[lock]
        )
    manifest = ManifestFile.load(run_dir)
    problem = problems[0] if problems else None
    if manifest.state == "running":
        # The guest could not record its end, because it was ended from outside.
        if problem is None and status in STOPPED:
            manifest.end_if_possible("interrupted", STOPPED_EARLY)
        else:
            problem = problem or f"the run died with exit code {status}"
            manifest.end_if_possible("failed", problem)
    else:
        manifest.update(finished_ns=time.time_ns())  # the guest recorded its end in its own time
        with contextlib.suppress(OSError):  # a full disk
            manifest.rewrite()
    return Ended(manifest.state, manifest.manifest.error, status, problem)
