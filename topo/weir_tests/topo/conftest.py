# SPDX-License-Identifier: Apache-2.0
"""Fixtures that run scenarios as the present user, or once more as an ordinary one."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.rundir import whole_files
from weir.topo.sandbox import sandbox_problem
from weir.topo.tools import missing_tools
from weir_tests.topo.runner import Runner

# Three folders up: the folder of the part, which holds its packages.
_PACKAGES = tuple(Path(file).parents[2] for file in (__file__, whole_files.__file__))
_NOBODY = 65534


@pytest.fixture(scope="session", autouse=True)
def _sandbox_is_possible() -> None:
    problem = sandbox_problem()
    if problem is not None:
        pytest.skip(f"kernel: {problem}")
    missing = missing_tools()
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; sudo apt-get install {' '.join(missing.values())}")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """Scenarios as the user who runs the tests."""
    return Runner(tmp_path, sys.executable, _PACKAGES)


@pytest.fixture(params=["current user", "ordinary user"])
def any_runner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runner]:
    """Scenarios as the current user, and again as one without privileges."""
    if request.param == "current user":
        yield Runner(tmp_path, sys.executable, _PACKAGES)
        return
    if os.geteuid() != 0:
        pytest.skip("user: the current user is an ordinary user already")
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("python3: none in /usr/bin, which every user may run; sudo apt-get install python3")
    # Other users may have no access to the checkout and to pytest's folders.
    with tempfile.TemporaryDirectory() as copy:
        root = Path(copy)
        root.chmod(0o755)
        for folder in _PACKAGES:
            shutil.copytree(folder, root, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        work = root / "work"
        work.mkdir()
        os.chown(work, _NOBODY, _NOBODY)
        become = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--")
        yield Runner(work, python, (root,), become)
