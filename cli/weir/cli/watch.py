# SPDX-License-Identifier: Apache-2.0
"""`weir watch`: keeps a switch as an experiment says, and writes down what happened meanwhile."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from rich.console import Console

from weir.cli.switch_args import Job
from weir.controlplane.keeper import Event, Keeper
from weir.controlplane.targets.bmv2_queues import set_queues


def watch_command(
    job: Job,
    *,
    backup: bool,
    load_pipeline: bool,
    log: Path | None,
    thrift_port: int | None = None,
    as_json: bool,
    console: Console,
) -> int:
    """Keep the switch until Ctrl-C; events go to the terminal and, one JSON object a line, to ``log``.

    A log that cannot be written later ends nothing: the switch matters more, and the events are printed.

    Raises:
        InputError: a bmv2's queues are to be set, and nobody said where.
        ControlPlaneError: what only a person can mend.
        OSError: the log cannot be opened.
    """
    job.check_queues(thrift_port)
    lines = None if log is None else EventLog(log)

    def say(event: Event) -> None:
        text = json.dumps(event.as_dict())
        if lines is not None:
            lines.write(text)
        if as_json:
            print(text, flush=True)
        else:
            details = ", ".join(f"{name} {value}" for name, value in event.details.items())
            console.print(f"{event.kind}: {details}", markup=False, highlight=False, soft_wrap=True)

    async def beside() -> None:
        if thrift_port is not None:
            await asyncio.to_thread(set_queues, job.queues, thrift_port)

    try:
        keeper = Keeper(
            job.where.address,
            job.control,
            job.phase,
            say,
            backup=backup,
            load_pipeline=load_pipeline,
            beside=beside,
        )
        asyncio.run(keeper.run())
    finally:
        if lines is not None:
            lines.close()
    return 0


class EventLog:
    """A file of lines; what it cannot take is kept and written as soon as it can."""

    def __init__(self, path: Path) -> None:
        """Append to a file. Raises OSError when it cannot be opened."""
        self._file = path.open("ab", buffering=0)
        self._kept = b""
        self._failed = False

    def write(self, line: str) -> None:
        """Append a line, after those that are kept; says once on stderr when that does not go."""
        self._kept += line.encode() + b"\n"
        try:
            while self._kept:
                self._kept = self._kept[self._file.write(self._kept) :]
        except OSError as error:
            if not self._failed:
                print(f"weir: {self._file.name}: {error.strerror}; its events are kept", file=sys.stderr)
            self._failed = True
            return
        self._failed = False

    def close(self) -> None:
        """Close the file; what is kept has been printed."""
        self._file.close()
