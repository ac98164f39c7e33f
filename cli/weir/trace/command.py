# SPDX-License-Identifier: Apache-2.0
"""`weir trace`: captures in, one replay file out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from weir.cli.errors import InputError
from weir.cli.files import write_whole
from weir.topo.script import MAX_WRITES, Script, joined
from weir.trace.recording import MERGED_S, Connection, Recording, recordings
from weir.trace.segments import segments

_LISTED = 10


def trace_command(
    captures: Sequence[Path], out: Path, *, flow: str | None, as_json: bool, console: Console
) -> int:
    """Write the replay file of a connection of each capture, one after the other; returns the exit code.

    Raises InputError for a capture without data of TCP or UDP or without the flow, CompressionError, OSError.
    """
    chosen = [choose(path, recordings(segments(path)), flow) for path in captures]
    script = _one_script(captures, chosen)
    writes = sum(len(block.writes) for block in script.blocks)
    if writes > MAX_WRITES:
        raise InputError(f"{writes} writes in {len(captures)} captures; valid: at most {MAX_WRITES}")
    write_whole(out, script.text.encode())
    notes = [
        f"{path}: no handshake of {recording.name}; the way to its ends is not known, and pauses include it"
        for path, recording in zip(captures, chosen, strict=True)
        if not recording.from_start
    ]
    if as_json:
        print(json.dumps(_summary(script, writes) | {"file": str(out), "notes": notes}))
        return 0
    for note in notes:
        console.print(f"weir: {note}", style="yellow", highlight=False, soft_wrap=True)
    console.print(
        f"{out}: {script.protocol}, server {script.bytes_of('server'):,} bytes, "
        f"client {script.bytes_of('client'):,} bytes, "
        f"{writes:,} writes in {len(script.blocks):,} blocks, recorded in {script.about['recorded_s']:g} s",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def _one_script(captures: Sequence[Path], chosen: Sequence[Recording]) -> Script:
    """What is chosen, one after the other."""
    scripts, about = [recording.script() for recording in chosen], _about(captures, chosen)
    if len(scripts) == 1:
        return replace(scripts[0], about=about)
    for path, recording, script in zip(captures, chosen, scripts, strict=True):
        if script.protocol == "udp":
            raise InputError(
                f"{path}: {recording.name} is of UDP, whose ends do not wait for each other; "
                "valid: one capture, or TCP connections only"
            )
    return joined(scripts, about)


def choose(path: Path, found: Sequence[Recording], flow: str | None) -> Recording:
    """The connection of that name in either direction, else the one with the most payload."""
    if not found:
        raise InputError(f"{path}: nothing of TCP or UDP with data; valid: a capture that has some")
    if flow is None:
        return found[0]
    for recording in found:
        if flow in (recording.name, "-".join(reversed(recording.name.split("-")))):
            return recording
    names = ", ".join(recording.name for recording in found[:_LISTED])
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    raise InputError(f"{path}: no connection {flow!r} with data; valid: {names}{more}")


def _about(captures: Sequence[Path], chosen: Sequence[Recording]) -> dict[str, Any]:
    """What the first line says of where the file is from; no addresses of a machine's folders."""
    return {
        "captures": [path.name for path in captures],
        "connections": [recording.name for recording in chosen],
        "recorded_s": round(sum(recording.duration_s for recording in chosen), 6),
        **({"merged_s": MERGED_S} if any(isinstance(one, Connection) for one in chosen) else {}),
    }


def _summary(script: Script, writes: int) -> dict[str, Any]:
    return {
        **script.about,
        "protocol": script.protocol,
        "server_bytes": script.bytes_of("server"),
        "client_bytes": script.bytes_of("client"),
        "blocks": len(script.blocks),
        "writes": writes,
        "sha256": script.sha256,
    }
