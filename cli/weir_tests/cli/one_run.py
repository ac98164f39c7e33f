# SPDX-License-Identifier: Apache-2.0
"""`weir run` of an experiment given as text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def weir_run(folder: Path, experiment: str) -> subprocess.CompletedProcess[str]:
    """Run it with `--json`; the runs are in `folder/runs`."""
    config = folder / "experiment.yaml"
    config.write_text(experiment)
    weir = str(Path(sys.executable).with_name("weir"))
    command = [weir, "run", str(config), "--runs", str(folder / "runs"), "--json"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
