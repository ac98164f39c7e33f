# SPDX-License-Identifier: Apache-2.0
"""A campaign's folder as an object: its runs, and tables with a row per run or flow and the cell's values."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from weir.api import html
from weir.api.run import Run
from weir.api.table import Table, flat, from_rows
from weir.campaign.config import CampaignConfig
from weir.campaign.errors import CampaignError
from weir.campaign.load import PART, config_of
from weir.campaign.outcome import Outcome, read_outcome
from weir.campaign.page import agreement, lateness_p99_ms
from weir.controlplane.config import Source, read_text
from weir.rundir.campaign_folder import CAMPAIGN_FILE, PAGE, CampaignFolder
from weir.rundir.directory import RunDirectory
from weir.rundir.plural import plural

_UNNEEDED = ("causes", "false_inferences")


def open_campaign(path: str | PathLike[str]) -> Campaign:
    """Open the folder of a campaign, such as `runs/buffers`, finished or not.

    Raises CampaignError if the folder is no campaign's, ConfigError if its `campaign.yaml` is not valid.
    """
    folder = Path(path)
    if not (folder / CAMPAIGN_FILE).is_file():
        kind = "a run; valid: weir.open_run" if RunDirectory(folder).manifest.is_file() else "no campaign"
        raise CampaignError(
            f"{folder}: {kind if folder.exists() else 'not found'}; "
            f"valid: a folder that `weir campaign` made, with {CAMPAIGN_FILE}"
        )
    return Campaign(folder)


class Campaign:
    """The complete runs of a campaign, in the order of its matrix; iterating gives each as a `Run`.

    `Run.cell` has the labels of its cell; the tables have them as columns of text, `cell_` and the axis's
    name.
    """

    def __init__(self, folder: Path) -> None:
        """The campaign in `folder`. Use `open_campaign`."""
        self.path = folder.resolve()
        source = Source.parse(read_text(folder / CAMPAIGN_FILE), str(folder / CAMPAIGN_FILE))
        self._config: CampaignConfig = config_of(source)
        self.description: str = str(source.data.get("description", ""))

    @property
    def name(self) -> str:
        """The campaign's name, with `-quick` for its quick grid."""
        return self.path.name

    @property
    def page(self) -> Path:
        """The path of its page, `index.html`."""
        return self.path / PAGE

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The names of the matrix's axes."""
        return tuple(dict.fromkeys(name for outcome in self._outcomes for name in outcome.cell))

    @cached_property
    def table(self) -> Table:
        """One row per complete run, as on the campaign's page.

        Columns: cell_AXIS for each axis, repeat (from 1), run, valid, invalid_reasons, unexplained (packets),
        policers_rates (whether the policers kept their rates), woke_late_p99_ms, switch_late_p99_ms;
        loss_ratio, throughput_bps and goodput_bps are medians over the measured flows. Raises CampaignError.
        """
        return Table(f"runs of {self.name}", self._runs)

    @cached_property
    def flows(self) -> Table:
        """One row per configured flow of each run: cell_AXIS, repeat, run, valid, the columns of `Run.flows`.

        Raises CampaignError.
        """
        return Table(f"flows of {self.name}", lambda: self._each("flows"))

    @cached_property
    def pairs(self) -> Table:
        """One row per pair and detector of each run: cell_AXIS, repeat, run, valid, those of `Run.pairs`.

        Raises CampaignError.
        """
        return Table(f"pairs of {self.name}", lambda: self._each("pairs"))

    def __iter__(self) -> Iterator[Run]:
        """The complete runs; raises CampaignError."""
        return (Run(outcome.path) for outcome in self._outcomes)

    def __len__(self) -> int:
        """The number of complete runs."""
        return len(self._outcomes)

    @cached_property
    def _outcomes(self) -> tuple[Outcome, ...]:
        found = [read_outcome(path, self._config.limits) for path in CampaignFolder(self.path).runs()]
        return tuple(sorted(found, key=self._order))

    def _order(self, outcome: Outcome) -> tuple[tuple[tuple[int, str], ...], int]:
        """Sorts runs by the labels of their cells as the file lists them, then by repeat."""
        part = self._config.parts.get(outcome.cell.get(PART, ""))
        matrix = {PART: self._config.parts, **self._config.matrix, **(part.matrix if part else {})}
        axes = {name: [str(label) for label in axis] for name, axis in matrix.items()}
        places = tuple(
            (axes[name].index(label) if label in axes.get(name, ()) else len(axes.get(name, ())), label)
            for name, label in outcome.cell.items()
        )
        return places, outcome.repeat

    def _identity(self, outcome: Outcome) -> dict[str, Any]:
        return {
            **{f"cell_{name}": outcome.cell.get(name) for name in self.axes},
            "repeat": outcome.repeat + 1,
            "run": outcome.key,
            "valid": outcome.valid,
        }

    def _runs(self) -> pa.Table:
        rows = []
        for outcome in self._outcomes:
            woke_late_ms, switch_late_ms = lateness_p99_ms(outcome)
            rows.append(
                {
                    **self._identity(outcome),
                    "invalid_reasons": "; ".join(outcome.invalid_reasons),
                    "unexplained": outcome.unexplained,
                    "policers_rates": agreement(outcome),
                    "woke_late_p99_ms": woke_late_ms,
                    "switch_late_p99_ms": switch_late_ms,
                    **{
                        name: _median(outcome.measured, name)
                        for name in ("loss_ratio", "throughput_bps", "goodput_bps")
                    },
                }
            )
        return from_rows(rows, ("repeat", "run", "valid"))

    def _each(self, kind: str) -> pa.Table:
        rows = [
            {**self._identity(outcome), **flat({k: v for k, v in item.items() if k not in _UNNEEDED})}
            for outcome in self._outcomes
            for item in outcome.result[kind]
        ]
        return from_rows(rows, ("repeat", "run", "valid"))

    def __repr__(self) -> str:
        """Name, number of runs, axes."""
        return f"<Campaign {self.name}: {self._counted()}; axes {', '.join(self.axes) or 'none'}>"

    def _repr_html_(self) -> str:
        head = html.heading(self.name) + html.lines([self.description] if self.description else [])
        return head + html.lines([self._counted()]) + self.table._repr_html_()

    def _counted(self) -> str:
        invalid = sum(not outcome.valid for outcome in self._outcomes)
        unexplained = sum(outcome.unexplained for outcome in self._outcomes)
        complete, packets = plural(len(self), "complete run"), plural(unexplained, "packet")
        return f"{complete}, {invalid} invalid, {packets} unexplained"


def _median(flows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [flow[name] for flow in flows if flow[name] is not None]
    return float(statistics.median(values)) if values else None
