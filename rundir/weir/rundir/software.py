# SPDX-License-Identifier: Apache-2.0
"""The version of weir, the git commit that it runs from, and the command that installs its programs again."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path

DISTRIBUTION = "weir-policer"
"""weir's name in package indexes."""

_ROOT = Path(__file__).parents[3]
"""The checkout; where a wheel is installed, a folder of Python's."""


def weir_version() -> str:
    """The version of the installed distribution."""
    return importlib.metadata.version(DISTRIBUTION)


def repair_command(in_checkout: str = "make setup") -> str:
    """The command that restores a missing part of weir: `in_checkout`, or a new installation of the wheel."""
    if (_ROOT / "Cargo.toml").is_file():
        return in_checkout
    return f"pip install --force-reinstall --no-deps {DISTRIBUTION} (or the wheel's file)"


def project_commit() -> str | None:
    """The commit of the checkout that this program runs from; None outside of a checkout."""
    if not (_ROOT / ".git").exists():
        return None  # git would find a repository of the user's around an installed wheel
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
