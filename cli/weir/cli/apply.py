# SPDX-License-Identifier: Apache-2.0
"""`weir apply`: configures a running switch for an experiment."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

from weir.cli import options
from weir.controlplane.errors import ControlPlaneError, HalfwayError

if TYPE_CHECKING:
    from weir.cli.switch_job import Job
    from weir.controlplane.entities import Changes


def apply(
    config: options.Experiment,
    switch: options.Switch = None,
    device_id: options.DeviceId = None,
    election_id: options.ElectionId = options.PRIMARY_ID,
    phase: options.PhaseName = None,
    load_pipeline: options.LoadPipeline = False,
    thrift_port: options.ThriftPort = None,
    compiled: options.Compiled = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    as_json: options.AsJson = False,
) -> int:
    """Make a running switch what an experiment says: write what differs, and read it back.

    A second apply changes nothing. Where the switch can, all of it happens between two packets; else in an
    order that leaves no traffic unpoliced. What fails half-way says how far it came.
    """
    from weir.cli.switch_job import job_of_options

    job = job_of_options(config, phase, switch, device_id, election_id, (tls_ca, tls_cert, tls_key), compiled)
    return apply_command(
        job, load_pipeline=load_pipeline, thrift_port=thrift_port, as_json=as_json, console=Console()
    )


def apply_command(
    job: Job, *, load_pipeline: bool, thrift_port: int | None, as_json: bool, console: Console
) -> int:
    """Write the differences between phase and switch, read them back, and print them.

    Raises:
        InputError: the experiment sets queues of a bmv2, but `thrift_port` is None.
        ControlPlaneError: the switch cannot be reached, rejects an update, or reads back other values.
    """
    import asyncio

    from weir.cli.changes import show

    job.check_queues(thrift_port)

    async def apply() -> tuple[bool, Changes]:
        async with job.control() as control:
            runs = await control.runs_pipeline(or_another=load_pipeline)
            if not runs:
                await control.push_pipeline()
                # Printed at once, because the next steps may fail.
                print("weir: the pipeline was loaded", file=sys.stderr)
            return not runs, await control.apply(job.phase)

    pushed, update = asyncio.run(apply())
    try:
        job.set_queues(thrift_port)
    except ControlPlaneError as error:
        state = "its tables and meters are as planned, its queues may not be; valid: apply again"
        raise HalfwayError(error, state) from error
    show(job, "apply", {"pipeline_pushed": pushed}, update, as_json, console)
    return 0
