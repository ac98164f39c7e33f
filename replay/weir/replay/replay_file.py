# SPDX-License-Identifier: Apache-2.0
"""The replay file of captures: one connection or UDP flow of each, one after the other."""

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
    """The script of recorded traffic, and notes for its reader."""

    script: Script
    notes: tuple[str, ...]

    @property
    def writes(self) -> int:
        """Writes of both ends in all blocks."""
        return sum(len(block.writes) for block in self.script.blocks)


def replay_of(captures: Sequence[Path], flow: str | None) -> Replay:
    """The replay of the connection `flow` of each capture; None: of the one with the most payload.

    Raises:
        ReplayError: a capture without data of TCP or UDP, without the flow, or with too many writes.
        CaptureError, OSError: a file that is no capture, or cannot be read.
    """
    chosen = [choose(path, recordings(segments(path)), flow) for path in captures]
    notes = tuple(
        f"{path}: no handshake of {recording.name}; the way to its ends is not known, and pauses include it"
        for path, recording in zip(captures, chosen, strict=True)
        if not recording.from_start
    )
    replay = Replay(_one_script(captures, chosen), notes)
    if replay.writes > MAX_WRITES:
        raise ReplayError(f"{replay.writes} writes in {len(captures)} captures; valid: at most {MAX_WRITES}")
    return replay


def _one_script(captures: Sequence[Path], chosen: Sequence[Recording]) -> Script:
    """The chosen recordings, one after the other."""
    scripts, about = [recording.script() for recording in chosen], _about(captures, chosen)
    if len(scripts) == 1:
        return replace(scripts[0], about=about)
    for path, recording, script in zip(captures, chosen, scripts, strict=True):
        if script.protocol == "udp":
            raise ReplayError(
                f"{path}: {recording.name} is of UDP, whose ends do not wait for each other; "
                "valid: one capture, or TCP connections only"
            )
    return joined(scripts, about)


def choose(path: Path, found: Sequence[Recording], flow: str | None) -> Recording:
    """The connection of that name in either direction, else the one with the most payload."""
    if not found:
        raise ReplayError(f"{path}: nothing of TCP or UDP with data; valid: a capture that has some")
    if flow is None:
        return found[0]
    for recording in found:
        if flow in (recording.name, "-".join(reversed(recording.name.split("-")))):
            return recording
    names = ", ".join(recording.name for recording in found[:_LISTED])
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    raise ReplayError(f"{path}: no connection {flow!r} with data; valid: {names}{more}")


def _about(captures: Sequence[Path], chosen: Sequence[Recording]) -> dict[str, Any]:
    """The origin of the file, for its first line; without the paths of this machine."""
    return {
        "captures": [path.name for path in captures],
        "connections": [recording.name for recording in chosen],
        "recorded_s": round(sum(recording.duration_s for recording in chosen), 6),
        **({"merged_s": MERGED_S} if any(isinstance(one, Connection) for one in chosen) else {}),
    }
