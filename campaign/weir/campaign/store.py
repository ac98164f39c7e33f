# SPDX-License-Identifier: Apache-2.0
"""The folder of a campaign, which is its only state: a run is done if its directory is here.

runs/<campaign>/<run>/            complete: renamed to this once the run is finished and analysed
runs/<campaign>/.partial/<run>/   running or killed; never counted, removed by the next start
runs/<campaign>/failed/<run>.N/   the N-th failure of a run, with its logs
runs/<campaign>/invalid/<run>.N/  complete but invalid, set aside to be made again
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from weir.campaign.differing import difference
from weir.campaign.errors import CampaignError
from weir.campaign.identity import identity_of, software
from weir.campaign.load import Campaign, PlannedRun
from weir.rundir import manifest
from weir.rundir.campaign_folder import CAMPAIGN_FILE, FAILED, INVALID, LOCK, PARTIAL
from weir.rundir.directory import RunDirectory, is_held, sync_directory, sync_tree
from weir.rundir.errors import RunFileError
from weir.rundir.manifest import CampaignRun, Manifest, Software, VirtualTime
from weir.rundir.plural import plural
from weir.rundir.whole_files import write_whole

# A sandbox whose outer process was killed ends within its grace period of 20 s.
_ORPHAN_PATIENCE_S = 60.0
_ORPHAN_POLL_S = 0.1
# A killed campaign's lock lasts until the runs that it was just starting have executed their program.
_LOCK_PATIENCE_S = 2.0
_LOCK_POLL_S = 0.02


class Store:
    """The folder of one campaign; a context manager that holds its lock."""

    def __init__(
        self, campaign: Campaign, runs: Path, current_software: Callable[[], Software] = software
    ) -> None:
        """Use `runs`/<name of the campaign>; creates nothing."""
        self.campaign = campaign
        self.made_by = current_software()
        self._current_software = current_software
        self.folder = runs / campaign.name
        self._lock: int | None = None

    def __enter__(self) -> Self:
        """Lock the folder and remove the partial runs of an earlier start.

        Raises CampaignError when another campaign is running in it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._acquire(self._lock)
            self._clear_partial()
        except BaseException:
            self._unlock()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Unlock the folder."""
        self._unlock()

    def _acquire(self, lock: int) -> None:
        # flock(2) has no time limit, so the lock is tried again and again.
        give_up = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= give_up:
                    raise CampaignError(
                        f"{self.folder}: another `weir campaign` is running in it; "
                        f"valid: wait for it, or --runs DIR"
                    ) from error
            time.sleep(_LOCK_POLL_S)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _clear_partial(self) -> None:
        """Remove partial runs, each once no process holds its lock."""
        give_up = time.monotonic() + _ORPHAN_PATIENCE_S
        for directory in sorted((self.folder / PARTIAL).glob("*")):
            while is_held(directory):
                if time.monotonic() >= give_up:
                    raise CampaignError(
                        f"{directory}: a killed run is still running in it after "
                        f"{_ORPHAN_PATIENCE_S:g} s; valid: end its weir-switch first"
                    )
                time.sleep(_ORPHAN_POLL_S)
            shutil.rmtree(directory)

    def keep_file(self) -> None:
        """Write the campaign's file into its folder, once `done` has found that the runs there are its."""
        write_whole(self.folder / CAMPAIGN_FILE, self.campaign.text.encode())

    def path_of(self, run: PlannedRun) -> Path:
        """Directory of the run once it is complete."""
        return self.folder / run.key

    def complete(self, runs: Iterable[PlannedRun]) -> dict[str, Path]:
        """Directories of those of these runs that are complete, whatever made them, by key."""
        return {run.key: self.path_of(run) for run in runs if self.path_of(run).is_dir()}

    def done(self) -> dict[str, Path]:
        """Directories of the campaign's complete runs, by key.

        Raises CampaignError when one of them was made from another experiment, by other software, or on
        another kernel.
        """
        found = self.complete(self.campaign.runs)
        here = [run for run in self.campaign.runs if run.key in found]
        foreign = [(self.path_of(run), unlike) for run in here if (unlike := self.difference(run))]
        if foreign:
            path, unlike = foreign[0]
            count = len(foreign) - 1
            others = (
                f", and so {'is' if count == 1 else 'are'} {plural(count, 'more run')} here" if count else ""
            )
            raise CampaignError(
                f"{path}: {unlike}{others}; results are not mixed; "
                f"valid: --runs with another directory, or move {self.folder} away"
            )
        return found

    def difference(self, run: PlannedRun) -> str:
        """How the complete run here differs from one that would be made now; empty if it does not."""
        return _difference(self.path_of(run), run, identity_of(run, self.made_by))

    def begin(self, run: PlannedRun) -> Path:
        """Create a directory for a run; raises CampaignError when the software has changed."""
        now = self._current_software()
        if now != self.made_by:
            raise CampaignError(
                f"{self.folder}: the software changed during the campaign; runs so far were made by "
                f"{self.made_by}, this is {now}; valid: the former, or --runs with another directory"
            )
        path = self.folder / PARTIAL / run.key
        path.mkdir(parents=True)
        return path

    def finish(self, run: PlannedRun, partial: Path) -> Path:
        """Move a run to its final directory, durably: from here on it counts, even after a power cut."""
        if self.campaign.keep == "results":
            remove_raw(partial)
        sync_tree(partial)
        final = self.path_of(run)
        partial.rename(final)
        sync_directory(final.parent)
        return final

    def fail(self, run: PlannedRun, partial: Path) -> Path:
        """Move the directory of a failed run to failed/; returns its new path."""
        remove_raw(partial)
        folder = self.folder / FAILED
        folder.mkdir(exist_ok=True)
        final = _next_path(folder, run.key)
        partial.rename(final)
        return final

    def discard(self, partial: Path) -> None:
        """Delete the directory of a stopped run."""
        shutil.rmtree(partial)

    def failures(self) -> Mapping[str, int]:
        """Number of failures of each run, by key."""
        counts: dict[str, int] = {}
        for path in (self.folder / FAILED).glob("*.*"):
            key = path.name.rpartition(".")[0]
            counts[key] = counts.get(key, 0) + 1
        return counts

    def delete_failures(self, keys: Sequence[str]) -> None:
        """Delete the failure directories of these runs, which restores all their attempts."""
        for key in keys:
            for path in (self.folder / FAILED).glob(f"{key}.*"):
                shutil.rmtree(path)

    def set_aside(self, keys: Sequence[str]) -> None:
        """Move complete runs to invalid/, so that they are made again; their results are kept there."""
        folder = self.folder / INVALID
        for key in keys:
            folder.mkdir(exist_ok=True)
            remove_raw(self.folder / key)
            (self.folder / key).rename(_next_path(folder, key))
        sync_directory(self.folder)

    def unplanned(self, grid: Campaign) -> list[str]:
        """Keys of complete runs in the folder that the campaign's whole grid does not include."""
        wanted = {run.key for run in grid.runs}
        paths = self.folder.glob("*_r[0-9][0-9][0-9]*")
        return sorted(path.name for path in paths if path.is_dir() and path.name not in wanted)


