# SPDX-License-Identifier: Apache-2.0
"""`weir watch`: keeps a switch as an experiment says, and writes down what happened meanwhile."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from rich.console import Console

from weir.cli.switch_args import Job
from weir.controlplane.keeper import Event, Keeper


def watch_command(
    job: Job, *, backup: bool, load_pipeline: bool, log: Path | None, as_json: bool, console: Console
) -> int:
    """Keep the switch until Ctrl-C; events go to the terminal and, one JSON object a line, to ``log``.

    Raises:
        ControlPlaneError: what only a person can mend.
        OSError: the log cannot be written; the switch stays as it is.
    """
    lines = None if log is None else log.open("a", encoding="utf-8", buffering=1)

    def say(event: Event) -> None:
        text = json.dumps(event.as_dict())
        if lines is not None:
            lines.write(text + "\n")
        if as_json:
            print(text, flush=True)
        else:
            details = ", ".join(f"{name} {value}" for name, value in event.details.items())
            console.print(f"{event.kind}: {details}", markup=False, highlight=False, soft_wrap=True)

    try:
        keeper = Keeper(
            job.where.address, job.control, job.phase, say, backup=backup, load_pipeline=load_pipeline
        )
        asyncio.run(keeper.run())
    finally:
        if lines is not None:
            lines.close()
    return 0
