# SPDX-License-Identifier: Apache-2.0
"""Makes a replay file from captures: selects a connection or UDP flow of each, and concatenates them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weir.replay.errors import ReplayError
from weir.replay.recording import MERGED_S, Connection, Recording, recordings
from weir.replay.segments import segments
from weir.topo.script import MAX_WRITES, Script, joined

_LISTED = 10


@dataclass(frozen=True)
class Replay:
    """The script of recorded traffic, and notes about its accuracy."""

    script: Script
    notes: tuple[str, ...]

    @property
    def writes(self) -> int:
        """Number of writes of both ends."""
        return sum(len(block.writes) for block in self.script.blocks)


def replay_of(captures: Sequence[Path], flow: str | None) -> Replay:
    """The replay of the connection `flow` of each capture, by default the one with the most payload.

    Raises:
        ReplayError: a capture has no TCP or UDP data, or lacks the flow; or there are too many writes.
        CaptureError: a file is not a capture, or cannot be read.
    """
    notes: list[str] = []
    chosen = [choose(path, recordings(segments(path, notes)), flow) for path in captures]
    notes += [
        f"{path}: no handshake of {recording.name}; the way to its ends is not known, and pauses include it"
        for path, recording in zip(captures, chosen, strict=True)
        if not recording.from_start
    ]
    replay = Replay(_one_script(captures, chosen), tuple(notes))
    if replay.writes > MAX_WRITES:
        raise ReplayError(f"{replay.writes} writes in {len(captures)} captures; valid: at most {MAX_WRITES}")
    return replay


def _one_script(captures: Sequence[Path], chosen: Sequence[Recording]) -> Script:
    """The scripts of the chosen recordings, concatenated."""
    scripts, about = [recording.script() for recording in chosen], _about(captures, chosen)
    if len(scripts) == 1:
        return replace(scripts[0], about=about)
    for path, recording, script in zip(captures, chosen, scripts, strict=True):
        if script.protocol == "udp":
            raise ReplayError(
                f"{path}: {recording.name} is UDP, whose ends do not wait for each other; "
                "valid: one capture, or TCP connections only"
            )
    return joined(scripts, about)


def choose(path: Path, found: Sequence[Recording], flow: str | None) -> Recording:
    """The connection named `flow`, in either direction; for None the one with the most payload."""
    if not found:
        raise ReplayError(f"{path}: no TCP or UDP data; valid: a capture with some")
    if flow is None:
        return found[0]
    for recording in found:
        if flow in (recording.name, "-".join(reversed(recording.name.split("-")))):
            return recording
    names = ", ".join(recording.name for recording in found[:_LISTED])
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    raise ReplayError(f"{path}: no connection {flow!r} with data; valid: {names}{more}")


def _about(captures: Sequence[Path], chosen: Sequence[Recording]) -> dict[str, Any]:
    """Origin of the recording, for the file's first line; without folders, which are local."""
    return {
        "captures": [path.name for path in captures],
        "connections": [recording.name for recording in chosen],
        "recorded_s": round(sum(recording.duration_s for recording in chosen), 6),
        **({"merged_s": MERGED_S} if any(isinstance(one, Connection) for one in chosen) else {}),
    }
