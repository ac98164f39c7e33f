# SPDX-License-Identifier: Apache-2.0
"""Selects runs of a campaign: by `--only`, and by the congestion controls of their kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weir.campaign.errors import CampaignError
from weir.campaign.load import Campaign, PlannedRun
from weir.controlplane.config import nearest, one_of
from weir.rundir.kernel import Kernel
from weir.runner.machine import available, offered


def only(campaign: Campaign, wanted: Sequence[str]) -> Campaign:
    """The runs that match every `AXIS=LABEL[,LABEL…]`; labels of the same axis are alternatives.

    The selected runs keep their keys and seeds, so that the others can be run later. Raises CampaignError.
    """
    chosen = _by_axis(campaign, wanted)
    runs = tuple(
        run for run in campaign.runs if all(run.cell.get(axis) in labels for axis, labels in chosen.items())
    )
    if not runs:
        raise CampaignError(f"--only {' --only '.join(wanted)}: no run has all of these; see --dry-run")
    return replace(campaign, runs=runs)


def _by_axis(campaign: Campaign, wanted: Sequence[str]) -> Mapping[str, set[str]]:
    chosen: dict[str, set[str]] = {}
    for text in wanted:
        axis, equals, labels = text.partition("=")
        if not equals:
            raise CampaignError(f"--only {text}: valid: AXIS=LABEL, or AXIS=LABEL,LABEL")
        if axis not in campaign.axes:
            raise CampaignError(
                f"--only {text}: no axis {axis!r}{nearest(axis, campaign.axes)}; {one_of(campaign.axes)}"
            )
        known = campaign.axes[axis]
        for label in [labels] if labels in known else [part.strip() for part in labels.split(",")]:
            if label not in known:
                raise CampaignError(
                    f"--only {text}: no {axis} {label!r}{nearest(label, known)}; {one_of(known)}"
                )
            chosen.setdefault(axis, set()).add(label)
    return chosen


def without_lacking(campaign: Campaign) -> tuple[Campaign, str]:
    """The campaign without runs that their kernels cannot make, and a sentence about those (may be empty).

    Raises CampaignError for runs in virtual time, if the file does not have `lacking: leave_out`.
    """
    may_leave_out = campaign.lacking == "leave_out"
    real = [run for run in campaign.runs if run.virtual_time is None] if may_leave_out else []
    here = offered(set().union(*(run.congestion_controls for run in real)))
    kept: list[PlannedRun] = []
    kernels: dict[str | None, Kernel | None] = {}
    left_out: dict[str | None, Counter[str]] = {}
    for run in campaign.runs:
        kernel = None if run.virtual_time is None else run.virtual_time.kernel
        has = here if kernel is None else set(kernel.congestion_controls)
        missing = sorted(run.congestion_controls - has)
        if missing and (kernel is not None or may_leave_out):
            its_name = None if kernel is None else kernel.name
            kernels[its_name] = kernel
            left_out.setdefault(its_name, Counter())[missing[0]] += 1
        else:
            kept.append(run)
    if not left_out:
        return campaign, ""
    lacking = "; ".join(_lacking(kernels[name], counts) for name, counts in left_out.items())
    if not may_leave_out:
        raise CampaignError(f"{lacking}; valid: another kernel, or lacking: leave_out")
    named = {
        name if kernel is None else f"{name} in kernel {kernel}": runs
        for kernel, counts in left_out.items()
        for name, runs in counts.items()
    }
    return replace(campaign, runs=tuple(kept), left_out=named), f"left out: {lacking}"


def _lacking(kernel: Kernel | None, counts: Mapping[str, int]) -> str:
    """What a kernel lacks, for how many runs, and what it has."""
    its_name = "this kernel" if kernel is None else f"kernel {kernel.name}"
    has = available() if kernel is None else " ".join(kernel.congestion_controls)
    missing = ", ".join(f"{name} ({runs} run{'s' if runs > 1 else ''})" for name, runs in counts.items())
    return f"{its_name} lacks {missing}; it has {has}"
