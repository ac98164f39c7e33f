# SPDX-License-Identifier: Apache-2.0
"""Writes archives of any contents, right and hostile ones."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from weir.archive import layout
from weir_tests.archive.made_up_run import COMPLETE

MANIFEST = json.dumps(COMPLETE).encode()
FILES: Mapping[str, bytes] = {
    "README.md": b"# A run\n",
    "ro-crate-metadata.json": b"{}",
    "runs/demo/r1/manifest.json": MANIFEST,
    "runs/demo/r1/pcap/client.pcap": b"packets",
}
"""A small archive."""


def sums_of(files: Iterable[tuple[str, bytes]]) -> bytes:
    """The contents of SHA256SUMS."""
    return layout.sums_text((name, hashlib.sha256(data).hexdigest()) for name, data in files).encode()


def zip_of(
    files: Iterable[tuple[str | zipfile.ZipInfo, bytes]] | None = None, *, sums: bytes | None = None
) -> bytes:
    """An archive with these files in order, and with their checksums unless `sums` are others."""
    members = list(FILES.items() if files is None else files)
    named = [(name if isinstance(name, str) else name.filename, data) for name, data in members]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
        archive.writestr(layout.SUMS, sums_of(named) if sums is None else sums)
    return buffer.getvalue()


def written(path: Path, data: bytes) -> Path:
    """Write an archive to a file."""
    path.write_bytes(data)
    return path


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
