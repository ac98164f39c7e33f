# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios in the sandbox, as the present user or as another one."""

import json
import os
import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir.topo.inherited import command_lines_with, processes_with

_START = (
    "import sys; from pathlib import Path; from weir.rundir.directory import held; "
    "from weir.topo.sandbox import run_in_sandbox\n"
    "with held(Path(sys.argv[-1])) as lock: "
    "sys.exit(run_in_sandbox(sys.argv[2], sys.argv[3:], grace_s=float(sys.argv[1]), kept_open=[lock]))"
)
_MARKER = "WEIR_TOPO_TEST"


@dataclass(frozen=True)
class Runner:
    """Starts scenarios, which hold the lock of `folder` and write their report there.

    `prefix` is a command that changes the user, `python` one that this user can run.
    """

    folder: Path
    python: str
    packages: tuple[Path, ...]
    """Folders that hold the packages `weir` and `weir_tests`."""
    prefix: tuple[str, ...] = ()
    marker: str = field(default_factory=lambda: uuid.uuid4().hex)
    module: str = "weir_tests.topo.scenarios"

    def command(self, scenario: str, grace_s: float = 30.0) -> list[str]:
        """Argument list of the outer process."""
        return [
            *self.prefix,
            self.python,
            "-c",
            _START,
            str(grace_s),
            self.module,
            scenario,
            str(self.folder),
        ]

    def environment(self) -> dict[str, str]:
        """An environment that marks all descendants, so that leftover processes can be found."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, self.packages)), _MARKER: self.marker}

    def run(self, scenario: str) -> "subprocess.CompletedProcess[str]":
        """Run a scenario until it ends."""
        return subprocess.run(
            self.command(scenario),
            env=self.environment(),
            cwd="/",
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def result(self, scenario: str) -> dict[str, Any]:
        """Run a scenario that must succeed, and return its report."""
        done = self.run(scenario)
        assert done.returncode == 0, done.stdout + done.stderr
        return self.report()

    def report(self) -> dict[str, Any]:
        """The report of the last scenario."""
        report: dict[str, Any] = json.loads((self.folder / "result.json").read_text())
        return report

    def processes(self) -> list[str]:
        """Command lines of the running descendants."""
        return list(command_lines_with(_MARKER, self.marker))

    def folders(self) -> list[Path]:
        """Folders in /proc of the running descendants."""
        return list(processes_with(_MARKER, self.marker))
