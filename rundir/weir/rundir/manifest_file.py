# SPDX-License-Identifier: Apache-2.0
"""Writes `manifest.json` before a run begins and again whenever more is known.

A run that did not finish says so, however it ended: `complete` is false until the last file is whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from weir.rundir.directory import RunDirectory
from weir.rundir.manifest import SCHEMA_VERSION, CampaignRun, Manifest, State, Switch, read_manifest
from weir.rundir.software import project_commit, weir_version
from weir.rundir.whole_files import write_whole

SPARE_NAME = "manifest.json.spare"
"""Space reserved on the disk for the end of a run that fills it."""
_LAST_WORDS_BYTES = 16_384


class ManifestFile:
    """The manifest of one run directory: the newest state, and an atomic `write`."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        """Keep `manifest`, which is, or is to be, in the file."""
        self.path = path
        self.manifest = manifest

    @classmethod
    def create(
        cls,
        run_dir: Path,
        run_id: str,
        *,
        name: str,
        target: str,
        seed: int,
        detectors: Iterable[str],
        campaign: CampaignRun | None = None,
    ) -> ManifestFile:
        """Write the manifest of a run that begins now; `campaign` says which one of a campaign it is."""
        manifest = Manifest(
            schema=SCHEMA_VERSION,
            name=name,
            run_id=run_id,
            weir_version=weir_version(),
            commit=project_commit(),
            started_ns=time.time_ns(),
            finished_ns=None,
            complete=False,
            state="running",
            error=None,
            target=target,
            seed=seed,
            campaign=campaign,
            detectors=tuple(detectors),
            phases=(),
            hosts=(),
            switch=Switch(stats=None, reports_sent=None),
            valid=True,
            invalid_reasons=(),
            notes=(),
        )
        created = cls(RunDirectory(run_dir).manifest, manifest)
        created.write()
        return created

    @classmethod
    def load(cls, run_dir: Path) -> ManifestFile:
        """Read the manifest of a run directory. Raises RunFileError."""
        return cls(RunDirectory(run_dir).manifest, read_manifest(run_dir))

    @property
    def state(self) -> str:
        """How far the run got."""
        return self.manifest.state

    def update(self, **fields: Any) -> None:
        """Set fields of the manifest; the values are of the fields' types."""
        self.manifest = self.manifest.model_copy(update=fields)

    def add_notes(self, notes: Iterable[str]) -> None:
        """Add notes for the reader of the run."""
        self.update(notes=(*self.manifest.notes, *notes))

    def invalidate(self, reasons: Iterable[str]) -> None:
        """Add reasons why the run's numbers must not be used."""
        all_reasons = (*self.manifest.invalid_reasons, *reasons)
        self.update(invalid_reasons=all_reasons, valid=not all_reasons)

    def end(self, state: State, error: str | None = None) -> None:
        """Record how the run ended, and write."""
        self.update(state=state, complete=state == "complete", error=error, finished_ns=time.time_ns())
        self.path.with_name(SPARE_NAME).unlink(missing_ok=True)
        self._write()

    def end_if_possible(self, state: State, error: str) -> None:
        """Record how the run ended, and ignore a disk that does not take it: it may be why the run ended.

        Space for this has been reserved since the last `write`; what came after it is left out where the
        space is too small. A manifest that cannot be written even so still says that the run is not complete.
        """
        with contextlib.suppress(OSError):
            try:
                self.end(state, error)
            except OSError:
                self.manifest = read_manifest(self.path.parent)
                self.end(state, error)

    def write(self) -> None:
        """Replace the file as a whole, and reserve space for its end. Raises OSError with the file's name."""
        size = self._write()
        spare = self.path.with_name(SPARE_NAME)
        with spare.open("ab") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, size + _LAST_WORDS_BYTES)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(spare)) from error

    def _write(self) -> int:
        data = self.manifest.model_dump(mode="json", by_alias=True, exclude_unset=True)
        text = (json.dumps(data, indent=2) + "\n").encode()
        write_whole(self.path, text)
        return len(text)
