# SPDX-License-Identifier: Apache-2.0
"""The source of a kernel: Debian's package, downloaded if need be, or a tree of the user's."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from weir.kernel.commands import check_tools, raise_if_full, run_logged
from weir.kernel.errors import KernelError, KernelInputError
from weir.rundir.kernel import KernelSource

DEBIAN_SERIES = "6.12"
PACKAGE = f"linux-source-{DEBIAN_SERIES}"
INSTALLED = Path("/usr/src") / f"{PACKAGE}.tar.xz"
"""The tar file of the installed package."""

# More than half of the source is never part of a User-Mode Linux and is not unpacked. All Kconfig files are.
_UNUSED = (
    "*/arch/[!ux]*/*.[chS]",
    "*/arch/*.dts*",
    "*/drivers/accel/*.[ch]",
    *(f"*/drivers/{name}/*.[ch]" for name in ("clk", "gpu", "iio", "infiniband", "media", "pinctrl", "scsi")),
    *(f"*/drivers/{name}/*.[ch]" for name in ("soc", "staging", "usb", "net/ethernet", "net/wireless")),
    *(f"*/Documentation/*.{ending}" for ending in ("rst", "txt", "yaml", "svg", "json")),
    "*/sound/*.[ch]",
    "*/tools/perf/*.[chs]*",
    "*/tools/testing/*.[chs]*",
)
_TREE_FILES = ("Makefile", "Kconfig", "arch/um/Kconfig", "net/ipv4/Kconfig", "scripts/kconfig/Makefile")
_MAKEFILE_VERSION = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *=[ \t]*(\S*)", re.MULTILINE)


class Source(Protocol):
    """A source, before it is unpacked."""

    @property
    def record(self) -> KernelSource:
        """Its origin and digest."""

    @property
    def name(self) -> str:
        """The name of a kernel that is made of it, unless the user chooses one."""

    def unpack(self, folder: Path, log: Path, *, whole: bool) -> None:
        """Write the source into the empty `folder`; all of it, or (not `whole`) at least what is compiled."""


@dataclass(frozen=True)
class DebianSource:
    """The tar file of Debian's package."""

    tar_file: Path
    record: KernelSource
    name: str = DEBIAN_SERIES

    def unpack(self, folder: Path, log: Path, *, whole: bool) -> None:
        """Unpack it: all of it for patches of the user's, which may touch any file."""
        check_tools(["tar", "xz"])
        left_out = [] if whole else [f"--exclude={pattern}" for pattern in _UNUSED]
        command = ["tar", "--extract", "--xz", f"--file={self.tar_file}", "--strip-components=1", *left_out]
        if run_logged(command, log, folder=folder) != 0:
            raise_if_full(log, folder)
            raise KernelError(f"{self.tar_file} cannot be unpacked: {_last_line(log.read_text())}")


@dataclass(frozen=True)
class TreeSource:
    """A source tree of the user's."""

    path: Path
    record: KernelSource
    name: str

    def unpack(self, folder: Path, log: Path, *, whole: bool) -> None:
        """Copy it, always whole: a build leaves the user's tree as it is."""
        for file in _files(self.path):
            copy = folder / file.relative_to(self.path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy, follow_symlinks=False)


def tree_source(path: Path) -> TreeSource:
    """The tree at `path`, with the digest of all its files. Raises KernelInputError."""
    path = path.absolute()
    if not path.is_dir():
        raise KernelInputError(f"{path}: no such folder; valid: the folder of a kernel's source")
    missing = [name for name in _TREE_FILES if not (path / name).is_file()]
    if missing:
        raise KernelInputError(
            f"{path} holds no source of Linux: it has no {missing[0]}; valid: a tree with arch, net, …"
        )
    if any((path / name).exists() for name in (".config", "include/config", "arch/um/include/generated")):
        raise KernelInputError(
            f"{path} holds a build, which would get into this one; "
            f"remove it with: make -C {path} ARCH=um mrproper"
        )
    if re.search(r"[\s:]", str(path)):
        raise KernelInputError(f"{str(path)!r}: Linux is not built in a path with spaces or colons")
    record = KernelSource(kind="tree", origin=path.name, sha256=_digest_of_tree(path))
    return TreeSource(path, record, version_of(path))


