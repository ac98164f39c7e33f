# SPDX-License-Identifier: Apache-2.0
"""The record of a kernel: `kernel.json` beside its program, and part of the manifest of its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from weir.rundir.record import Record, read_record


class KernelSource(Record):
    """The unpatched source."""

    kind: Literal["debian", "tree"]
    origin: str
    """Debian's package with its version, or the name of the tree's folder."""
    sha256: str
    """Of Debian's tar file; of the sorted paths and contents of a tree."""


class KernelPatch(Record):
    """A patch that was applied to the source."""

    file: str
    sha256: str


class KernelBuild(Record):
    """The cost of the build."""

    wall_s: float
    processor_s: float
    objects: int


class Kernel(Record):
    """A kernel that was built, and has booted."""

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    name: str | None = None
    """The name that it was looked up by; None in the file, because a kernel can have several."""
    version: str
    """As `uname -r` says inside."""
    source: KernelSource
    patches: tuple[KernelPatch, ...] = ()
    """In the order of their application."""
    seed_patch: KernelPatch | None = None
    """weir's patch, with which all entropy of the guest follows from a seed; None where it does not apply."""
    repeatable: bool = False
    """Whether two boots with the same seed drew the same random bytes."""
    congestion_controls: tuple[str, ...]
    """All that the booted kernel offers, sorted."""
    inputs_sha256: str
    """Of source, patches and options: the same inputs are not built again."""
    config_sha256: str
    config: tuple[str, ...]
    """The options that are set."""
    program_sha256: str
    compiler: str
    build: KernelBuild


def read_kernel(path: Path) -> Kernel:
    """Read a `kernel.json`. Raises RunFileError."""
    return read_record(path, Kernel)
