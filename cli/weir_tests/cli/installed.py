# SPDX-License-Identifier: Apache-2.0
"""Installs the wheel into an empty environment of an ordinary user, and runs what it installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_NOBODY = 65534
_BECOME = ("/usr/bin/setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--")
_SMALL = "mdurl"
"""A package of 10 kB that weir needs: if the registry has it, every failure to install is the wheel's."""


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel; PATH holds its programs alone, so neither cargo nor a C compiler."""

    folder: Path
    become: tuple[str, ...]
    """The command that changes from root to an ordinary user; empty for an ordinary user."""

    @property
    def programs(self) -> Path:
        """The environment's folder of programs."""
        return self.folder / "venv" / "bin"

    def run(self, program: str, *arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run an installed program as the user, in their folder."""
        return subprocess.run(
            [*self.become, str(self.programs / program), *arguments],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        """The environment variables of `run`."""
        return {"PATH": str(self.programs), "HOME": str(self.folder), "LANG": "C.UTF-8"}


def install(wheel: Path, folder: Path) -> Installed:
    """Install `wheel` into `folder`/venv as an ordinary user; only binary packages, as there is no compiler.

    The packages are fetched by the current user, from the cache of their pip where it has them.
    """
    installed = Installed(folder, _BECOME if os.geteuid() == 0 else ())
    if installed.become:
        os.chown(folder, _NOBODY, _NOBODY)
    _make_environment(installed)
    for compiler in ("cargo", "rustc", "cc", "gcc", "ld"):
        assert shutil.which(compiler, path=installed.environment()["PATH"]) is None
    packages = folder / "packages"
    packages.mkdir()
    _fetch(installed, wheel, packages)
    offline = ("--no-index", "--find-links", str(packages), "--only-binary", ":all:")
    done = installed.run("pip", "install", "--quiet", *offline, str(packages / wheel.name))
    assert done.returncode == 0, done.stdout + done.stderr
    return installed


def _make_environment(installed: Installed) -> None:
    """Make the environment with the first Python that the user can run; root's may be closed to others."""
    said = []
    for python in (str(Path(sys.base_prefix) / "bin" / "python3"), "/usr/bin/python3"):
        command = [*installed.become, python, "-m", "venv", "--clear", str(installed.folder / "venv")]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(installed.folder)}
        made = subprocess.run(
            command, cwd=installed.folder, env=environment, capture_output=True, text=True, check=False
        )
        if made.returncode == 0:
            return
        said.append(f"{python}: {(made.stdout + made.stderr).strip()}")
    pytest.skip(f"python: none whose venv an ordinary user can make: {'; '.join(said)}")


def _fetch(installed: Installed, wheel: Path, to: Path) -> None:
    """Copy the wheel and all it needs: from what `make setup` downloaded, else from the registry."""
    options = ["--quiet", "--only-binary", ":all:", "--constraint", str(ROOT / "constraints.txt")]
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    downloaded = ["--no-index", "--find-links", str(Path(cache, "weir", "packages"))]
    fetch = ["download", *options, "--dest", str(to)]
    if _pip(installed, [*fetch, *downloaded, str(wheel)]).returncode == 0:
        return
    reached = _pip(installed, [*fetch, "--no-deps", _SMALL])
    if reached.returncode != 0:
        pytest.skip(f"registry: cannot be reached: {reached.stderr.strip().splitlines()[-1]}")
    fetched = _pip(installed, [*fetch, str(wheel)])
    assert fetched.returncode == 0, fetched.stderr


def _pip(installed: Installed, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The environment's pip, run by the current user with their settings and their cache."""
    environment = {**os.environ, "PATH": str(installed.programs)}
    command = [str(installed.programs / "python"), "-m", "pip", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
