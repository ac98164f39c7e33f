# SPDX-License-Identifier: Apache-2.0
"""pip install from a folder of downloaded packages, which is filled first if one is missing.

Usage: PYTHON tools/pip_install.py ARGUMENT...  (those of `pip install`; into the environment of PYTHON)

pip's own cache does not work without a network, because pip asks the index for the versions of each package.
Needs only Python's standard library.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def wanted(arguments: Sequence[str], project: Path = ROOT / "pyproject.toml") -> Iterator[str]:
    """The arguments of `pip download` for those of `pip install`.

    Replaces weir itself, `.` or `.[EXTRA]`, by the requirements in its `project`: to learn them, pip would
    build weir's wheel, and with it the Rust programs.
    """
    for argument in arguments:
        if weir := re.fullmatch(r"\.(?:\[(.+)\])?", argument):
            metadata = tomllib.loads(project.read_text())["project"]
            yield from metadata["dependencies"]
            for extra in filter(None, (weir[1] or "").split(",")):
                yield from metadata["optional-dependencies"][extra]
        elif argument not in ("-e", "--no-build-isolation"):
            yield argument


def pip(*arguments: str, stderr: int | None = None) -> int:
    """Run pip in this Python's environment; returns its exit code."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    return subprocess.run(command, env=environment, stderr=stderr, check=False).returncode


def main(arguments: list[str]) -> int:
    """Install; returns the exit code."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    packages = Path(cache) / "weir" / "packages"
    # Python compiles a module when it is first imported; pip would compile thousands that weir never imports.
    install = ["install", "--no-compile", "--no-index", "--find-links", str(packages), *arguments]
    if packages.is_dir() and pip(*install, stderr=subprocess.DEVNULL) == 0:
        return 0
    packages.mkdir(parents=True, exist_ok=True)
    return pip("download", "--dest", str(packages), *wanted(arguments)) or pip(*install)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
