# SPDX-License-Identifier: Apache-2.0
"""What of a campaign's grid a user asks for on the command line: some labels of some axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weir.campaign.load import Campaign
from weir.cli.errors import InputError
from weir.controlplane.config import nearest, one_of


def only(campaign: Campaign, wanted: Sequence[str]) -> Campaign:
    """The runs whose labels are among those of each `AXIS=LABEL[,LABEL…]`; of one axis they add up.

    What remains keeps its keys and seeds, so that the rest can be run later. Raises InputError.
    """
    chosen = _by_axis(campaign, wanted)
    runs = tuple(
        run for run in campaign.runs if all(run.cell.get(axis) in labels for axis, labels in chosen.items())
    )
    if not runs:
        raise InputError(f"--only {' --only '.join(wanted)}: no run has all of these; see --dry-run")
    return replace(campaign, runs=runs)


def _by_axis(campaign: Campaign, wanted: Sequence[str]) -> Mapping[str, set[str]]:
    chosen: dict[str, set[str]] = {}
    for text in wanted:
        axis, equals, labels = text.partition("=")
        if not equals:
            raise InputError(f"--only {text}: valid: AXIS=LABEL, or AXIS=LABEL,LABEL")
        if axis not in campaign.axes:
            raise InputError(
                f"--only {text}: no axis {axis!r}{nearest(axis, campaign.axes)}; {one_of(campaign.axes)}"
            )
        known = campaign.axes[axis]
        for label in [labels] if labels in known else [part.strip() for part in labels.split(",")]:
            if label not in known:
                raise InputError(
                    f"--only {text}: no {axis} {label!r}{nearest(label, known)}; {one_of(known)}"
                )
            chosen.setdefault(axis, set()).add(label)
    return chosen
