# SPDX-License-Identifier: Apache-2.0
"""Builds a kernel: source, patches, configuration, make, a first boot. The store gets it whole or not."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import resource
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from weir.kernel import configuration
from weir.kernel.boot import first_boot
from weir.kernel.commands import check_tools, raise_if_full, reason_of, run_logged
from weir.kernel.configuration import (
    as_config,
    check_options,
    kconfig_with_hz,
    requested_options,
    set_options,
)
from weir.kernel.debian import debian_source, suite_source
from weir.kernel.errors import KernelError, KernelInputError
from weir.kernel.patches import AMX_PATCH, SEED_PATCH, Patch, applies, apply_patches, read_patch
from weir.kernel.source import Source, tree_source
from weir.kernel.store import CONFIG, LOG, PROGRAM, RECORD, KernelStore, StoredKernel, check_name
from weir.rundir.kernel import Kernel, KernelBuild
from weir.rundir.whole_files import write_whole

RECIPE = 2
"""Counted up when this module builds other kernels of the same inputs."""
OBJECTS = 790
"""About as many as Linux 6.12 has, until a kernel has been built here."""
_TOOLS = ("gcc", "make", "flex", "bison", "bc")
_COMPILED = re.compile(r"^  (?:CC|AS|HOSTCC) ")
# User-Mode Linux is compiled for code anywhere in memory, in which each call goes through a register. That is
# for modules; a kernel without them is linked below 2 GiB.
_COMPILER_FLAGS = "-mcmodel=small"
_FREE_BYTES = 1_000_000_000
_FREE_BYTES_WHOLE = 2_700_000_000


class BuildProgress(Protocol):
    """Receives the progress of a build."""

    def step(self, text: str) -> None:
        """A step begins, such as "unpacking the source"."""

    def compiled(self, objects: int, of_about: int) -> None:
        """So many objects are compiled, of about so many."""


@dataclass(frozen=True)
class Order:
    """The kernel that the user wants."""

    source: Path | None = None
    """A tree; None for Debian's package."""
    patches: tuple[Path, ...] = ()
    name: str | None = None
    """None for a name after the source and the patches."""
    jobs: int = 1
    suite: str | None = None
    """The release of Debian with that package; None for Linux 6.12 of the user's own."""


@dataclass(frozen=True)
class Outcome:
    """The kernel of an order, and whether it was built for it or there before."""

    kernel: StoredKernel
    is_new: bool


def build_kernel(order: Order, store: KernelStore, progress: BuildProgress) -> Outcome:
    """Build the kernel of an order unless the store has one of the same inputs; gives it its name.

    Raises KernelInputError, KernelError, OSError (ENOSPC if the disk is full).
    """
    if order.name is not None:
        check_name(order.name)
    check_tools([*_TOOLS, "patch"])
    patches = [read_patch(path) for path in order.patches]
    progress.step("reading the source")
    source = _source(order, store)
    name = order.name or "+".join([source.name, *(_stem(patch.path) for patch in patches)])
    check_name(name)
    digest = inputs_digest(source, patches)
    stored = store.built(digest)
    if stored is not None:
        return Outcome(store.give_name(stored, name), is_new=False)
    with store.building() as folder:
        log = folder / LOG
        log.touch()
        try:
            finished = _build(source, patches, digest, folder, order.jobs, store, progress)
        except Exception:
            kept = store.log_of(digest)
            kept.parent.mkdir(parents=True, exist_ok=True)
            log.replace(kept)
            raise
        stored = store.keep(finished, digest)
    return Outcome(store.give_name(stored, name), is_new=True)


def _source(order: Order, store: KernelStore) -> Source:
    if order.source is not None and order.suite is not None:
        raise KernelInputError("a tree (--source) has no suite of Debian (--suite); valid: one of the two")
    if order.source is not None:
        return tree_source(order.source)
    if order.suite is not None:
        return suite_source(store.sources, order.suite)
    return debian_source(store.sources)


