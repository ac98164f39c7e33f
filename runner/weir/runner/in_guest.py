# SPDX-License-Identifier: Apache-2.0
"""In the sandbox of a run in virtual time: boots the guest, which runs the same program as in real time.

Its argument is a `RunJob`. The process only waits for the guest, so it imports little.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from weir.kernel.errors import KernelError
from weir.kernel.guest import GuestJob, Outputs, Stopped, run_guest
from weir.kernel.guest_init import CONTROL
from weir.topo.sandbox import inside
from weir.topo.sandbox_init import CONTROL_VARIABLE, GUEST_VARIABLE
from weir.topo.stop import Interrupted, StopToken
from weir.topo.tools import search_path

PROBLEM = "problem"
"""Key of the line of JSON with which this process says why the guest ended."""
_ENDED = 1
# The program's process ends without Python's clean-up, which frees every object, a page fault each few.
_START = """
import json, os, runpy, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from weir.rundir.without_pandas import hide_pandas
hide_pandas()
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
# Variables that a program in the guest gets from the user's environment.
_PASSED_ON = ("LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "WEIR_DEBUG", "COLUMNS", "HOME", "USER")


@dataclass(frozen=True)
class RunJob:
    """A run for a guest; all paths are absolute."""

    kernel: str
    memory_mb: int
    seed: int
    epoch_ns: int
    """The guest's wall clock when it boots."""
    core: int | None
    """The only core of the guest; None: any."""
    run_dir: str
    console: str
    program: str
    """The module of the run."""
    options: tuple[str, ...]
    """Its arguments after the run's directory."""


def main(stop: StopToken) -> int:
    """Boot the guest, pass on its output, return its program's exit code."""
    job = RunJob(**json.loads(sys.argv[1]))
    if job.core is not None:
        os.sched_setaffinity(0, {job.core})
    argv = [sys.executable, "-c", _START, json.dumps(sys.path), job.program, job.run_dir, *job.options]
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
        console=Path(job.console),
    )
    with tempfile.TemporaryDirectory(prefix="weir-guest-") as state:
        try:
            return run_guest(
                Path(job.kernel),
                GuestJob(argv, environment, job.run_dir, job.epoch_ns),
                outputs,
                memory_mb=job.memory_mb,
                state=Path(state),
                seed=job.seed,
                stop=stop.fileno(),
            )
        except Stopped:
            raise Interrupted(stop.reason or "terminated") from None
        except KernelError as error:
            print(json.dumps({PROBLEM: str(error)}), flush=True)
            return _ENDED


if __name__ == "__main__":
    inside(main)
