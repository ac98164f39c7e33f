# SPDX-License-Identifier: Apache-2.0
"""Selects runs of a campaign: by `--only`, and by the congestion controls of their kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from weir.campaign.errors import CampaignError
from weir.campaign.load import Campaign, PlannedRun
from weir.controlplane.config import nearest, one_of
from weir.rundir.plural import plural
from weir.runner.machine import available, offered


def only(campaign: Campaign, wanted: Sequence[str]) -> Campaign:
    """The runs that match every `AXIS=LABEL[,LABEL…]`; labels of the same axis are alternatives.

    The selected runs keep their keys and seeds, so that the others can be run later. Raises CampaignError.
    """
    chosen = chosen_labels(campaign.axes, wanted)
    runs = tuple(
        run for run in campaign.runs if all(run.cell.get(axis) in labels for axis, labels in chosen.items())
    )
    if not runs:
        raise CampaignError(f"--only {' --only '.join(wanted)}: no run has all of these; see --dry-run")
    return replace(campaign, runs=runs)


def chosen_labels(axes: Mapping[str, Collection[str]], wanted: Sequence[str]) -> Mapping[str, set[str]]:
    """The labels of each axis that `AXIS=LABEL[,LABEL…]` name; `axes` has all. Raises CampaignError."""
    chosen: dict[str, set[str]] = {}
    for text in wanted:
        axis, equals, labels = text.partition("=")
        if not equals:
            raise CampaignError(f"--only {text}: valid: AXIS=LABEL, or AXIS=LABEL,LABEL")
        if axis not in axes:
            raise CampaignError(f"--only {text}: no axis {axis!r}{nearest(axis, axes)}; {one_of(axes)}")
        known = axes[axis]
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
    by_kernel: dict[str | None, list[PlannedRun]] = {}
    for run in campaign.runs:
        judged = may_leave_out or run.virtual_time is not None
        if judged and run.lacking(here) is not None:
            kernel = None if run.virtual_time is None else run.virtual_time.kernel.name
            by_kernel.setdefault(kernel, []).append(run)
    if not by_kernel:
        return campaign, ""
    said = "; ".join(_lacking(runs, here) for runs in by_kernel.values())
    if not may_leave_out:
        raise CampaignError(f"{said}; valid: another kernel, or lacking: leave_out")
    return campaign.offered_by(here), f"left out: {said}"


def _lacking(runs: Sequence[PlannedRun], here: Collection[str]) -> str:
    """A sentence: what the kernel of these runs lacks, and the congestion controls that it has."""
    kernel = None if runs[0].virtual_time is None else runs[0].virtual_time.kernel
    its_name = "this kernel" if kernel is None else f"kernel {kernel.name}"
    has = available() if kernel is None else " ".join(kernel.congestion_controls)
    counts = Counter(run.lacking(here) for run in runs)
    missing = ", ".join(f"{name} ({plural(count, 'run')})" for name, count in counts.items())
    return f"{its_name} lacks {missing}; its congestion controls: {has}"
