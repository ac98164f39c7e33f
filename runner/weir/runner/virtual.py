# SPDX-License-Identifier: Apache-2.0
"""The outer half of a run in virtual time: the same inner half as in real time, in a guest.

weir run
  └─ sandbox           (`run_in_sandbox`: whatever happens, nothing outlives it)
       └─ this module  (starts the kernel; its console goes to logs/kernel.log)
            └─ guest   (`weir.kernel.guest_init`, then the program of a run in real time, as root)
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weir.kernel.errors import KernelError, KernelInputError
from weir.kernel.guest import GuestJob, Outputs, Stopped, report_of, run_guest
from weir.kernel.guest_init import CONTROL
from weir.kernel.store import KernelStore, kernels_folder
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest_file import ManifestFile
from weir.runner.ended import Ended
from weir.topo.capture import GUEST_VARIABLE
from weir.topo.sandbox import inside, run_in_sandbox
from weir.topo.sandbox_init import CONTROL_VARIABLE
from weir.topo.stop import Interrupted, StopToken
from weir.topo.tools import search_path

# The program's process ends without Python's clean-up, which frees every object, a page fault each few.
_START = """
import json, os, runpy, sys
sys.path[:] = json.loads(sys.argv.pop(1))
sys.argv.pop(0)
code = 0
try:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
except SystemExit as end:
    code = 1 if isinstance(end.code, str) else int(end.code or 0)
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
"""
_PROBLEM = "problem"
_NOT_REPEATABLE = (
    "this kernel takes entropy from the host (weir kernel list): another run of the same file will differ"
)
_ENDED = 1
# Variables that a program in the guest gets from the user's environment.
_PASSED_ON = ("LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "WEIR_DEBUG", "COLUMNS", "HOME", "USER")


def run_virtually(
    run_dir: Path,
    program: str,
    options: Sequence[str] = (),
    *,
    on_virtual_s: Callable[[float], None] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Ended:
    """Run the experiment of a prepared directory in a guest; as `weir.runner.outer.run_prepared`.

    Raises KernelInputError if the store has no kernel of the manifest's digest.
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
    problems: list[str] = []

    def receive(line: str) -> None:
        report = report_of(line)
        if "virtual_s" in report:
            if on_virtual_s is not None:
                on_virtual_s(float(report["virtual_s"]))
        elif _PROBLEM in report:
            problems.append(str(report[_PROBLEM]))
        elif on_line is not None:
            on_line(line)
        else:
            print(line, flush=True)

    job = {
        "kernel": str(stored.program),
        "memory_mb": virtual_time.memory_mb,
        "run_dir": str(run_dir.absolute()),
        "program": program,
        "options": list(options),
    }
    status = run_in_sandbox("weir.runner.virtual", [json.dumps(job)], on_line=receive)
    manifest = ManifestFile.load(run_dir)
    problem = problems[0] if problems else None
    if manifest.state == "running":
        # The guest could not record its end, because it was ended from outside.
        if problem is None and status in (130, 143):
            manifest.end_if_possible("interrupted", "the run was stopped early")
        else:
            problem = problem or f"the run died with exit code {status}"
            manifest.end_if_possible("failed", problem)
    else:
        manifest.update(finished_ns=time.time_ns())  # the guest recorded its end in its own time
        with contextlib.suppress(OSError):  # a full disk
            manifest.rewrite()
    return Ended(manifest.state, manifest.manifest.error, status, problem)


def main(stop: StopToken) -> int:
    """In the sandbox: boot the guest, pass on its output, return its program's exit code."""
    job: dict[str, Any] = json.loads(sys.argv[1])
    files = RunDirectory(Path(job["run_dir"]))
    files.logs.mkdir(exist_ok=True)
    manifest = ManifestFile.load(files.path).manifest
    assert manifest.virtual_time is not None
    argv = [
        sys.executable,
        "-c",
        _START,
        json.dumps(sys.path),
        job["program"],
        job["run_dir"],
        *job["options"],
    ]
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {
        "PATH": search_path(),
        "TERM": "dumb",
        "TMPDIR": "/run/tmp",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        CONTROL_VARIABLE: str(CONTROL),
        GUEST_VARIABLE: "1",
    }
    outputs = Outputs(
        on_line=lambda line: print(line, flush=True),
        on_error=lambda line: print(line, file=sys.stderr, flush=True),
        console=files.logs / "kernel.log",
    )
    with tempfile.TemporaryDirectory(prefix="weir-guest-") as state:
        try:
            return run_guest(
                Path(job["kernel"]),
                GuestJob(argv, environment, job["run_dir"], manifest.virtual_time.epoch_ns or 0),
                outputs,
                memory_mb=job["memory_mb"],
                state=Path(state),
                seed=manifest.seed or 0,
                stop=stop.fileno(),
            )
        except Stopped:
            raise Interrupted(stop.reason or "terminated") from None
        except KernelError as error:
            print(json.dumps({_PROBLEM: str(error)}), flush=True)
            return _ENDED


if __name__ == "__main__":
    inside(main)
