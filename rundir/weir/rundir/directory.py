# SPDX-License-Identifier: Apache-2.0
"""The directory of a run: the names of its files, its creation, and its lock."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from weir.rundir.whole_files import replacing

INPUT_FOLDERS = REPLAYS, CLASSIFIERS = ("replays", "classifiers")
"""Folders with copies of the files that the experiment names."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Paths of the files of one run."""

    path: Path

    @property
    def config(self) -> Path:
        """The experiment file, unchanged."""
        return self.path / "config.yaml"

    @property
    def testbed(self) -> Path:
        """The inventory of a run on a testbed, unchanged. It is not for others, as it has SSH addresses."""
        return self.path / "testbed.yaml"

    @property
    def replays(self) -> Path:
        """Folder with copies of the experiment's replay files."""
        return self.path / REPLAYS

    @property
    def classifiers(self) -> Path:
        """Folder with copies of the classifiers of the experiment's tuners."""
        return self.path / CLASSIFIERS

    @property
    def manifest(self) -> Path:
        """Versions, seeds, phases and counters; see `weir.rundir.manifest`."""
        return self.path / "manifest.json"

    @property
    def logs(self) -> Path:
        """Folder of the logs of all processes."""
        return self.path / "logs"

    @property
    def captures(self) -> Path:
        """Folder of the hosts' captures."""
        return self.path / "pcap"

    def capture(self, host: str) -> Path:
        """The capture of one host."""
        return self.captures / f"{host}.pcap"

    @property
    def telemetry(self) -> Path:
        """The drop and enqueue reports, written by the collector."""
        return self.path / "telemetry.parquet"

    @property
    def accounting(self) -> Path:
        """The collector's accounting of the reports; see `weir.rundir.collector`."""
        return self.path / "collector.json"

    @property
    def sockets(self) -> Path:
        """Samples of the senders' TCP state."""
        return self.path / "sockets.parquet"

    @property
    def result(self) -> Path:
        """The result of the analysis."""
        return self.path / "result.json"

    @property
    def flows(self) -> Path:
        """One row per flow of the result."""
        return self.path / "flows.parquet"

    @property
    def series(self) -> Path:
        """Loss, throughput and delay over time."""
        return self.path / "series.parquet"

    @property
    def features(self) -> Path:
        """Features of the flows' sockets."""
        return self.path / "features.parquet"

    @property
    def tuning(self) -> Path:
        """The decisions of the hosts' tuners."""
        return self.path / "tuning.parquet"

    @property
    def report(self) -> Path:
        """The report page of the run."""
        return self.path / "report.html"

    @property
    def raw(self) -> tuple[Path, ...]:
        """Raw measurements, which are no longer needed after the analysis."""
        return (self.captures, self.telemetry, self.sockets)


def named_file(config: Path, name: str, folder: str) -> Path:
    """The file that an experiment names, seen from the folder of its file.

    The experiment of an earlier run has its copies in the run's folder, one of INPUT_FOLDERS.
    """
    path = config.parent / name
    copy = config.parent / folder / path.name
    return copy if copy.is_file() and not path.is_file() else path


def make_run_dir(parent: Path) -> Path:
    """Create a directory named after the current time (UTC), so that names sort by age."""
    stem = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1000):
        run_dir = parent / (stem if attempt == 0 else f"{stem}-{attempt}")
        try:
            run_dir.mkdir()
        except FileExistsError:
            continue
        return run_dir.absolute()
    raise FileExistsError(f"{parent} holds 1000 runs of {stem} already")


def point_latest_to(run_dir: Path) -> None:
    """Point the symbolic link `latest`, next to the run directory, to it, atomically."""
    with replacing(run_dir.parent / "latest") as link:
        link.unlink(missing_ok=True)  # one that a killed process of the same id has left
        link.symlink_to(run_dir.name)


def hold(directory: Path) -> None:
    """Hold a shared lock on a directory until this process exits, as a sign that it is in use."""
    # Never closed: the lock lasts as long as the process.
    fcntl.flock(_open(directory), fcntl.LOCK_SH)


@contextmanager
def held(directory: Path) -> Iterator[int]:
    """Hold the same lock as `hold` until the end of the block, and yield its descriptor.

    A process that has inherited the descriptor holds the lock too, until it ends: flock(2) locks the open
    file, which all copies of a descriptor share.
    """
    handle = _open(directory)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield handle
    finally:
        os.close(handle)


def is_held(directory: Path) -> bool:
    """Whether a process has locked a directory with `hold` or `held`."""
    handle = _open(directory)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def remove_if_not_held(directory: Path) -> None:
    """Remove a directory that no process holds, as far as possible. Who wants to hold it meanwhile waits."""
    with contextlib.suppress(FileNotFoundError):  # another process may remove it at the same time
        handle = _open(directory)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        except BlockingIOError:
            return
        finally:
            os.close(handle)


def _open(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def sync_tree(directory: Path) -> None:
    """Sync all files below a directory to disk, so that they survive a power cut."""
    for path in (*directory.rglob("*"), directory):
        if not path.is_symlink():
            _sync(path, os.O_RDONLY)


def sync_directory(path: Path) -> None:
    """Sync the entries of a directory to disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
