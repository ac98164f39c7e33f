# SPDX-License-Identifier: Apache-2.0
"""The valid runs of a finished campaign, each with its label on an axis: examples of classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weir.campaign.choice import chosen_labels
from weir.campaign.errors import CampaignError
from weir.campaign.load import PART, config_of
from weir.campaign.outcome import read_outcome
from weir.controlplane.config import Source, one_of, read_text
from weir.rundir.campaign_folder import CAMPAIGN_FILE, CampaignFolder


def labelled_runs(folder: Path, axis: str, only: Sequence[str] = ()) -> list[tuple[Path, str]]:
    """Directories of valid runs with their labels on `axis`, in the order of the file's labels.

    `only` selects runs, as the campaign's own `--only` does. Raises CampaignError if the folder is no
    campaign's, or the campaign has no such axis or label.
    """
    file = folder / CAMPAIGN_FILE
    if not file.is_file():
        raise CampaignError(f"{folder}: no campaign; valid: a folder that `weir campaign` made")
    config = config_of(Source.parse(read_text(file), str(file)))
    axes: dict[str, list[str]] = {PART: list(config.parts)} if config.parts else {}
    for matrix in (config.matrix, *(part.matrix for part in config.parts.values())):
        for name, labels in matrix.items():
            known = axes.setdefault(name, [])
            known += [str(label) for label in labels if str(label) not in known]
    if axis not in axes:
        raise CampaignError(f"{folder}: no axis {axis!r}; {one_of(axes)}")
    chosen = chosen_labels(axes, only)
    found = [read_outcome(path, config.limits) for path in CampaignFolder(folder).runs()]
    runs = [
        (one.path, one.cell[axis])
        for one in found
        if one.valid
        and one.cell.get(axis) in axes[axis]
        and all(one.cell.get(name) in labels for name, labels in chosen.items())
    ]
    return sorted(runs, key=lambda run: (axes[axis].index(run[1]), run[0]))
