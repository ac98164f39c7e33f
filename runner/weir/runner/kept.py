# SPDX-License-Identifier: Apache-2.0
"""The files of a run that stay after its analysis, by `capture.keep` of its experiment."""

from __future__ import annotations

import shutil
from pathlib import Path

from weir.controlplane.config import load_experiment
from weir.rundir.directory import RunDirectory


def drop_captures(run_dir: Path) -> None:
    """Delete the captures of an analysed run whose experiment says `capture: {keep: results}`.

    Raises OSError.
    """
    files = RunDirectory(run_dir)
    if files.captures.is_dir() and load_experiment(files.config).capture.keep == "results":
        shutil.rmtree(files.captures)