def inputs_digest(source: Source, patches: Sequence[Patch]) -> str:
    """The digest of all that determines a kernel, except for the compiler."""
    inputs = {
        "recipe": RECIPE,
        "source": source.record.sha256,
        "patches": [patch.record.sha256 for patch in patches],
        "seed_patch": read_patch(SEED_PATCH).record.sha256,
        "amx_patch": read_patch(AMX_PATCH).record.sha256,
        "options": configuration.read_fragment() | {"CONFIG_HZ": str(configuration.HZ)},
    }
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def _build(
    source: Source,
    patches: Sequence[Patch],
    digest: str,
    folder: Path,
    jobs: int,
    store: KernelStore,
    progress: BuildProgress,
) -> Path:
    """Build in `folder`; returns the folder of the finished kernel below it."""
    began, before = time.monotonic(), _processor_s()
    log, kept_log = folder / LOG, store.log_of(digest)
    is_whole = bool(patches) or source.record.kind == "tree"
    _check_room(folder, _FREE_BYTES_WHOLE if is_whole else _FREE_BYTES)
    progress.step("unpacking the source" if source.record.kind == "debian" else "copying the source")
    unpacked, objects, finished = folder / "source", folder / "objects", folder / "finished"
    for made in (unpacked, objects, finished):
        made.mkdir()
    source.unpack(unpacked, log, whole=bool(patches))
    tree = unpacked
    if patches:
        progress.step("applying patches")
        apply_patches(patches, tree, folder, log)
    # After the user's, which may have changed the same lines.
    seed_patch = read_patch(SEED_PATCH)
    is_seeded = applies(seed_patch, tree, folder, log)
    if is_seeded:
        apply_patches([seed_patch], tree, folder, log)
    amx_patch = read_patch(AMX_PATCH)
    if applies(amx_patch, tree, folder, log):
        apply_patches([amx_patch], tree, folder, log)

    progress.step("configuring")
    make = ["make", "-C", str(tree), f"O={objects}", "ARCH=um", f"KBUILD_KCONFIG={folder / 'Kconfig'}"]
    make.append(f"KCFLAGS={_COMPILER_FLAGS}")
    requested = requested_options(tree)
    (folder / "Kconfig").write_text(kconfig_with_hz(tree))
    (folder / "requested").write_text(as_config(requested))
    command = [*make, f"KCONFIG_ALLCONFIG={folder / 'requested'}", "allnoconfig"]
    if run_logged(command, log, folder=folder) != 0:
        raise _failure("the source cannot be configured", log, kept_log, folder)
    config = (objects / ".config").read_text()
    check_options(requested, config, tree)

    progress.step("compiling")
    counter = _Counter(progress, _objects_before(store))
    if run_logged([*make, f"-j{jobs}", "linux"], log, counter.read, folder=folder) != 0:
        raise _failure("the source does not compile", log, kept_log, folder)
    shutil.copy2(objects / "linux", finished / PROGRAM)
    (finished / CONFIG).write_text(config)

    progress.step("booting")
    found, again = (first_boot(finished / PROGRAM, folder, kept_log) for _ in range(2))
    log.rename(finished / LOG)
    log.touch()  # until the folder is removed
    program = (finished / PROGRAM).read_bytes()
    options = set_options(config)
    record = Kernel(
        schema_version=1,
        version=found.version,
        source=source.record,
        patches=tuple(patch.record for patch in patches),
        seed_patch=seed_patch.record if is_seeded else None,
        repeatable=found.entropy is not None and found.entropy == again.entropy,
        congestion_controls=tuple(sorted(found.congestion_controls)),
        inputs_sha256=digest,
        config_sha256=hashlib.sha256(as_config(options).encode()).hexdigest(),
        config=tuple(f"{name}={value}" for name, value in options.items()),
        program_sha256=hashlib.sha256(program).hexdigest(),
        compiler=options.get("CONFIG_CC_VERSION_TEXT", "").strip('"'),
        build=KernelBuild(
            wall_s=round(time.monotonic() - began, 1),
            processor_s=round(_processor_s() - before, 1),
            objects=counter.objects,
        ),
    )
    data = record.model_dump(mode="json", by_alias=True, exclude_none=True)
    write_whole(finished / RECORD, (json.dumps(data, indent=2) + "\n").encode())
    progress.step("removing the source")  # of a whole tree this takes minutes on a busy disk
    return finished


class _Counter:
    """Counts the objects that make reports."""

    def __init__(self, progress: BuildProgress, of_about: int) -> None:
        self._progress, self._of_about = progress, of_about
        self.objects = 0

    def read(self, line: str) -> None:
        if _COMPILED.match(line):
            self.objects += 1
            self._progress.compiled(self.objects, max(self._of_about, self.objects))


def _failure(what: str, log: Path, kept_log: Path, folder: Path) -> KernelError:
    raise_if_full(log, folder)
    reason = reason_of(log).replace(f"{folder}/source/", "").replace(f"{folder}/objects/", "")
    return KernelError(f"{what}: {reason}; log: {kept_log}")


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        room = f"a kernel's build needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free"
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {room}", str(folder.parents[1]))


def _objects_before(store: KernelStore) -> int:
    """As many as the newest kernel had."""
    newest = max(store.kernels(), key=lambda kernel: kernel.folder.stat().st_mtime, default=None)
    return OBJECTS if newest is None else newest.record.build.objects


def _processor_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _stem(path: Path) -> str:
    """The name of a patch file as part of a kernel's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-.") or "patch"
