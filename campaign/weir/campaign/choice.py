# SPDX-License-Identifier: Apache-2.0
"""Selects runs of a campaign: by `--only`, and by the congestion controls of this machine's kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weir.campaign.errors import CampaignError
from weir.campaign.load import Campaign
from weir.controlplane.config import nearest, one_of
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
    """The campaign without runs that this kernel cannot make, and a sentence about those (may be empty)."""
    kept = campaign.offered_by(offered(set().union(*(run.congestion_controls for run in campaign.runs))))
    if not kept.left_out:
        return kept, ""
    lacking = ", ".join(f"{runs} with {name}" for name, runs in kept.left_out.items())
    return kept, f"left out, because this kernel lacks it: {lacking}; it has {available()}"
