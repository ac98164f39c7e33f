# SPDX-License-Identifier: Apache-2.0
"""The contents of an archive: run directories and files of campaigns, checked before anything is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.archive import layout
from weir.archive.errors import ArchiveError
from weir.rundir.campaign_folder import CampaignFolder
from weir.rundir.directory import RunDirectory, is_held
from weir.rundir.errors import RunFileError
from weir.rundir.manifest import Manifest, read_manifest
from weir.rundir.manifest_file import SPARE_NAME
from weir.rundir.result_data import result_data
from weir.rundir.whole_files import part_of

_UNFINISHED_SUFFIX = part_of(Path("x")).suffix


@dataclass(frozen=True)
class Item:
    """One file of the archive."""

    name: str
    """Its path in the archive."""
    source: Path
    size_bytes: int
    run: ExportedRun | None
    """The run that it belongs to; None for a campaign's own file."""

    @property
    def within(self) -> str:
        """Its path in the run's or the campaign's folder."""
        return self.name.split("/", 3)[-1] if self.run is not None else self.name.split("/", 2)[-1]


@dataclass(frozen=True)
class ExportedRun:
    """One run of an archive."""

    source: Path
    """Its directory."""
    folder: str
    """Its path in the archive."""
    manifest: Manifest
    unanalysed: str | None
    """Why it has no result that can be read."""
    raw: bool
    """Whether it has what its result is computed from."""

    @property
    def analysed(self) -> bool:
        """Whether it has a result that can be read."""
        return self.unanalysed is None


@dataclass(frozen=True)
class Contents:
    """All runs and files of an archive, in order of their names."""

    runs: tuple[ExportedRun, ...]
    campaigns: tuple[str, ...]
    """Paths in the archive of the folders with a campaign file."""
    items: tuple[Item, ...]

    @property
    def folders(self) -> tuple[str, ...]:
        """Paths in the archive of all campaigns and runs."""
        return (*self.campaigns, *(run.folder for run in self.runs))

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(item.size_bytes for item in self.items)


def contents_of(paths: Sequence[Path], *, unfinished: bool = False) -> Contents:
    """The runs at `paths`, each a run directory or a campaign's folder, which stands for its complete runs.

    Raises:
        ArchiveError: a path is neither; runs did not finish or have no result, and `unfinished` is false; a
            run is under way; two runs have one name; a file has a name that no archive may hold.
        RunFileError: a manifest is malformed.
    """
    runs: dict[str, ExportedRun] = {}
    campaigns: dict[str, Path] = {}
    problems: list[str] = []
    for path in paths:
        try:
            for folder, run in _runs_at(path.resolve(), path, campaigns):
                problems += _problems(run, unfinished)
                other = runs.setdefault(folder, run)
                if other.source != run.source:
                    raise ArchiveError(
                        f"{run.source} and {other.source} are both {folder}; valid: one of them"
                    )
        except OSError as error:
            raise ArchiveError(f"{error.filename}: {error.strerror}") from error
    if problems:
        raise ArchiveError("\n".join(problems))
    items: list[Item] = []
    for folder, campaign in campaigns.items():
        items += _items(CampaignFolder(campaign).own_files(), campaign, folder, None)
    for folder, run in runs.items():
        items += _items(_files_of(run.source), run.source, folder, run)
    return Contents(
        tuple(runs[folder] for folder in sorted(runs)),
        tuple(sorted(campaigns)),
        tuple(sorted(items, key=lambda item: item.name)),
    )


def _runs_at(path: Path, given: Path, campaigns: dict[str, Path]) -> Iterable[tuple[str, ExportedRun]]:
    if RunDirectory(path).manifest.is_file():
        manifest = read_manifest(path)
        yield _exported(path, f"{layout.RUNS}/{_folder_name(manifest.name, path)}", manifest)
    elif CampaignFolder(path).config.is_file():
        folder = f"{layout.RUNS}/{_folder_name(path.name, path)}"
        if campaigns.setdefault(folder, path) != path:
            raise ArchiveError(f"{path} and {campaigns[folder]} have one name; valid: one of them")
        found = CampaignFolder(path).runs()
        if not found:
            raise ArchiveError(f"{given}: the campaign has no complete run yet; valid: one with runs")
        for run in found:
            yield _exported(run.resolve(), folder, read_manifest(run))
    else:
        raise ArchiveError(
            f"{given}: no run and no campaign; valid: a run directory (runs/demo/latest), or the folder of a "
            "campaign"
        )


def _exported(path: Path, parent: str, manifest: Manifest) -> tuple[str, ExportedRun]:
    folder = f"{parent}/{_folder_name(path.name, path)}"
    files = RunDirectory(path)
    raw = files.telemetry.is_file() and all((path / host.pcap).is_file() for host in manifest.hosts)
    return folder, ExportedRun(path, folder, manifest, _unanalysed(path), raw)


def _unanalysed(run_dir: Path) -> str | None:
    if not RunDirectory(run_dir).result.exists():
        return f"{run_dir}: the run is not analysed; valid: weir report {run_dir}"
    try:
        result_data(run_dir)
    except RunFileError as error:
        return str(error)
    return None


def _folder_name(name: str, path: Path) -> str:
    if not name or not layout.is_folder_name(name):
        raise ArchiveError(f"{path}: {name!r} cannot be a folder of an archive; valid: a name without /")
    return name


def _problems(run: ExportedRun, unfinished: bool) -> Iterable[str]:
    """Why a run cannot be exported."""
    if is_held(run.source):
        yield f"{run.source}: the run is under way; valid: a run that has ended"
    elif not run.manifest.complete and not unfinished:
        state = "died" if run.manifest.state == "running" else run.manifest.state or "unknown"
        yield f"{run.source}: the run did not finish ({state}); valid: a finished run, or --unfinished"
    elif run.manifest.complete and not run.analysed and not unfinished:
        yield f"{run.unanalysed}, or --unfinished"


def _files_of(run_dir: Path) -> Iterable[Path]:
    """The files of a run directory, without those that were never whole."""
    # The inventory of a testbed says how its owner logs in.
    kept_back = RunDirectory(run_dir).testbed
    for path in sorted(run_dir.rglob("*")):
        if path == kept_back:
            continue
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode) or path.suffix == _UNFINISHED_SUFFIX or path.name == SPARE_NAME:
            continue
        if not stat.S_ISREG(mode):
            kind = "a link" if stat.S_ISLNK(mode) else "no regular file"
            raise ArchiveError(f"{path}: {kind}; valid: a run directory as weir wrote it")
        if not os.access(path, os.R_OK):
            raise ArchiveError(f"{path}: Permission denied; valid: files that you may read")
        yield path


def _items(files: Iterable[Path], root: Path, folder: str, run: ExportedRun | None) -> Iterable[Item]:
    for path in files:
        name = f"{folder}/{path.relative_to(root).as_posix()}"
        problem = layout.problem_of(name)
        if problem is not None:
            raise ArchiveError(f"{path}: {problem}; valid: a run directory as weir wrote it")
        yield Item(name, path, path.stat().st_size, run)
