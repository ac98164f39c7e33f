# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios in the sandbox for the tests, as the current user or as an ordinary one."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from weir.topo.sandbox import sandbox_problem
from weir.topo.tools import missing_tools

_START = (
    "import sys; from weir.topo.sandbox import run_in_sandbox; "
    "sys.exit(run_in_sandbox('weir.topo.scenarios', sys.argv[2:], grace_s=float(sys.argv[1])))"
)
_PACKAGE = Path(__file__).parent
_NOBODY = 65534
_MARKER = "WEIR_TOPO_TEST"


@dataclass(frozen=True)
class Runner:
    """Starts scenarios; `prefix` is a command that changes the user, `python` one that this user can run."""

    folder: Path
    python: str
    python_path: Path
    prefix: tuple[str, ...] = ()
    marker: str = field(default_factory=lambda: uuid.uuid4().hex)

    def command(self, scenario: str, grace_s: float = 30.0) -> list[str]:
        """Argument list of the outer process."""
        return [*self.prefix, self.python, "-c", _START, str(grace_s), scenario, str(self.folder)]

    def environment(self) -> dict[str, str]:
        """An environment that marks all descendants, so that leftover processes can be found."""
        return {**os.environ, "PYTHONPATH": str(self.python_path), _MARKER: self.marker}

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
        marker = f"{_MARKER}={self.marker}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if marker in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue  # it has just ended, or belongs to another user
        return found


@pytest.fixture(scope="session", autouse=True)
def _sandbox_is_possible() -> None:
    problem = sandbox_problem()
    if problem is not None:
        pytest.skip(problem)
    missing = missing_tools()
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; sudo apt-get install {' '.join(missing.values())}")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """Scenarios as the user who runs the tests."""
    return Runner(tmp_path, sys.executable, _PACKAGE.parent.parent)


@pytest.fixture(params=["current user", "ordinary user"])
def any_runner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runner]:
    """Scenarios as the current user, and again as one without privileges."""
    if request.param == "current user":
        yield Runner(tmp_path, sys.executable, _PACKAGE.parent.parent)
        return
    if os.geteuid() != 0:
        pytest.skip("the current user is an ordinary user already")
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("no Python in /usr/bin that every user may run")
    # Other users may have no access to the checkout and to pytest's folders.
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        shutil.copytree(_PACKAGE, root / "weir" / "topo", ignore=shutil.ignore_patterns("__pycache__"))
        work = root / "work"
        work.mkdir()
        os.chown(work, _NOBODY, _NOBODY)
        become = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--")
        yield Runner(work, python, root, become)
