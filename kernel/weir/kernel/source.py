# SPDX-License-Identifier: Apache-2.0
"""The source of a kernel: what a build needs of one, and a tree of the user's (Debian's is in `debian`)."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from weir.kernel.errors import KernelInputError
from weir.rundir.kernel import KernelSource

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


def version_of(tree: Path) -> str:
    """The version that the Makefile of a tree states, such as 6.12.117 or 6.14.0-rc3."""
    found: dict[str, str] = dict(_MAKEFILE_VERSION.findall((tree / "Makefile").read_text(errors="replace")))
    if "VERSION" not in found or "PATCHLEVEL" not in found:
        raise KernelInputError(
            f"{tree}/Makefile states no version of Linux; valid: the folder of a kernel's source"
        )
    numbers = (found["VERSION"], found["PATCHLEVEL"], found.get("SUBLEVEL") or "0")
    return ".".join(numbers) + found.get("EXTRAVERSION", "")


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
