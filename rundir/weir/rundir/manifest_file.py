# SPDX-License-Identifier: Apache-2.0
"""Writes `manifest.json` before a run begins and updates it during the run.

`complete` is false until the last file is written, so that it is also false for a run that was killed.
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
from weir.rundir.manifest import (
    SCHEMA_VERSION,
    CampaignRun,
    Manifest,
    State,
    Switch,
    TestbedRecord,
    VirtualTime,
    read_manifest,
)
from weir.rundir.software import project_commit, weir_version
from weir.rundir.whole_files import write_whole

SPARE_NAME = "manifest.json.spare"
"""Disk space reserved for the final manifest of a run that fills the disk."""
_FINAL_GROWTH_BYTES = 16_384


class ManifestFile:
    """The manifest of one run directory: its current state in memory, and an atomic `write`."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        """Hold `manifest`, to be written to `path`."""
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
        virtual_time: VirtualTime | None = None,
        testbed: TestbedRecord | None = None,
    ) -> ManifestFile:
        """Write the manifest of a run that begins now; `campaign` identifies it within its campaign."""
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
        if virtual_time is not None:
            manifest = manifest.model_copy(update={"virtual_time": virtual_time})
        if testbed is not None:
            manifest = manifest.model_copy(update={"testbed": testbed})
        created = cls(RunDirectory(run_dir).manifest, manifest)
        created.write()
        return created

    @classmethod
    def load(cls, run_dir: Path) -> ManifestFile:
        """Read the manifest of a run directory. Raises RunFileError."""
        return cls(RunDirectory(run_dir).manifest, read_manifest(run_dir))

    @property
    def state(self) -> str:
        """State of the run."""
        return self.manifest.state

    def update(self, **fields: Any) -> None:
        """Set fields of the manifest, without validation: the values must have the fields' types."""
        self.manifest = self.manifest.model_copy(update=fields)

    def add_notes(self, notes: Iterable[str]) -> None:
        """Add notes for the reader of the run."""
        self.update(notes=(*self.manifest.notes, *notes))

    def invalidate(self, reasons: Iterable[str]) -> None:
        """Add reasons why the run's numbers must not be used."""
        all_reasons = (*self.manifest.invalid_reasons, *reasons)
        self.update(invalid_reasons=all_reasons, valid=not all_reasons)

    def end(self, state: State, error: str | None = None) -> None:
        """Record how the run ended, and write the file."""
        self.update(state=state, complete=state == "complete", error=error, finished_ns=time.time_ns())
        self.path.with_name(SPARE_NAME).unlink(missing_ok=True)
        self._write()

    def end_if_possible(self, state: State, error: str) -> None:
        """Record how the run ended, but ignore OSError: a full disk may be the reason why it ended.

        The last `write` reserved space for this. If the space is too small, changes since that `write` are
        left out. If even that fails, the file on disk still has `complete` false.
        """
        with contextlib.suppress(OSError):
            try:
                self.end(state, error)
            except OSError:
                self.manifest = read_manifest(self.path.parent)
                self.end(state, error)

    def write(self) -> None:
        """Write the file atomically, and reserve space for the final one. Raises OSError with a file name."""
        size = self._write()
        spare = self.path.with_name(SPARE_NAME)
        # Not in append mode: where a file system has no fallocate (hostfs), the C library writes the blocks.
        handle = os.open(spare, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(handle, 0, size + _FINAL_GROWTH_BYTES)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(spare)) from error
        finally:
            os.close(handle)

    def rewrite(self) -> None:
        """Write the file of a run that has ended: atomically, without space for more. Raises OSError."""
        self._write()

    def _write(self) -> int:
        data = self.manifest.model_dump(mode="json", by_alias=True, exclude_unset=True)
        text = (json.dumps(data, indent=2) + "\n").encode()
        write_whole(self.path, text)
        return len(text)