def read_manifest(run_dir: Path) -> Manifest:
    """The manifest of a complete run; raises CampaignError if it is missing or malformed."""
    try:
        return manifest.read_manifest(run_dir)
    except (OSError, RunFileError) as error:
        raise CampaignError(f"{error}; valid: a complete run, or no {run_dir.name} at all") from error


def _difference(path: Path, run: PlannedRun, wanted: CampaignRun) -> str:
    """How a complete run's identity differs from the wanted one; empty if it does not."""
    made = read_manifest(path)
    found = made.campaign
    if found is None:
        return "not a run of a campaign"
    if found.config_digest != wanted.config_digest:
        digests = f"digest {found.config_digest[:12]}, now {wanted.config_digest[:12]}"
        return f"made by another experiment ({difference(path, run) or digests})"
    if found.software != wanted.software:
        return f"made by {found.software}, this is {wanted.software}"
    if _guest(made.virtual_time) != _guest(run.virtual_time):
        return f"made {_guest(made.virtual_time)}, now {_guest(run.virtual_time)}"
    return ""


def _guest(virtual_time: VirtualTime | None) -> str:
    """The guest of a run; its memory limits the queues of its sockets."""
    if virtual_time is None:
        return "in real time"
    kernel = virtual_time.kernel
    digest = kernel.inputs_sha256[:12]
    return f"on the kernel {kernel.name} (inputs {digest}) with {virtual_time.memory_mb} MB"


def _next_path(folder: Path, key: str) -> Path:
    """The next free path `folder`/`key`.N of a run."""
    taken = [_number(path) for path in folder.glob(f"{key}.*")]
    return folder / f"{key}.{max(taken, default=0) + 1}"


def _number(path: Path) -> int:
    match = re.fullmatch(r".*\.(\d+)", path.name)
    return int(match[1]) if match else 0


def remove_raw(run_dir: Path) -> None:
    """Delete the captures and reports of a run."""
    for path in RunDirectory(run_dir).raw:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
