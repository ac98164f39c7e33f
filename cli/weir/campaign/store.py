# SPDX-License-Identifier: Apache-2.0
"""The folder of a campaign. Which runs are done is what is in it; nothing else is remembered.

runs/<campaign>/<run>/            whole: renamed to this when it was finished and analysed
runs/<campaign>/.partial/<run>/   at work, or cut off; never counted, removed by the next start
runs/<campaign>/failed/<run>.N/   the N-th failure of a run, with its logs
runs/<campaign>/invalid/<run>.N/  whole, but invalid, and made again since
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from weir.campaign.identity import Software, identity_of, software
from weir.campaign.load import Campaign, PlannedRun
from weir.cli.errors import InputError
from weir.cli.files import sync_tree, write_whole
from weir.cli.manifest import FILE_NAME

PARTIAL, FAILED, INVALID, LOCK = ".partial", "failed", "invalid", ".lock"
CAMPAIGN_FILE = "campaign.yaml"
RAW = ("pcap", "telemetry.parquet", "sockets.parquet")
"""What `keep: results` deletes once it is analysed."""
# A sandbox whose outer process was killed ends within its grace of 20 s.
_ORPHAN_PATIENCE_S = 60.0
_ORPHAN_POLL_S = 0.1


class Store:
    """The folder of one campaign; a context manager that keeps others out of it."""

    def __init__(
        self, campaign: Campaign, runs: Path, current_software: Callable[[], Software] = software
    ) -> None:
        """Use `runs`/<name of the campaign>; nothing is made yet."""
        self.campaign = campaign
        self.made_by = current_software()
        self._current_software = current_software
        self.folder = runs / campaign.name
        self._lock: int | None = None

    def __enter__(self) -> Self:
        """Lock the folder and clear what a former start left half.

        Raises InputError when another campaign is at work in it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._unlock()
            raise InputError(
                f"{self.folder}: another `weir campaign` is at work in it; valid: wait for it, or --runs DIR"
            ) from error
        try:
            self._clear_partial()
        except BaseException:
            self._unlock()
            raise
        write_whole(self.folder / CAMPAIGN_FILE, self.campaign.text.encode())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let others in."""
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _clear_partial(self) -> None:
        """Remove half runs, each once nobody works in it any more."""
        give_up = time.monotonic() + _ORPHAN_PATIENCE_S
        for directory in sorted((self.folder / PARTIAL).glob("*")):
            while _is_held(directory):
                if time.monotonic() >= give_up:
                    raise InputError(
                        f"{directory}: a run that was cut off still works in it after "
                        f"{_ORPHAN_PATIENCE_S:g} s; valid: end its weir-switch first"
                    )
                time.sleep(_ORPHAN_POLL_S)
            shutil.rmtree(directory)

    def path_of(self, run: PlannedRun) -> Path:
        """Where the run is when it is whole."""
        return self.folder / run.key

    def done(self) -> dict[str, Path]:
        """The campaign's whole runs by key.

        Raises InputError when one of them was made by another experiment or other software.
        """
        found: dict[str, Path] = {}
        foreign: list[tuple[Path, str]] = []
        for run in self.campaign.runs:
            path = self.path_of(run)
            if not path.is_dir():
                continue
            difference = _difference(read_manifest(path).get("campaign"), identity_of(run, self.made_by))
            if difference:
                foreign.append((path, difference))
            found[run.key] = path
        if foreign:
            path, difference = foreign[0]
            others = f", and {len(foreign) - 1} more runs here likewise" if foreign[1:] else ""
            raise InputError(
                f"{path}: {difference}{others}; results are not mixed; "
                f"valid: --runs with another directory, or move {self.folder} away"
            )
        return found

    def begin(self, run: PlannedRun) -> Path:
        """A fresh directory for a run; raises InputError when the software is no longer the same."""
        now = self._current_software()
        if now != self.made_by:
            raise InputError(
                f"{self.folder}: the software changed meanwhile; runs so far were made by {self.made_by}, "
                f"this is {now}; valid: the former, or --runs with another directory"
            )
        path = self.folder / PARTIAL / run.key
        path.mkdir(parents=True)
        return path

    def finish(self, run: PlannedRun, partial: Path) -> Path:
        """Make a run whole: from here on it counts, also after a power cut."""
        if self.campaign.keep == "results":
            remove_raw(partial)
        sync_tree(partial)
        final = self.path_of(run)
        partial.rename(final)
        sync_directory(final.parent)
        return final

    def fail(self, run: PlannedRun, partial: Path) -> Path:
        """Put the directory of a failed run aside; returns where its logs are."""
        remove_raw(partial)
        folder = self.folder / FAILED
        folder.mkdir(exist_ok=True)
        final = _next_of(folder, run.key)
        partial.rename(final)
        return final

    def discard(self, partial: Path) -> None:
        """Remove a run that was stopped."""
        shutil.rmtree(partial)

    def failures(self) -> Mapping[str, int]:
        """How often each run has failed."""
        counts: dict[str, int] = {}
        for path in (self.folder / FAILED).glob("*.*"):
            key = path.name.rpartition(".")[0]
            counts[key] = counts.get(key, 0) + 1
        return counts

    def forget_failures(self, keys: Sequence[str]) -> None:
        """Remove the directories of these runs' failures, so that they are tried again."""
        for key in keys:
            for path in (self.folder / FAILED).glob(f"{key}.*"):
                shutil.rmtree(path)

    def set_aside(self, keys: Sequence[str]) -> None:
        """Let whole runs count no longer, so that they are made again; their results stay, beside."""
        folder = self.folder / INVALID
        for key in keys:
            folder.mkdir(exist_ok=True)
            remove_raw(self.folder / key)
            (self.folder / key).rename(_next_of(folder, key))
        sync_directory(self.folder)

    def strangers(self) -> list[str]:
        """Whole runs here that the campaign, as it is now, does not have."""
        wanted = {run.key for run in self.campaign.runs}
        paths = self.folder.glob("*_r[0-9][0-9][0-9]*")
        return sorted(path.name for path in paths if path.is_dir() and path.name not in wanted)


