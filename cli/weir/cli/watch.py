# SPDX-License-Identifier: Apache-2.0
"""`weir watch`: keeps a switch configured for an experiment, and logs events."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from weir.cli import options

if TYPE_CHECKING:
    from weir.cli.switch_job import Job
    from weir.controlplane.keeper import Event


def watch(
    config: options.Experiment,
    switch: options.Switch = None,
    device_id: options.DeviceId = None,
    election_id: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.LARGEST_ELECTION_ID,
            help="No two controllers have the same; the highest is primary. By default 2, and 1 of a backup.",
        ),
    ] = None,
    phase: options.PhaseName = None,
    backup: Annotated[
        bool, typer.Option("--backup", help="Wait until no other controller is there.")
    ] = False,
    load_pipeline: options.LoadPipeline = False,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append each event to this file, a JSON object a line."),
    ] = None,
    thrift_port: options.ThriftPort = None,
    compiled: options.Compiled = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    as_json: options.AsJson = False,
) -> int:
    """Keep a running switch as an experiment says, until Ctrl-C.

    Connects again and configures anew after the switch was gone, gives learned flows their buckets, and says
    when counters began anew. With --backup it takes over, without touching the tables, when the primary dies.
    """
    from weir.cli.switch_job import job_of_options

    election_id = election_id or (options.BACKUP_ID if backup else options.PRIMARY_ID)
    job = job_of_options(config, phase, switch, device_id, election_id, (tls_ca, tls_cert, tls_key), compiled)
    return watch_command(
        job,
        backup=backup,
        load_pipeline=load_pipeline,
        log=log,
        thrift_port=thrift_port,
        as_json=as_json,
        console=Console(),
    )


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
    """Keep the switch configured until Ctrl-C; prints events and writes them to ``log`` as JSON lines.

    A failed write to the log does not stop the watch; the events are still printed.

    Raises:
        InputError: the experiment sets queues of a bmv2, but `thrift_port` is None.
        ControlPlaneError: an error that a retry cannot fix.
        OSError: the log cannot be opened.
    """
    import asyncio

    from weir.controlplane.keeper import Keeper

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

    async def configure_queues() -> None:
        await asyncio.to_thread(job.set_queues, thrift_port)

    try:
        keeper = Keeper(
            job.endpoint.address,
            job.control,
            job.phase,
            say,
            backup=backup,
            load_pipeline=load_pipeline,
            beside=configure_queues,
        )
        asyncio.run(keeper.run())
    finally:
        if lines is not None:
            lines.close()
    return 0


class EventLog:
    """A file of lines. Lines that cannot be written are kept in memory and written later."""

    def __init__(self, path: Path) -> None:
        """Append to a file. Raises OSError when it cannot be opened."""
        self._file = path.open("ab", buffering=0)
        self._kept = b""
        self._failed = False

    def write(self, line: str) -> None:
        """Append the kept lines and this one; prints on stderr the first of successive failures."""
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
        """Close the file. Lines still kept are lost; `watch_command` has printed them."""
        self._file.close()