def debian_source(folder: Path) -> DebianSource:
    """Debian's source: as installed, else from `folder`, into which it is downloaded if it is not there.

    Raises KernelError.
    """
    if INSTALLED.is_file():
        return _debian_source(INSTALLED, _installed_version())
    kept = sorted(folder.glob(f"{PACKAGE}_*.tar.xz"), key=lambda path: path.stat().st_mtime)
    tar_file = kept[-1] if kept else _download(folder)
    return _debian_source(tar_file, tar_file.name.removeprefix(f"{PACKAGE}_").removesuffix(".tar.xz"))


def version_of(tree: Path) -> str:
    """The version that the Makefile of a tree states, such as 6.12.117 or 6.14.0-rc3."""
    found: dict[str, str] = dict(_MAKEFILE_VERSION.findall((tree / "Makefile").read_text(errors="replace")))
    if "VERSION" not in found or "PATCHLEVEL" not in found:
        raise KernelInputError(
            f"{tree}/Makefile states no version of Linux; valid: the folder of a kernel's source"
        )
    numbers = (found["VERSION"], found["PATCHLEVEL"], found.get("SUBLEVEL") or "0")
    return ".".join(numbers) + found.get("EXTRAVERSION", "")


def _debian_source(tar_file: Path, version: str) -> DebianSource:
    with tar_file.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    origin = f"{PACKAGE} {version}".strip()
    return DebianSource(tar_file, KernelSource(kind="debian", origin=origin, sha256=digest))


def _installed_version() -> str:
    try:
        command = ["dpkg-query", "--show", "--showformat=${Version}", PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _download(folder: Path) -> Path:
    """Download Debian's package into `folder`, which no root is needed for; returns its tar file."""
    other = "another source is given with --source DIR"
    try:
        check_tools(["apt-get", "dpkg-deb"])
    except KernelError as error:
        raise KernelError(f"{PACKAGE} is a package of Debian, which this is not ({error}); {other}") from None
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="download-", dir=folder) as scratch:
        where, log = Path(scratch), Path(scratch, "log")
        # As root, apt downloads as another user, who has to be able to write there.
        command = ["apt-get", "download", "-o", "APT::Sandbox::User=root", PACKAGE]
        if run_logged(command, log, folder=where) != 0:
            raise_if_full(log, folder)
            raise KernelError(
                f"apt-get cannot download {PACKAGE}: {_last_line(log.read_text())}; "
                f"if its lists are old: sudo apt-get update; {other}"
            )
        package = next(where.glob(f"{PACKAGE}_*.deb"))
        if run_logged(["dpkg-deb", "--extract", package.name, "."], log, folder=where) != 0:
            raise_if_full(log, folder)
            raise KernelError(f"{package.name} cannot be unpacked: {_last_line(log.read_text())}")
        version = package.name.split("_")[1].replace("%3a", ":")
        unpacked = where / INSTALLED.relative_to("/")
        return unpacked.rename(folder / f"{PACKAGE}_{version}.tar.xz")


def _files(tree: Path) -> Iterator[Path]:
    """All files of a tree, and links, without git's."""
    for folder, folders, names in os.walk(tree):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if Path(folder, name).is_symlink()]
        yield from (Path(folder, name) for name in sorted([*names, *links]) if name != ".git")


def _digest_of_tree(tree: Path) -> str:
    total = hashlib.sha256()
    for path in _files(tree):
        if path.is_symlink():
            content = hashlib.sha256(str(path.readlink()).encode())
        else:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256")
        total.update(f"{path.relative_to(tree)}\0{content.hexdigest()}\n".encode(errors="surrogateescape"))
    return total.hexdigest()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E: ")]
    return (errors or lines or ["it printed nothing"])[-1].removeprefix("E: ")
