# SPDX-License-Identifier: Apache-2.0
"""Checks the contracts of pyproject.toml on imports, on one folder with all parts, as a wheel has it.

import-linter looks for all of a regular package below one folder, but those of a checkout are one per part.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).resolve().parents[1]
_TESTS = shutil.ignore_patterns("*_test.py", "conftest.py", "__pycache__")


def main() -> int:
    """Check the contracts; returns the exit code."""
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    with tempfile.TemporaryDirectory() as folder:
        for part in hatch["build"]["dev-mode-dirs"]:
            shutil.copytree(ROOT / part / "weir", Path(folder, "weir"), ignore=_TESTS, dirs_exist_ok=True)
        sys.path.insert(0, folder)
        found = lint_imports(str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True)
    return 0 if found == EXIT_STATUS_SUCCESS else 1


if __name__ == "__main__":
    sys.exit(main())
