# SPDX-License-Identifier: Apache-2.0
"""Writes an archive: the files of the runs in one pass, then the metadata, the README and the checksums."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weir.archive import layout
from weir.archive.contents import Contents, ExportedRun, Item
from weir.archive.crate import metadata_text
from weir.archive.errors import ArchiveError
from weir.archive.private import Cleaner, Identity, remains
from weir.archive.readme import readme_text
from weir.archive.record import License, Member, Origin
from weir.rundir.directory import INPUT_FOLDERS
from weir.rundir.manifest import Manifest
from weir.rundir.whole_files import replacing

Progress = Callable[[int], None]
"""Receives the bytes of the runs' files that are done."""

_CHUNK_BYTES = 1 << 20
_COMPRESSED = frozenset({".parquet", ".gz", ".xz", ".zst", ".bz2", ".png"})
_RECORDS = ("result.json", "collector.json")
_WRITTEN_BY_PEOPLE = ("config.yaml", "campaign.yaml", *(f"{name}/" for name in INPUT_FOLDERS))
_EARLIEST, _LATEST = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)
"""Times that a zip can hold."""


@dataclass(frozen=True)
class Written:
    """An archive that was written."""

    path: Path
    size_bytes: int
    sha256: str
    rewritten: tuple[str, ...]
    """Files from which paths or names were removed."""
    remains: tuple[str, ...]
    """Lines of files written by people that still have some, as `file, line N: what`."""


@dataclass
class _Findings:
    members: list[Member] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)


def write_archive(
    contents: Contents,
    out: Path,
    origin: Origin,
    licence: License,
    *,
    identity: Identity | None = None,
    progress: Progress = lambda _done: None,
) -> Written:
    """Write the archive to a temporary file, and give it the name `out` when it is whole.

    Raises ArchiveError for a file that cannot be read, OSError with `out` as its file name.
    """
    _check_place(contents, out)
    identity = identity or Identity.here()
    found = _Findings()
    with replacing(out) as part, part.open("wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for folder in contents.folders:
                archive.writestr(_info(f"{folder}/", _EARLIEST, stat.S_IFDIR | 0o755), b"")
            done = 0
            for item in contents.items:
                pieces = _pieces(item, identity, found)
                for size in _add(archive, item.name, pieces, item.size_bytes, _time_of(item.run), found):
                    progress(done + size)
                done += item.size_bytes
                progress(done)
            now = time.gmtime()[:6]
            contents = _clean(contents, identity)
            readme = readme_text(contents, origin, licence, found.rewritten, found.remains)
            _add_text(archive, layout.README, readme, now, found)
            _add_text(
                archive, layout.METADATA, metadata_text(contents, found.members, origin, licence), now, found
            )
            sums = layout.sums_text((member.name, member.sha256) for member in found.members)
            _add_text(archive, layout.SUMS, sums, now, found)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    with out.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Written(out, size, digest, tuple(found.rewritten), tuple(found.remains))


def _check_place(contents: Contents, out: Path) -> None:
    place = out.absolute().parent.resolve() / out.name
    for run in contents.runs:
        if run.source in place.parents:
            raise ArchiveError(f"{out}: is in the run {run.source}; valid: a file outside of the runs")
    if place.is_dir():
        raise ArchiveError(f"{out}: is a folder; valid: the name of a file")


def _time_of(run: ExportedRun | None) -> tuple[int, ...]:
    """The run's end in UTC: times of files would say when they were copied."""
    if run is None or run.manifest.finished_ns is None:
        return _EARLIEST
    return tuple(time.gmtime(run.manifest.finished_ns / 1e9)[:6])


def _add(
    archive: zipfile.ZipFile,
    name: str,
    pieces: Iterable[bytes],
    size_bytes: int,
    at: tuple[int, ...],
    found: _Findings,
) -> Iterator[int]:
    """Write one member; yields its bytes so far."""
    info = _info(name, at, stat.S_IFREG | 0o644)
    packed = Path(name).suffix in _COMPRESSED
    info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
    info.file_size = size_bytes  # decides whether the header has room for 64 bits
    digest, size = hashlib.sha256(), 0
    with archive.open(info, "w") as member:
        for piece in pieces:
            member.write(piece)
            digest.update(piece)
            size += len(piece)
            yield size
    found.members.append(Member(name, size, digest.hexdigest()))


def _info(name: str, at: tuple[int, ...], mode: int) -> zipfile.ZipInfo:
    year, month, day, hour, minute, second = min(max(at, _EARLIEST), _LATEST)
    info = zipfile.ZipInfo(name, (year, month, day, hour, minute, second))
    info.create_system = 3  # Unix: the upper half of the attributes is a mode
    info.external_attr = mode << 16
    return info


def _add_text(archive: zipfile.ZipFile, name: str, text: str, at: tuple[int, ...], found: _Findings) -> None:
    data = text.encode()
    for _ in _add(archive, name, [data], len(data), at, found):
        pass


def _pieces(item: Item, identity: Identity, found: _Findings) -> Iterator[bytes]:
    """The bytes of a file as the archive holds them."""
    cleaner = (
        Cleaner(item.source.parents[len(Path(item.within).parts) - 1], identity)
        if item.run is None
        else _cleaner(item.run, identity)
    )
    if item.run is not None and item.within == layout.MANIFEST:
        yield _manifest(item, cleaner, found)
        return
    if item.within.startswith("logs/"):
        yield from _lines(item, cleaner.log, found)
    elif item.within in _RECORDS:
        yield from _lines(item, cleaner.record, found)
    elif item.source.suffix in (".html", ".csv", ".svg"):
        yield from _lines(item, cleaner.page, found)
    else:
        if item.within.startswith(_WRITTEN_BY_PEOPLE):
            lines = (_text(line) for line in _read_lines(item.source))
            for number, what in remains(lines, cleaner.identity):
                found.remains.append(f"{item.name}, line {number}: {what}")
        yield from _chunks(item.source)


def _cleaner(run: ExportedRun, identity: Identity) -> Cleaner:
    manifest = run.manifest
    flows = (flow.name for phase in manifest.phases for flow in phase.flows)
    used = [*(host.name for host in manifest.hosts), *flows, manifest.name]
    return Cleaner(run.source, identity.without(used))


def _clean(contents: Contents, identity: Identity) -> Contents:
    """The same runs with messages as the archive's manifests have them, for its metadata and README."""

    def clean(run: ExportedRun) -> ExportedRun:
        data = run.manifest.model_dump(mode="json", by_alias=True, exclude_unset=True)
        mapped = _mapped(data, _cleaner(run, identity).record)
        return replace(run, manifest=Manifest.model_validate(mapped))

    return replace(contents, runs=tuple(clean(run) for run in contents.runs))


def _manifest(item: Item, cleaner: Cleaner, found: _Findings) -> bytes:
    """The manifest, byte for byte unless a message in it names a path."""
    data = b"".join(_chunks(item.source))
    read = json.loads(data)
    clean = _mapped(read, cleaner.record)
    if clean == read:
        return data
    found.rewritten.append(item.name)
    return (json.dumps(clean, indent=2) + "\n").encode()


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(each, change) for each in value]
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    return value


