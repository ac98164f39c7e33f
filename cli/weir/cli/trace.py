# SPDX-License-Identifier: Apache-2.0
"""`weir trace`: makes a replay file from captures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from weir.cli import options
from weir.rundir.plural import plural
from weir.rundir.whole_files import write_whole

if TYPE_CHECKING:
    from weir.replay.replay_file import Replay


def trace(
    captures: options.Captures,
    out: options.OutFile,
    flow: Annotated[
        str | None,
        typer.Option("--flow", metavar="SRC:PORT-DST:PORT", help="A connection; by default the largest."),
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Make a replay file of recorded traffic: what both ends of a connection sent, and when.

    A flow of an experiment plays it with `replay: FILE`. Of TCP each end sends once what it waited for has
    arrived, spaced as recorded; of several captures, one connection each, one after the other. Of UDP (the
    flow then needs `protocol: udp`) each datagram goes when it was seen.
    """
    return trace_command(captures, out, flow=flow, as_json=as_json, console=Console())


def trace_command(
    captures: Sequence[Path], out: Path, *, flow: str | None, as_json: bool, console: Console
) -> int:
    """Write a replay file that plays a connection of each capture in order; returns the exit code.

    Raises what `replay_of` raises.
    """
    from weir.replay.replay_file import replay_of

    replay = replay_of(captures, flow)
    script = replay.script
    write_whole(out, script.text.encode())
    if as_json:
        print(json.dumps(_summary(replay) | {"file": str(out), "notes": replay.notes}))
        return 0
    for note in replay.notes:
        console.print(f"weir: {note}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"{out}: {script.protocol}, server {plural(script.bytes_of('server'), 'byte')}, "
        f"client {plural(script.bytes_of('client'), 'byte')}, "
        f"{plural(replay.writes, 'write')} in {plural(len(script.blocks), 'block')}, recorded in "
        f"{script.about['recorded_s']:g} s",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    return 0


def _summary(replay: Replay) -> dict[str, Any]:
    script = replay.script
    return {
        **script.about,
        "protocol": script.protocol,
        "server_bytes": script.bytes_of("server"),
        "client_bytes": script.bytes_of("client"),
        "blocks": len(script.blocks),
        "writes": replay.writes,
        "sha256": script.sha256,
    }
