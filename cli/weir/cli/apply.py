# SPDX-License-Identifier: Apache-2.0
"""`weir apply`: make a running switch what an experiment says."""

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
    switch: options.Switch = options.DEFAULT_SWITCH,
    device_id: options.DeviceId = 1,
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
    """Make the switch what the phase says, and read it back.

    Raises:
        InputError: a bmv2's queues are to be set, and nobody said where.
        ControlPlaneError: as its text says.
    """
    import asyncio

    from weir.cli.changes import show
    from weir.controlplane.targets.bmv2_queues import set_queues

    job.check_queues(thrift_port)

    async def apply() -> tuple[bool, Changes]:
        async with job.control() as control:
            runs = await control.runs_pipeline(or_another=load_pipeline)
            if not runs:
                await control.push_pipeline()
                # At once: what comes next may fail, and this is done.
                print("weir: the pipeline was loaded", file=sys.stderr)
            return not runs, await control.apply(job.phase)

    pushed, update = asyncio.run(apply())
    if thrift_port is not None:
        try:
            set_queues(job.queues, thrift_port)
        except ControlPlaneError as error:
            state = "its tables and meters are as planned, its queues may not be; valid: apply again"
            raise HalfwayError(error, state) from error
    show(job, "apply", {"pipeline_pushed": pushed}, update, as_json, console)
    return 0
