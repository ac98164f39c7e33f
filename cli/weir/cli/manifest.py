# SPDX-License-Identifier: Apache-2.0
"""`manifest.json`: what a run is, written before it begins and again whenever more is known.

A run that did not finish says so, however it ended: `complete` is false until the last file is whole.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from weir.cli.files import write_whole
from weir.controlplane.config import ExperimentConfig

State = Literal["running", "complete", "interrupted", "failed"]

FILE_NAME = "manifest.json"
SPARE_NAME = "manifest.json.spare"
"""Room on the disk for the last words of a run that fills it."""
_LAST_WORDS_BYTES = 16_384
SCHEMA_VERSION = 1


class ManifestFile:
    """The manifest of one run directory as a mutable mapping with an atomic `write`."""

    def __init__(self, path: Path, data: dict[str, Any]) -> None:
        """Wrap what is, or is to be, in the file."""
        self.path = path
        self.data = data

    @classmethod
    def create(
        cls,
        run_dir: Path,
        run_id: str,
        experiment: ExperimentConfig,
        campaign: Mapping[str, Any] | None = None,
    ) -> ManifestFile:
        """Write the manifest of a run that begins now; `campaign` says which one of a campaign it is."""
        manifest = cls(
            run_dir / FILE_NAME,
            {
                "schema": SCHEMA_VERSION,
                "name": experiment.name,
                "run_id": run_id,
                "weir_version": importlib.metadata.version("weir"),
                "commit": project_commit(),
                "started_ns": time.time_ns(),
                "finished_ns": None,
                "complete": False,
                "state": "running",
                "error": None,
                "target": experiment.switch.target,
                "seed": experiment.seed,
                "campaign": None if campaign is None else dict(campaign),
                "detectors": list(experiment.analysis.detectors),
                "phases": [],
                "hosts": [],
                "switch": {"stats": None, "reports_sent": None},
                "valid": True,
                "invalid_reasons": [],
                "notes": [],
            },
        )
        manifest.write()
        return manifest

    @classmethod
    def load(cls, run_dir: Path) -> ManifestFile:
        """Read the manifest of a run directory that this program made."""
        path = run_dir / FILE_NAME
        return cls(path, json.loads(path.read_text()))

    @property
    def state(self) -> State:
        """How far the run got."""
        state: State = self.data["state"]
        return state

    def end(self, state: State, error: str | None = None) -> None:
        """Record how the run ended, and write."""
        self.data["state"] = state
        self.data["complete"] = state == "complete"
        self.data["error"] = error
        self.data["finished_ns"] = time.time_ns()
        self.path.with_name(SPARE_NAME).unlink(missing_ok=True)
        self._write()

    def end_if_possible(self, state: State, error: str) -> None:
        """Record how the run ended where that is no reason to fail: the disk may be what made it end.

        Room for this has been kept since the last `write`; what came after it is left out where that is too
        little. A manifest that cannot be written even so still says that the run is not complete.
        """
        with contextlib.suppress(OSError):
            try:
                self.end(state, error)
            except OSError:
                self.data = ManifestFile.load(self.path.parent).data
                self.end(state, error)

    def invalidate(self, reasons: list[str]) -> None:
        """Add reasons why the run's numbers must not be used."""
        self.data["invalid_reasons"] += reasons
        self.data["valid"] = not self.data["invalid_reasons"]

    def write(self) -> None:
        """Replace the file as a whole, and keep room for its end. Raises OSError, which names the file."""
        size = self._write()
        spare = self.path.with_name(SPARE_NAME)
        with spare.open("ab") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size + _LAST_WORDS_BYTES)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(spare)) from error

    def _write(self) -> int:
        text = (json.dumps(self.data, indent=2) + "\n").encode()
        write_whole(self.path, text)
        return len(text)


def project_commit() -> str | None:
    """The commit of the checkout that this program runs from; None when it was installed otherwise."""
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
