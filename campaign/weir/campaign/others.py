# SPDX-License-Identifier: Apache-2.0
"""The complete runs of a campaign's grid beside the part that `--only` selects: the page has them too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weir.campaign.load import Campaign, PlannedRun
from weir.campaign.store import Store
from weir.campaign.virtual import with_kernels
from weir.kernel.errors import KernelInputError
from weir.rundir.plural import plural


def with_others(store: Store, grid: Campaign, part: Campaign, memory_mb: int) -> tuple[Campaign, str]:
    """The store's campaign with the complete runs of `grid` that `part` lacks, and a sentence (may be empty).

    The sentence is about runs that do not count: made from another experiment, by other software or on
    another kernel than now, or on one that the kernel store lacks. Raises CampaignError for a run whose
    manifest cannot be read.
    """
    chosen = {run.key for run in part.runs}
    complete = store.complete(grid.runs)
    here = [run for run in grid.runs if run.key in complete and run.key not in chosen]
    if not here:
        return store.campaign, ""
    try:
        others: Sequence[PlannedRun] = with_kernels(replace(grid, runs=tuple(here)), memory_mb).runs
    except KernelInputError as error:
        return store.campaign, _not_shown(here, str(error))
    unlike = {run.key: difference for run in others if (difference := store.difference(run))}
    shown = {run.key: run for run in (*store.campaign.runs, *others) if run.key not in unlike}
    campaign = replace(store.campaign, runs=tuple(shown[run.key] for run in grid.runs if run.key in shown))
    left = [run for run in others if run.key in unlike]
    return campaign, _not_shown(left, unlike[left[0].key]) if left else ""


def _not_shown(runs: Sequence[PlannedRun], reason: str) -> str:
    return f"not on the page: {plural(len(runs), 'other run')} of the grid, first {runs[0].key}: {reason}"