def read_manifest(run_dir: Path) -> dict[str, Any]:
    """The manifest of a whole run; raises InputError where there is none."""
    path = run_dir / FILE_NAME
    try:
        manifest = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}; valid: a whole run, or no {run_dir.name} at all") from error
    if not isinstance(manifest, dict):
        raise InputError(f"{path}: no JSON object; valid: a whole run, or no {run_dir.name} at all")
    return manifest


def _difference(found: object, wanted: Mapping[str, Any]) -> str:
    """In what a run's identity differs, in words; empty where it does not."""
    if not isinstance(found, dict):
        return "not a run of a campaign"
    if found.get("config_digest") != wanted["config_digest"]:
        return (
            f"made by another experiment (digest {str(found.get('config_digest'))[:12]}, "
            f"now {wanted['config_digest'][:12]})"
        )
    made_by = found.get("software")
    if made_by != wanted["software"]:
        now = Software(**wanted["software"])
        try:
            return f"made by {Software(**made_by) if isinstance(made_by, dict) else made_by}, this is {now}"
        except TypeError:
            return f"made by {made_by}, this is {now}"
    return ""


def _is_held(directory: Path) -> bool:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _next_of(folder: Path, key: str) -> Path:
    """A run's first name in a folder that keeps several of each."""
    taken = [_number(path) for path in folder.glob(f"{key}.*")]
    return folder / f"{key}.{max(taken, default=0) + 1}"


def _number(path: Path) -> int:
    match = re.fullmatch(r".*\.(\d+)", path.name)
    return int(match[1]) if match else 0


def remove_raw(run_dir: Path) -> None:
    """Delete the captures and reports of a run."""
    for name in RAW:
        _remove(run_dir / name)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Bring the names in a directory to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
