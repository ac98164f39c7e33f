# SPDX-License-Identifier: Apache-2.0
"""What an owner of a Tofino loads, in a folder: `weir apply --compiled FOLDER` needs no compiler.

In: the folder that p4c-barefoot and bfas wrote. Out: of its files those that are loaded, and their
`provenance.json`.
Context and binary have the date of their making in them and are megabytes, so they are not committed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tofino

PROVENANCE = "provenance.json"
BF_RT = "bf-rt.json"


def files(name: str, chip: tofino.Chip) -> tuple[str, ...]:
    """Paths in the folder of the files of a program: its parts' list, schema, P4Info, context and binary."""
    return (
        "manifest.json",
        BF_RT,
        f"{name}.p4info.txtpb",
        "pipe/context.json",
        f"pipe/{chip.target}.bin",
    )


def leave(name: str, chip: tofino.Chip, compiled: Path, folder: Path, made_of: Mapping[str, Any]) -> None:
    """Put a compiled program into a folder, over an earlier one; `made_of` is compiler and sources."""
    (folder / PROVENANCE).unlink(missing_ok=True)
    for path in files(name, chip):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(compiled / path, folder / path)
    record = {**made_of, "outputs": _digests(name, chip, folder)}
    (folder / PROVENANCE).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")


def is_left(name: str, chip: tofino.Chip, folder: Path, made_of: Mapping[str, Any]) -> bool:
    """Whether the folder has the program of this compiler and these sources, whole and unchanged."""
    record = folder / PROVENANCE
    if not record.is_file() or not all((folder / path).is_file() for path in files(name, chip)):
        return False
    found: Any = json.loads(record.read_text())
    return bool(found == {**made_of, "outputs": _digests(name, chip, folder)})


def _digests(name: str, chip: tofino.Chip, folder: Path) -> dict[str, str]:
    return {path: hashlib.sha256((folder / path).read_bytes()).hexdigest() for path in files(name, chip)}
