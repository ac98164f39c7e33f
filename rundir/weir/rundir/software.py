# SPDX-License-Identifier: Apache-2.0
"""The version of weir and the git commit that it runs from, for the manifest."""

from __future__ import annotations

import importlib.metadata
import subprocess
from pathlib import Path


def weir_version() -> str:
    """The version of the installed distribution."""
    return importlib.metadata.version("weir")


def project_commit() -> str | None:
    """The commit of the checkout that this program runs from; None outside of a checkout."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
