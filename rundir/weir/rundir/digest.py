# SPDX-License-Identifier: Apache-2.0
"""The digest of a run: one string for its captures, telemetry and results, to compare runs with.

Repeats of a run in virtual time have the same one, whatever the machine's load (docs/virtual-time.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.rundir.directory import RunDirectory
from weir.rundir.manifest_file import ManifestFile
from weir.rundir.result_data import result_data

_PROVENANCE = ("weir_version", "commit")
"""Keys of `result.json` that say which weir made it; another one may come to the same result."""


@dataclass(frozen=True)
class RunDigest:
    """The SHA-256 of each file of a run, by its path in the run directory, in order of the paths."""

    files: Mapping[str, str]

    @property
    def total(self) -> str:
        """SHA-256 over lines as sha256sum(1) prints them: digest, two spaces, path."""
        lines = "".join(f"{digest}  {path}\n" for path, digest in self.files.items())
        return hashlib.sha256(lines.encode()).hexdigest()

    def differing(self, other: RunDigest) -> list[str]:
        """The paths whose files differ, or that only one of both has."""
        paths = sorted(self.files.keys() | other.files.keys())
        return [path for path in paths if self.files.get(path) != other.files.get(path)]


def digest_of(run_dir: Path) -> RunDigest:
    """The digest of a run directory, from the files that it has.

    Raises RunFileError for a run that has not been analysed, OSError.
    """
    files = RunDirectory(run_dir)
    result = result_data(run_dir)
    found = {str(path.relative_to(run_dir)): path for path in _measured(files) if path.is_file()}
    return RunDigest(
        {
            name: _result_digest(result) if found[name] == files.result else _digest(found[name])
            for name in sorted(found)
        }
    )


def record_digest(run_dir: Path) -> str | None:
    """Write the digest of an analysed run in virtual time to its manifest, and return it.

    Returns None for a run in real time, which never repeats. Raises RunFileError, OSError.
    """
    manifest = ManifestFile.load(run_dir)
    if manifest.manifest.virtual_time is None:
        return None
    total = digest_of(run_dir).total
    manifest.update(digest=total)
    manifest.rewrite()
    return total


def _measured(files: RunDirectory) -> Iterator[Path]:
    yield from files.captures.glob("*")
    yield from (files.telemetry, files.accounting, files.sockets, files.tuning)
    yield from (files.result, files.flows, files.series, files.features)


def _result_digest(result: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in result.items() if key not in _PROVENANCE}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
