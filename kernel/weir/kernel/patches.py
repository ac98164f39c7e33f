# SPDX-License-Identifier: Apache-2.0
"""Patches of a kernel's source: read once, applied with patch(1), and refused as a whole with a reason."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.kernel.commands import raise_if_full, run_logged
from weir.kernel.errors import KernelInputError
from weir.rundir.kernel import KernelPatch

_FILE = re.compile(r"^(?:patching|checking) file (.+?)(?: \(.*\))?$")
_HUNK = re.compile(r"^Hunk #(\d+) FAILED at (\d+)")
_MISSING = re.compile(r"^\|\+\+\+ ([^\t\n]+)")


SEED_PATCH = Path(__file__).with_name("seed.patch")
"""weir's patch: all entropy of a guest follows from a seed, so that a run can be repeated."""
AMX_PATCH = Path(__file__).with_name("amx.patch")
"""For kernels before 6.13, whose guests do not boot on hosts with AMX."""


@dataclass(frozen=True)
class Patch:
    """A patch file, with its content at the start of the build."""

    path: Path
    content: bytes

    @property
    def record(self) -> KernelPatch:
        """Its name and digest."""
        return KernelPatch(file=self.path.name, sha256=hashlib.sha256(self.content).hexdigest())


def read_patch(path: Path) -> Patch:
    """Read a patch file. Raises KernelInputError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise KernelInputError(f"{path}: {error.strerror}; valid: a readable patch") from None
    if b"\n+++ " not in b"\n" + content:
        raise KernelInputError(
            f"{path} is no patch; valid: a unified diff, as `git diff` or `diff -u` make it"
        )
    return Patch(path, content)


def apply_patches(patches: Sequence[Patch], tree: Path, scratch: Path, log: Path) -> None:
    """Apply the patches in order, each as with `patch -p1`. Raises KernelInputError for the first that fails.

    `scratch` is a folder for their content, which may have changed on disk since they were read.
    """
    for number, patch in enumerate(patches):
        copy = scratch / f"{number}.patch"
        copy.write_bytes(patch.content)
        lines: list[str] = []
        options = ["--strip=1", "--batch", "--forward", "--no-backup-if-mismatch", "--reject-file=-"]
        if run_logged(["patch", *options, f"--input={copy}"], log, lines.append, folder=tree) != 0:
            raise_if_full(log, tree)
            raise KernelInputError(f"{patch.path} does not apply to this source: {why_not(lines)}")


def applies(patch: Patch, tree: Path, scratch: Path, log: Path) -> bool:
    """Whether all of a patch applies to the tree, which is not changed."""
    copy = scratch / "tried.patch"
    copy.write_bytes(patch.content)
    options = ["--strip=1", "--batch", "--forward", "--dry-run"]
    return run_logged(["patch", *options, f"--input={copy}"], log, folder=tree) == 0


def why_not(lines: Sequence[str]) -> str:
    """The reason for a failure in the output of patch(1): its first file and hunk that failed."""
    file, asked = "", ""
    for line in lines:
        if found := _FILE.match(line):
            file = found[1]
        elif found := _MISSING.match(line):
            asked = found[1]
        elif line.startswith("Reversed (or previously applied) patch detected"):
            return f"{file} has this change already"
        elif found := _HUNK.match(line):
            return f"hunk {found[1]} of {file} (line {found[2]})"
        elif line.startswith("No file to patch"):
            return f"there is no file {asked.partition('/')[2] or asked}"
    said = [line.strip() for line in lines if line.strip()]
    return said[-1].removeprefix("patch: **** ") if said else "patch printed nothing"