def _lines(item: Item, change: Callable[[str], str], found: _Findings) -> Iterator[bytes]:
    changed = False
    for line in _read_lines(item.source):
        text = _text(line)
        clean = change(text)
        changed = changed or clean != text
        yield clean.encode(errors="surrogateescape")
    if changed:
        found.rewritten.append(item.name)


def _text(line: bytes) -> str:
    return line.decode(errors="surrogateescape")


def _read_lines(path: Path) -> Iterator[bytes]:
    rest = b""
    for chunk in _chunks(path):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def _chunks(path: Path) -> Iterator[bytes]:
    """The contents of a file of a run; raises ArchiveError, so that OSError is always of the archive."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise ArchiveError(f"{path}: {error.strerror}; valid: a run that nobody changes") from error
    with file:
        while True:
            try:
                chunk = file.read(_CHUNK_BYTES)
            except OSError as error:
                raise ArchiveError(f"{path}: {error.strerror}") from error
            if not chunk:
                return
            yield chunk


def default_name(contents: Contents) -> str:
    """A name for the archive of these runs, after the only run or campaign, or the experiments."""
    if len(contents.campaigns) == 1 and all(
        run.folder.startswith(contents.campaigns[0]) for run in contents.runs
    ):
        return f"{contents.campaigns[0].rpartition('/')[2]}.zip"
    names: Sequence[str] = list(dict.fromkeys(run.folder.split("/")[1] for run in contents.runs))
    if len(contents.runs) == 1:
        return f"{names[0]}-{contents.runs[0].source.name}.zip"
    return f"{names[0] if len(names) == 1 else 'weir'}-runs.zip"
