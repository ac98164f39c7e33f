# SPDX-License-Identifier: Apache-2.0
"""Campaigns in virtual time: the kernels of their runs, and how many runs the machine's memory carries."""

from __future__ import annotations

import os
from dataclasses import replace

from weir.campaign.errors import CampaignError
from weir.campaign.load import Campaign, PlannedRun
from weir.rundir.plural import plural
from weir.runner.prepare import TimeChoice, virtual_time_of

OUTSIDE_MB = 300
"""Memory of a run's processes outside the guest: 180 MB beside it, 270 MB for the analysis after it, as
measured on 30 s of 20 Mbit/s."""


def with_kernels(campaign: Campaign, memory_mb: int) -> Campaign:
    """The campaign with the kernel of each run in virtual time, whose guest gets `memory_mb`.

    Raises KernelInputError, with the names that exist, if the store lacks one of the kernels.
    """
    found = {
        name: virtual_time_of(run.experiment, TimeChoice(memory_mb=memory_mb))
        for name, run in {_kernel(run): run for run in campaign.runs}.items()
    }
    return replace(
        campaign, runs=tuple(replace(run, virtual_time=found[_kernel(run)]) for run in campaign.runs)
    )


def _kernel(run: PlannedRun) -> tuple[str, str | None]:
    return run.experiment.time, run.experiment.kernel


def is_virtual(campaign: Campaign) -> bool:
    """Whether all its runs are in virtual time, so that none can disturb another."""
    return all(run.is_virtual for run in campaign.runs)


def kernel_digests(campaign: Campaign) -> dict[str, str]:
    """Digest of the inputs of each kernel that its runs need → name."""
    kernels = [run.virtual_time.kernel for run in campaign.runs if run.virtual_time is not None]
    return {kernel.inputs_sha256: str(kernel.name) for kernel in kernels}


def processors() -> int:
    """The cores that this process may use: as many runs in virtual time at once take no time from another."""
    return len(os.sched_getaffinity(0))


def jobs_in_memory(jobs: int, memory_mb: int, available_mb: int) -> tuple[int, str]:
    """The number of guests at a time, at most `jobs`, and a sentence if memory allows fewer (else empty).

    Raises CampaignError if there is no memory for one.
    """
    needed_mb = memory_mb + OUTSIDE_MB
    fitting = available_mb // needed_mb
    if fitting < 1:
        raise CampaignError(
            f"a run in virtual time needs {needed_mb:,} MB ({memory_mb:,} MB for its guest), and "
            f"{available_mb:,} MB are available; valid: a smaller --memory, or a machine with more"
        )
    if fitting >= jobs:
        return jobs, ""
    return fitting, (
        f"{plural(fitting, 'run')} at a time instead of {jobs}: each needs {needed_mb:,} MB, and "
        f"{available_mb:,} MB are available; a smaller --memory allows more"
    )
