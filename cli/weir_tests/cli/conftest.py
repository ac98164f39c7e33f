# SPDX-License-Identifier: Apache-2.0
"""The wheel and the source distribution, built once for all tests, as `make wheel` does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Distribution:
    """The files for a package index."""

    wheel: Path
    source: Path


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    """Both files; `make setup` has compiled what is in them."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, str(ROOT / "tools" / "build_wheel.py"), str(folder)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Distribution(wheel, source)
