# SPDX-License-Identifier: Apache-2.0
"""Stores of kernels that were never built: records with digests and congestion controls, empty programs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from weir.kernel.store import KernelStore, StoredKernel


def digest_of(name: str) -> str:
    """The digest of a made-up kernel's inputs."""
    return name.encode().hex().ljust(64, "0")[:64]


def write_kernel(
    folder: Path, version: str, digest: str, congestion_controls: Iterable[str], config: Iterable[str] = ()
) -> Path:
    """Make a folder as a build leaves it, with an empty program."""
    folder.mkdir(parents=True)
    (folder / "linux").touch(mode=0o755)
    record = {
        "schema": 1,
        "version": version,
        "source": {"kind": "debian", "origin": "linux-source-6.12 6.12.117-1", "sha256": "0" * 64},
        "congestion_controls": sorted(congestion_controls),
        "inputs_sha256": digest,
        "config_sha256": "1" * 64,
        "config": ["CONFIG_HZ=1000", *config],
        "program_sha256": "2" * 64,
        "compiler": "gcc 12",
        "build": {"wall_s": 1.0, "processor_s": 2.0, "objects": 3},
    }
    (folder / "kernel.json").write_text(json.dumps(record))
    return folder


def add_kernel(
    folder: Path, name: str, congestion_controls: tuple[str, ...], config: Iterable[str] = ()
) -> StoredKernel:
    """Add a kernel of this name to the store in `folder`."""
    store = KernelStore(folder)
    made = write_kernel(folder / f"made-{name}", "6.12.117", digest_of(name), congestion_controls, config)
    return store.give_name(store.keep(made, digest_of(name)), name)
