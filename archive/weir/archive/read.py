# SPDX-License-Identifier: Apache-2.0
"""Reads an archive of anyone: what is in it is checked before a byte of it is written anywhere.

The list of members is bounded before it is parsed, and each member before it is unpacked. What an
archive of `weir export` never has is refused by name: paths that leave the folder, links and devices, names
that occur twice, other compressions, files without a checksum.
"""

from __future__ import annotations

import errno
import hashlib
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from pydantic import ValidationError

from weir.archive import layout
from weir.archive.errors import ArchiveError
from weir.rundir.campaign_folder import CAMPAIGN_FILE
from weir.rundir.manifest import Manifest

GB: Final = 1_000_000_000
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_END_MAGIC, _END_64_MAGIC, _LOCATOR_64_MAGIC = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_LIST_BYTES_PER_MEMBER = 1500
"""A member's longest entry in the list: 46 bytes, its name, 64-bit sizes, times and owners."""
_ENCRYPTED = 0x1
_CHUNK_BYTES = 1 << 20
_LARGEST_TEXT_BYTES = 64 * 1024 * 1024
"""Of the files that are read into memory: checksums and manifests."""
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    UnicodeDecodeError,
    ValueError,
    struct.error,
)
"""Errors that zipfile raises for bytes that are no archive, or a damaged one."""


@dataclass(frozen=True)
class Limits:
    """How much an archive may hold."""

    members: int = 100_000
    total_bytes: int = 100 * GB


@dataclass(frozen=True)
class ArchivedRun:
    """One run of an archive."""

    folder: PurePosixPath
    """Its path below `runs/`: experiment or campaign, and run."""
    manifest: Manifest
    files: Mapping[str, str]
    """SHA-256 by the path in the run directory."""
    size_bytes: int
    analysable: bool
    """Whether it has what its result is computed from."""


@dataclass(frozen=True)
class Member:
    """A file of an archive."""

    info: zipfile.ZipInfo
    path: PurePosixPath
    sha256: str | None
    """None for the file of the checksums itself."""

    @property
    def name(self) -> str:
        """Its path, that of a run's file below `runs/`."""
        return str(self.path).removeprefix(f"{layout.RUNS}/")


