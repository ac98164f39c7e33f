# SPDX-License-Identifier: Apache-2.0
"""The folder of the kernels: built ones by the digest of their inputs, names as links to them.

kernels/
  built/<digest>/     linux (the program), kernel.json, config, build.log
  names/<name>        a link to a folder of built/
  sources/            Debian's source as a tar file; download-<random>/ while it is downloaded
  building/<random>/  a build that runs; left over only after kill -9, and removed by the next build
  logs/<digest>.log   the log of the newest failed build of these inputs
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from weir.kernel.errors import KernelInputError
from weir.rundir.errors import RunFileError
from weir.rundir.kernel import Kernel, read_kernel
from weir.rundir.scratch import scratch_folder
from weir.rundir.whole_files import replacing

PROGRAM, RECORD, CONFIG, LOG = "linux", "kernel.json", "config", "build.log"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_DIGITS = 16


@dataclass(frozen=True)
class StoredKernel:
    """A kernel in the store."""

    folder: Path
    record: Kernel

    @property
    def program(self) -> Path:
        """The kernel, an ordinary program of the host."""
        return self.folder / PROGRAM


def kernels_folder() -> Path:
    """`weir/kernels` in the user's cache folder (XDG_CACHE_HOME, by default ~/.cache).

    Raises KernelInputError if there is neither, for a user without a home.
    """
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(cache) if cache else Path.home() / ".cache") / "weir" / "kernels"
    except RuntimeError as error:
        raise KernelInputError(
            "kernels: the user has no home directory with ~/.cache (no HOME, no entry in /etc/passwd); "
            "valid: XDG_CACHE_HOME=DIR in the environment"
        ) from error


class KernelStore:
    """The kernels below one folder."""

    def __init__(self, folder: Path) -> None:
        """Open the store; `folder` need not exist."""
        self.folder = folder.absolute()
        self._built, self._names = self.folder / "built", self.folder / "names"
        self._building = self.folder / "building"
        self.sources = self.folder / "sources"

    def log_of(self, inputs_sha256: str) -> Path:
        """The file that keeps the log of a failed build."""
        return self.folder / "logs" / f"{inputs_sha256[:_DIGITS]}.log"

    def built(self, inputs_sha256: str) -> StoredKernel | None:
        """The kernel of these inputs, or None if it was not built."""
        return self._read(self._built / inputs_sha256[:_DIGITS])

    def find(self, name: str) -> StoredKernel:
        """The kernel of this name. Raises KernelInputError with the names that exist."""
        stored = self._read(self._names / name, name) if _NAME.fullmatch(name) else None
        if stored is None:
            names = [found.record.name for found in self.kernels() if found.record.name]
            valid = f"valid: {', '.join(names)}" if names else "none is built yet"
            raise KernelInputError(f"no kernel {name!r}; {valid}; build one with: weir kernel build")
        return stored

    def kernels(self) -> list[StoredKernel]:
        """A kernel per name, sorted, then those whose name another kernel has taken over."""
        named = [
            stored
            for link in sorted(self._names.glob("*"))
            if not link.name.endswith(".part") and (stored := self._read(link, link.name)) is not None
        ]
        known = {stored.folder for stored in named}
        others = (self._read(folder) for folder in sorted(self._built.glob("*")))
        return [*named, *(stored for stored in others if stored is not None and stored.folder not in known)]

    def give_name(self, stored: StoredKernel, name: str) -> StoredKernel:
        """Let `name` lead to a kernel, whatever it led to before; returns the kernel with that name."""
        check_name(name)
        self._names.mkdir(parents=True, exist_ok=True)
        with replacing(self._names / name) as link:
            link.unlink(missing_ok=True)
            link.symlink_to(Path("..", self._built.name, stored.folder.name))
        return StoredKernel(stored.folder, stored.record.model_copy(update={"name": name}))

    @contextmanager
    def building(self) -> Iterator[Path]:
        """An empty folder for a build, in the file system of the store; removed at the end, whatever happens.

        Also removes those of builds that were killed.
        """
        with scratch_folder(self._building, "") as folder:
            yield folder

    def keep(self, finished: Path, inputs_sha256: str) -> StoredKernel:
        """Move the folder of a finished kernel into the store, in one step; returns the stored kernel.

        If another process has stored the same inputs meanwhile, its kernel is returned.
        """
        target = self._built / inputs_sha256[:_DIGITS]
        self._built.mkdir(parents=True, exist_ok=True)
        if self._read(target) is None:
            shutil.rmtree(target, ignore_errors=True)  # a damaged one
            finished.rename(target)
        stored = self._read(target)
        assert stored is not None  # it was written by this version
        return stored

    def _read(self, folder: Path, name: str | None = None) -> StoredKernel | None:
        folder = folder.resolve()
        try:
            record = read_kernel(folder / RECORD)
        except RunFileError:
            return None
        if not os.access(folder / PROGRAM, os.X_OK):
            return None
        return StoredKernel(folder, record.model_copy(update={"name": name}))


def check_name(name: str) -> None:
    """Raise KernelInputError unless `name` can be the name of a kernel."""
    if not _NAME.fullmatch(name) or name.endswith(".part"):
        raise KernelInputError(
            f"{name!r} cannot be the name of a kernel; valid: letters, digits and . _ + -, at most 64, "
            "the first a letter or digit"
        )
