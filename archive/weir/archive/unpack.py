# SPDX-License-Identifier: Apache-2.0
"""Unpacks an archive's runs into a folder of runs: all of it or nothing.

Everything is unpacked into a temporary folder beside the runs and compared with its checksums there; the runs
then get their places by renaming. A folder of an import that was killed is removed by the next one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from weir.archive import layout
from weir.archive.errors import ArchiveError
from weir.archive.read import ArchivedRun, Limits, Member, open_archive
from weir.rundir.campaign_folder import without_campaign
from weir.rundir.directory import sync_directory, sync_tree
from weir.rundir.scratch import scratch_folder

Progress = Callable[[int, int], None]
"""Receives the unpacked bytes so far, and those of the archive."""

PREFIX = ".import-"
_SPARE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class ImportedRun:
    """A run of the archive, and where it is now."""

    run: ArchivedRun
    path: Path
    new: bool
    """False if the same run was there before."""


@dataclass(frozen=True)
class Imported:
    """The runs of an archive, all of which are in their places."""

    runs: tuple[ImportedRun, ...]
    campaigns: tuple[Path, ...]
    """Folders of campaigns that have runs of the archive."""
    files: int
    size_bytes: int


def import_archive(
    path: Path, runs: Path, limits: Limits | None = None, progress: Progress = lambda _done, _all: None
) -> Imported:
    """Check an archive and move its runs to `runs`/<experiment>/<run>.

    Raises:
        ArchiveError: the archive is not whole, holds what no export writes, or has runs that are in `runs`
            with other contents, or into whose folder a campaign is making runs. Nothing has changed then.
        OSError: a file cannot be read or written. Nothing has changed then, either.
    """
    with open_archive(path, limits) as archive:
        present = {run.folder: _is_present(runs, run.folder, run.files, path) for run in archive.runs}
        own = dict(archive.campaign_files)
        for file, digest in own.items():
            present[file] = _is_same_file(runs, file, digest, path)
        new = [place for place, there in present.items() if not there]
        with _no_campaigns(runs, new):  # said before anything is unpacked
            pass
        with _folder(runs, archive.size_bytes) as folder:
            done = 0
            for member in archive.members:
                target = _target(folder, member, present)
                for size in _unpack(archive.read(member), target, runs / member.name):
                    progress(done + size, archive.size_bytes)
                done += member.info.file_size
            sync_tree(folder)
            with _no_campaigns(runs, new):
                _move(folder, runs, new)
        return Imported(
            tuple(ImportedRun(run, runs / run.folder, not present[run.folder]) for run in archive.runs),
            tuple(runs / name for name in dict.fromkeys(file.parts[0] for file in own)),
            len(archive.members),
            archive.size_bytes,
        )


@contextmanager
def _no_campaigns(runs: Path, places: list[PurePosixPath]) -> Iterator[None]:
    """Keep campaigns out of the folders of these runs and files: one would make the same runs."""
    with ExitStack() as stack:
        for name in sorted({place.parts[0] for place in places}):
            try:
                stack.enter_context(without_campaign(runs / name))
            except BlockingIOError as error:
                raise ArchiveError(
                    f"{runs / name}: `weir campaign` is running in it; valid: wait for it, or --runs DIR"
                ) from error
        yield


def _is_present(runs: Path, folder: PurePosixPath, files: Mapping[str, str], archive: Path) -> bool:
    """Whether a run is there with the same files. Raises ArchiveError if other files are there."""
    place = runs / folder
    if not os.path.lexists(place):
        return False
    _check_parents(runs, folder)
    if place.is_symlink() or not place.is_dir():
        raise ArchiveError(f"{place}: is there, and no run; valid: --runs with another directory")
    found = {path.relative_to(place).as_posix(): path for path in place.rglob("*") if not path.is_dir()}
    differing = sorted(
        name
        for name in found.keys() | files.keys()
        if name not in found or name not in files or _digest(found[name]) != files[name]
    )
    if differing:
        others = f" and {len(differing) - 1} more" if differing[1:] else ""
        raise ArchiveError(
            f"{place}: is there and differs from the run of {archive.name} in {differing[0]}{others}; "
            "valid: --runs with another directory, or move it away"
        )
    return True


def _is_same_file(runs: Path, file: PurePosixPath, digest: str, archive: Path) -> bool:
    place = runs / file
    if not os.path.lexists(place):
        return False
    _check_parents(runs, file)
    if not place.is_file() or _digest(place) != digest:
        raise ArchiveError(
            f"{place}: is there and differs from that of {archive.name}; valid: --runs with another directory"
        )
    return True


def _check_parents(runs: Path, place: PurePosixPath) -> None:
    for parent in list(place.parents)[:-1]:
        if (runs / parent).is_symlink() or ((runs / parent).exists() and not (runs / parent).is_dir()):
            raise ArchiveError(f"{runs / parent}: a link or a file; valid: --runs with another directory")


def _digest(path: Path) -> str:
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _folder(runs: Path, size_bytes: int) -> Iterator[Path]:
    """A locked temporary folder in `runs`, removed in the end, with room for the archive's files."""
    made = _make_folders(runs)
    try:
        with scratch_folder(runs, PREFIX) as folder:
            free = shutil.disk_usage(folder).free
            if size_bytes + _SPARE_BYTES > free:
                what = f"{os.strerror(errno.ENOSPC)}: {size_bytes} bytes needed, {free} free"
                raise OSError(errno.ENOSPC, what, str(runs))
            yield folder
    finally:
        for parent in made:
            with suppress(OSError):  # not empty: the runs are in it
                parent.rmdir()


def _make_folders(path: Path) -> list[Path]:
    """Create a folder with its parents; returns the new ones, deepest first."""
    missing = [parent for parent in (path, *path.parents) if not parent.exists()]
    path.mkdir(parents=True, exist_ok=True)
    return missing


def _target(folder: Path, member: Member, present: Mapping[PurePosixPath, bool]) -> Path | None:
    """Where a member is unpacked to; None if it is only checked."""
    if member.path.parts[0] != layout.RUNS:
        return None
    below = PurePosixPath(*member.path.parts[1:])
    place = below if below in present else PurePosixPath(*below.parts[:2])
    return None if present[place] else folder / below


def _unpack(pieces: Iterator[bytes], target: Path | None, shown: Path) -> Iterator[int]:
    """Write a new file, or only read the pieces; yields the bytes so far. Errors name the file `shown`."""
    size = 0
    if target is None:
        for piece in pieces:
            size += len(piece)
            yield size
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            for piece in pieces:
                file.write(piece)
                size += len(piece)
                yield size
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(shown)) from error


def _move(folder: Path, runs: Path, places: list[PurePosixPath]) -> None:
    """Rename each run and file to its place below `runs`; on an error or Ctrl-C, take all of them back."""
    begun: list[PurePosixPath] = []
    made: list[Path] = []
    try:
        for place in places:
            target = runs / place
            _check_parents(runs, place)
            made = _make_folders(target.parent) + made
            if os.path.lexists(target):
                raise ArchiveError(f"{target}: was made meanwhile; valid: import again")
            begun.append(place)
            (folder / place).rename(target)
            sync_directory(target.parent)
    except BaseException:
        for place in reversed(begun):
            target = runs / place
            if os.path.lexists(folder / place):
                continue  # its renaming failed, or never began
            if target.is_dir():
                shutil.rmtree(target, ignore_errors=True)
            else:
                target.unlink(missing_ok=True)
        for parent in made:
            with suppress(OSError):
                parent.rmdir()
        raise