class OpenArchive:
    """The checked list of an archive's files, and its runs; contents are checked when they are read."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, limits: Limits) -> None:
        """Check the list. Raises ArchiveError. Use `open_archive`."""
        self.path = path
        self._archive = archive
        infos = _checked(path, archive.infolist(), limits)
        if layout.SUMS not in infos:
            raise ArchiveError(f"{path}: no {layout.SUMS} in it; valid: an archive of `weir export`")
        try:
            sums = layout.parse_sums(self._text(infos[layout.SUMS]))
        except ValueError as error:
            raise ArchiveError(f"{path}: {layout.SUMS}: {error}; valid: lines of sha256sum") from error
        _same_names(path, infos.keys() - {layout.SUMS}, sums.keys())
        self.members = tuple(
            Member(info, PurePosixPath(name), sums.get(name)) for name, info in sorted(infos.items())
        )
        self.size_bytes = sum(info.file_size for info in infos.values())
        self.runs = self._runs(infos, sums)
        self.campaign_files = {
            PurePosixPath(*PurePosixPath(name).parts[1:]): digest
            for name, digest in sums.items()
            if name.startswith(f"{layout.RUNS}/") and not self._in_run(name)
        }
        """SHA-256 of campaigns' own files by their path below `runs/`."""
        self._check_campaign_files()

    def read(self, member: Member) -> Iterator[bytes]:
        """The contents of a member. Raises ArchiveError, at their end if the checksum is another one."""
        digest, left = hashlib.sha256(), member.info.file_size
        with _damage(self.path, member.info.filename), self._archive.open(member.info) as file:
            while chunk := file.read(_CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    raise zipfile.BadZipFile("longer than the archive's list says")
                digest.update(chunk)
                yield chunk
        if left:
            raise ArchiveError(f"{self.path}: {member.info.filename}: shorter than the archive's list says")
        if member.sha256 is not None and digest.hexdigest() != member.sha256:
            raise ArchiveError(
                f"{self.path}: {member.info.filename}: its SHA-256 is not that of {layout.SUMS}; the archive "
                "is damaged, or was changed; valid: another copy"
            )

    def _text(self, info: zipfile.ZipInfo) -> str:
        if info.file_size > _LARGEST_TEXT_BYTES:
            raise ArchiveError(
                f"{self.path}: {info.filename}: {info.file_size} bytes; valid: at most {_LARGEST_TEXT_BYTES}"
            )
        data = b"".join(self.read(Member(info, PurePosixPath(info.filename), None)))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ArchiveError(f"{self.path}: {info.filename}: not UTF-8") from error

    def _runs(self, infos: Mapping[str, zipfile.ZipInfo], sums: Mapping[str, str]) -> tuple[ArchivedRun, ...]:
        files: dict[tuple[str, ...], dict[str, str]] = {}
        for name, digest in sums.items():
            parts = name.split("/")
            if parts[0] != layout.RUNS:
                if name not in (layout.METADATA, layout.README):
                    raise ArchiveError(
                        f"{self.path}: {name}: not a file of an archive of runs; valid: {layout.METADATA}, "
                        f"{layout.README}, {layout.SUMS} and {layout.RUNS}/"
                    )
            elif len(parts) < 3 or not layout.is_folder_name(parts[1]):
                raise ArchiveError(
                    f"{self.path}: {name}: not in the folder of a run; "
                    f"valid: {layout.RUNS}/<experiment>/<run>/"
                )
            elif len(parts) > 3:
                files.setdefault((parts[1], parts[2]), {})["/".join(parts[3:])] = digest
        runs = []
        self._run_folders = frozenset(
            folder for folder, its_files in files.items() if layout.MANIFEST in its_files
        )
        for folder in sorted(self._run_folders):
            name = "/".join((layout.RUNS, *folder))
            if not layout.is_folder_name(folder[1]):
                raise ArchiveError(f"{self.path}: {name}: no run may have this name")
            manifest = self._manifest(infos[f"{name}/{layout.MANIFEST}"])
            its_files = files[folder]
            runs.append(
                ArchivedRun(
                    PurePosixPath(*folder),
                    manifest,
                    its_files,
                    sum(infos[f"{name}/{file}"].file_size for file in its_files),
                    "telemetry.parquet" in its_files
                    and all(host.pcap in its_files for host in manifest.hosts),
                )
            )
        if not runs:
            raise ArchiveError(f"{self.path}: no run in it; valid: an archive of `weir export`")
        return tuple(runs)

    def _manifest(self, info: zipfile.ZipInfo) -> Manifest:
        where = f"{self.path}: {info.filename}"
        try:
            manifest = Manifest.model_validate_json(self._text(info))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"]) or "top level"
            raise ArchiveError(f"{where}: {key}: {first['msg']}") from error
        for host in manifest.hosts:
            # The analysis opens this path, relative to the run directory.
            problem = layout.problem_of(host.pcap)
            if problem is not None:
                raise ArchiveError(
                    f"{where}: the capture of {host.name} has {problem}; valid: pcap/HOST.pcap"
                )
        return manifest

    def _in_run(self, name: str) -> bool:
        return tuple(name.split("/")[1:3]) in self._run_folders

    def _check_campaign_files(self) -> None:
        campaigns = {path.parts[0] for path in self.campaign_files if path.parts[1:] == (CAMPAIGN_FILE,)}
        for path in self.campaign_files:
            if path.parts[0] not in campaigns or not layout.is_campaign_file(path.parts[1:]):
                raise ArchiveError(
                    f"{self.path}: {layout.RUNS}/{path}: in no run and no file of a campaign; "
                    f"valid: files of folders with {layout.MANIFEST}"
                )


@contextmanager
def open_archive(path: Path, limits: Limits | None = None) -> Iterator[OpenArchive]:
    """Open and check an archive. Raises ArchiveError, and OSError if the file cannot be read."""
    limits = limits or Limits()
    with path.open("rb") as file:
        _check_list_size(path, file, limits)
        with _damage(path, "", valid="an archive of `weir export`"):
            archive = zipfile.ZipFile(file)
        with archive:
            yield OpenArchive(path, archive, limits)


@contextmanager
def _damage(path: Path, member: str, valid: str = "another copy") -> Iterator[None]:
    """Turn what zipfile raises for damaged archives into ArchiveError."""
    try:
        yield
    except ArchiveError:
        raise
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise ArchiveError(f"{path}: {member}: a place outside of the archive; valid: {valid}") from error
    except _DAMAGE as error:
        where = f"{path}: {member}" if member else f"{path}"
        raise ArchiveError(f"{where}: {error or type(error).__name__}; valid: {valid}") from error


def _check_list_size(path: Path, file: IO[bytes], limits: Limits) -> None:
    """Refuse a list of members that is longer than `limits` allow: zipfile reads all of it."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END.size - _LOCATOR_64.size - _END_64.size))
    tail = file.read(_END.size + _LOCATOR_64.size + _END_64.size)
    file.seek(0)
    if len(tail) < _END.size or tail[-_END.size :][:4] != _END_MAGIC:
        raise ArchiveError(f"{path}: not a whole zip without a comment; valid: an archive of `weir export`")
    list_bytes = _END.unpack(tail[-_END.size :])[5]
    if len(tail) == _END.size + _LOCATOR_64.size + _END_64.size:
        locator = tail[-_END.size - _LOCATOR_64.size :][:4]
        if locator == _LOCATOR_64_MAGIC and tail[:4] == _END_64_MAGIC:
            list_bytes = max(
                list_bytes if list_bytes != 0xFFFFFFFF else 0, _END_64.unpack(tail[: _END_64.size])[8]
            )
    if list_bytes > min(size, limits.members * _LIST_BYTES_PER_MEMBER):
        raise ArchiveError(
            f"{path}: a list of files of {list_bytes} bytes; valid: at most {limits.members} files"
        )


def _checked(path: Path, infos: list[zipfile.ZipInfo], limits: Limits) -> dict[str, zipfile.ZipInfo]:
    """The files of an archive by name, without entries of folders. Raises ArchiveError."""
    if len(infos) > limits.members:
        raise ArchiveError(f"{path}: {len(infos)} files; valid: at most {limits.members}")
    found: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        problem = _problem(info)
        if problem is not None:
            raise ArchiveError(
                f"{path}: {info.orig_filename!r}: {problem}; valid: an archive of `weir export`"
            )
        if info.is_dir():
            continue
        if info.filename in found:
            raise ArchiveError(f"{path}: {info.filename!r}: twice in the archive; valid: one file of a name")
        found[info.filename] = info
    total = sum(info.file_size for info in found.values())
    if total > limits.total_bytes:
        raise ArchiveError(
            f"{path}: {total / GB:.1f} GB unpacked; valid: at most {limits.total_bytes / GB:g} GB, "
            "or a larger --max-size"
        )
    for name in found:
        for parent in PurePosixPath(name).parents:
            if str(parent) in found:
                raise ArchiveError(f"{path}: {str(parent)!r}: a file and a folder; valid: one of them")
    return found


def _problem(info: zipfile.ZipInfo) -> str | None:
    """Why a member is refused; None if it is not."""
    if info.orig_filename != info.filename:
        return "a NUL or another separator in its name"
    problem = layout.problem_of(info.filename.removesuffix("/"))
    if problem is not None:
        return problem
    mode = info.external_attr >> 16
    kind = stat.S_IFMT(mode)
    if kind not in (0, stat.S_IFDIR if info.is_dir() else stat.S_IFREG):
        return "a link, a device or another special file"
    if info.flag_bits & _ENCRYPTED:
        return "encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"compression method {info.compress_type}"
    if info.is_dir() and info.file_size:
        return "a folder with contents"
    return None


def _same_names(path: Path, members: Set[str], summed: Set[str]) -> None:
    if unsummed := sorted(members - summed):
        raise ArchiveError(
            f"{path}: {unsummed[0]}: has no checksum in {layout.SUMS}; valid: one for each file"
        )
    if missing := sorted(summed - members):
        raise ArchiveError(
            f"{path}: {missing[0]}: in {layout.SUMS}, but not in the archive; valid: another copy"
        )
