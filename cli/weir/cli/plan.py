# SPDX-License-Identifier: Apache-2.0
"""`weir plan`: shows the differences between a running switch and an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from weir.cli import options

if TYPE_CHECKING:
    from weir.cli.switch_job import Job
    from weir.controlplane.entities import Changes


def plan(
    config: options.Experiment,
    switch: options.Switch = None,
    device_id: options.DeviceId = None,
    phase: options.PhaseName = None,
    compiled: options.Compiled = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    as_json: options.AsJson = False,
) -> int:
    """Show what differs between an experiment and a running switch; nothing is changed.

    Also shows each policer's rate and burst as the target makes them, with a warning above 1 %.
    """
    from weir.cli.switch_job import job_of_options

    job = job_of_options(config, phase, switch, device_id, 1, (tls_ca, tls_cert, tls_key), compiled)
    return plan_command(job, as_json=as_json, console=Console())


def plan_command(job: Job, *, as_json: bool, console: Console) -> int:
    """Show what `apply_command` would write; only reads the switch. Raises ControlPlaneError."""
    import asyncio

    from weir.cli.changes import show

    async def difference() -> tuple[bool, Changes]:
        async with job.control("reader") as control:
            if not await control.runs_pipeline(or_another=True):
                return False, await control.difference_when_loaded(job.phase)
            return True, await control.difference(job.phase)

    runs, update = asyncio.run(difference())
    show(job, "plan", {"pipeline_loaded": runs}, update, as_json, console)
    return 0
