# SPDX-License-Identifier: Apache-2.0
"""Fixtures that run scenarios with real sshds in the sandbox, as the present user and as an ordinary one."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from weir.controlplane import config
from weir.rundir import whole_files
from weir.testbed import load
from weir.topo import sandbox
from weir.topo.sandbox import sandbox_problem
from weir.topo.tools import missing_tools, search_path
from weir_tests.topo.runner import Runner

# The folders of the parts, which hold their packages.
_TESTBED, _TOPO, _RUNDIR = (Path(module.__file__).parents[2] for module in (load, sandbox, whole_files))
_CONTROLPLANE = Path(config.__file__).parents[3]
_PACKAGES = (_TESTBED, _TOPO, _RUNDIR, _CONTROLPLANE)
_LIBRARIES = ("asyncssh", "pydantic", "ruamel.yaml")
_MODULE = "weir_tests.testbed.scenarios"
_NOBODY = 65534


@pytest.fixture(scope="session", autouse=True)
def _sshd_is_possible() -> None:
    problem = sandbox_problem()
    if problem is not None:
        pytest.skip(f"kernel: {problem}")
    missing = missing_tools()
    for name, package in {"sshd": "openssh-server", "sudo": "sudo"}.items():
        if shutil.which(name, path=search_path()) is None:
            missing[name] = package
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; sudo apt-get install {' '.join(missing.values())}")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """Scenarios as the user who runs the tests."""
    return Runner(tmp_path, sys.executable, _PACKAGES, module=_MODULE)


@pytest.fixture
def root_runner(runner: Runner) -> Runner:
    """Scenarios with several users, which only root can make."""
    if os.geteuid() != 0 or not sandbox._may_set_groups():
        pytest.skip("user: only root can log in as another user")
    return runner


@pytest.fixture(scope="session")
def _for_everyone() -> Iterator[tuple[Path, str]]:
    """A copy of the packages and of their libraries that every user can read, and a Python for it."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("python3: none in /usr/bin, which every user may run; sudo apt-get install python3")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if theirs != version:
        pytest.skip(f"user: {python}, which every user may run, is {theirs}; the libraries are of {version}")
    with tempfile.TemporaryDirectory() as copy:
        root = Path(copy)
        root.chmod(0o755)
        for folder in _PACKAGES:
            shutil.copytree(folder, root, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        for name in _with_requirements(_LIBRARIES):
            for file in distribution(name).files or ():
                if file.suffix != ".pyc" and ".." not in file.parts:
                    target = root / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(str(file.locate()), target)
        yield root, python


def _with_requirements(names: tuple[str, ...]) -> set[str]:
    """Distributions, and those that they need."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for text in distribution(name).requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(needed.name)
    return found


@pytest.fixture(params=["current user", "ordinary user"])
def any_runner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runner]:
    """Scenarios as the current user, and again as one without privileges."""
    if request.param == "current user":
        yield Runner(tmp_path, sys.executable, _PACKAGES, module=_MODULE)
        return
    if os.geteuid() != 0:
        pytest.skip("user: the current user is an ordinary user already")
    root, python = request.getfixturevalue("_for_everyone")
    with tempfile.TemporaryDirectory() as work:
        os.chown(work, _NOBODY, _NOBODY)
        become = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--")
        yield Runner(Path(work), python, (root,), become, module=_MODULE)
