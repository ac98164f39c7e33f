# SPDX-License-Identifier: Apache-2.0
"""The page of a campaign: its cells and runs, the comparison with a published study, figures, its summary."""

from __future__ import annotations

import importlib
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weir.analysis.figures import Link, Records, Section, Study, Table, of_run, study, write_study
from weir.analysis.policers import AGREEMENT_PERCENT
from weir.campaign.load import KERNEL, Campaign, Cell
from weir.campaign.outcome import Outcome
from weir.campaign.studies import STUDIES
from weir.campaign.summary.build import summary_of
from weir.campaign.summary.model import FORMAT, Summary, summary_text
from weir.rundir.campaign_folder import SUMMARY, CampaignFolder
from weir.rundir.directory import RunDirectory
from weir.rundir.plural import plural
from weir.rundir.whole_files import write_whole


@dataclass(frozen=True)
class CellRow:
    """One cell of the matrix; medians are over its valid runs, None where nothing was measured."""

    cell: Cell
    planned: int
    complete: int
    invalid: int
    unexplained: int
    loss_ratio: float | None
    """Median over the measured flows."""
    throughput_bps: float | None
    """Median over the measured flows."""


def write_page(folder: Path, campaign: Campaign, found: Sequence[Outcome]) -> tuple[Path, tuple[str, ...]]:
    """Write the page, its files and its summary into the campaign's folder; returns its path and warnings."""
    page, summary = page_and_summary(campaign, found)
    write_whole(CampaignFolder(folder).summary, summary_text(summary).encode())
    return write_study(page, folder)


def page_of(campaign: Campaign, found: Sequence[Outcome]) -> Study:
    """All sections of the page. Figures and comparisons use valid runs only."""
    return page_and_summary(campaign, found)[0]


def page_and_summary(campaign: Campaign, found: Sequence[Outcome]) -> tuple[Study, Summary]:
    """The page, and the same figures for programs."""
    valid = [outcome for outcome in found if outcome.valid]
    records = _records(valid)
    general = study(_renamed(records, short_names(valid)), campaign.name)
    own_sections = (
        Section(
            "cells",
            "Cells",
            campaign.description or "Medians are over valid runs.",
            (_cells(campaign, found),),
        ),
        Section(
            "runs",
            "Runs",
            "Each links to its report, in the directory of its name. Invalid runs are in no figure.",
            (_runs(campaign, found),),
        ),
    )
    published: tuple[Section, ...] = ()
    if campaign.study is not None:
        published = _published(STUDIES[campaign.study], found)
    summary = summary_of(campaign, found, records, published)
    invalid, unexplained = len(found) - len(valid), sum(outcome.unexplained for outcome in found)
    left_out = "".join(f", {runs} left out: no {cc}" for cc, runs in campaign.left_out.items())
    meta = (
        f"{len(found)} of {plural(len(campaign.runs), 'run')} complete, {invalid} of them invalid, "
        f"{plural(unexplained, 'packet')} unexplained{left_out}{_virtual_time(found)}"
    )
    sections = (*published, *own_sections, *general.sections, _for_programs(summary))
    notes = (*general.notes, *_without_series(valid))
    page = Study(campaign.name, meta, tuple(section for section in sections if section.items), notes)
    return page, summary


def _without_series(valid: Sequence[Outcome]) -> Iterator[str]:
    """A note on runs whose values over time were deleted, so that no delay of theirs is in a distribution."""
    runs = [o.key for o in valid if o.measured and not RunDirectory(o.path).series.is_file()]
    if runs:
        yield (
            f"{plural(len(runs), 'run')} without series.parquet, first {runs[0]}: in no distribution of "
            "delays; `weir report` with the run's directory makes the file anew from captures"
        )


def _for_programs(summary: Summary) -> Section:
    """The last section: a link to the summary, and the digest of all runs."""
    row = (Link(SUMMARY, SUMMARY), FORMAT, summary.digest or "none")
    table = Table("summary", "Summary", "", ("file", "version of its format", "digest of all runs"), (row,))
    text = (
        "The figures of this page for programs, with intervals and the digest of each run. "
        "The command weir campaign compare says in what two campaigns differ."
    )
    return Section("summary", "For programs", text, (table,))


def _published(study_module: str, found: Sequence[Outcome]) -> tuple[Section, ...]:
    """The study's sections; of several kernels, those of each, because none was measured on two."""
    sections: Callable[[Sequence[Outcome]], tuple[Section, ...]]
    sections = importlib.import_module(study_module).sections
    kernels = list(dict.fromkeys(outcome.cell.get(KERNEL) for outcome in found))
    if len(kernels) < 2:
        return sections(found)
    return tuple(
        _of_kernel(section, str(kernel))
        for kernel in kernels
        for section in sections([outcome for outcome in found if outcome.cell.get(KERNEL) == kernel])
    )


def _of_kernel(section: Section, kernel: str) -> Section:
    """A section with the kernel in its title, and in the names of its files."""
    suffix = re.sub(r"[^A-Za-z0-9]+", "-", kernel)
    return replace(
        section,
        anchor=f"{section.anchor}-{suffix}",
        title=f"{section.title} (kernel {kernel})",
        items=tuple(replace(item, name=f"{item.name}-{suffix}") for item in section.items),
    )


def _virtual_time(found: Sequence[Outcome]) -> str:
    """The kernels of runs in virtual time, as the end of a sentence."""
    kernels = dict.fromkeys(
        f"{made_on.kernel.name} ({made_on.kernel.version})"
        for outcome in found
        if (made_on := outcome.manifest.virtual_time) is not None
    )
    return f"; virtual time, kernel {', '.join(kernels)}" if kernels else ""


def _records(outcomes: Sequence[Outcome]) -> Records:
    """The records of runs, with the cell as scenario instead of the phase."""
    records = Records()
    for outcome in outcomes:
        run, name = of_run(outcome.path, several_names=False), _name(outcome.cell)
        records += Records(
            tuple(replace(flow, scenario=name or flow.scenario) for flow in run.flows),
            tuple(replace(pair, scenario=name or pair.scenario) for pair in run.pairs),
        )
    return records


def _name(cell: Cell) -> str:
    return ", ".join(cell.values())


def short_names(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Names of cells for figures that show congestion controls apart, by the full names.

    A name has no label that all cells share, and none that is the congestion control of its only flow: so BBR
    and CUBIC alone under the same condition have one name. Where that would merge two cells, names stay full.
    """
    cells = {_name(outcome.cell): outcome for outcome in outcomes}
    axes = dict.fromkeys(axis for outcome in cells.values() for axis in outcome.cell)
    kept = [axis for axis in axes if not _said_elsewhere(axis, list(cells.values()))]
    short = {
        name: ", ".join(outcome.cell[axis] for axis in kept if axis in outcome.cell)
        for name, outcome in cells.items()
    }
    flows = [
        (short[name], cc)
        for name, outcome in cells.items()
        for cc in {flow["cc"] for flow in outcome.measured}
    ]
    return short if all(short.values()) and len(set(flows)) == len(flows) else {name: name for name in cells}


def _said_elsewhere(axis: str, cells: Sequence[Outcome]) -> bool:
    """Whether all cells have the same label, or each label is the congestion control of its cell's only flow.

    Of several flows, fairness and verdicts on pairs are shown by scenario alone, so these need the label.
    """
    labels = {outcome.cell.get(axis) for outcome in cells}
    return len(labels) == 1 or all(
        [flow["cc"] for flow in outcome.measured] == [outcome.cell[axis]]
        for outcome in cells
        if axis in outcome.cell
    )


def _renamed(records: Records, names: Mapping[str, str]) -> Records:
    return Records(
        tuple(replace(flow, scenario=names.get(flow.scenario, flow.scenario)) for flow in records.flows),
        tuple(replace(pair, scenario=names.get(pair.scenario, pair.scenario)) for pair in records.pairs),
        records.notes,
    )


def _cells(campaign: Campaign, found: Sequence[Outcome]) -> Table:
    columns = (
        *campaign.axes,
        "runs",
        "complete",
        "invalid",
        "unexplained",
        "median loss, %",
        "median Mbit/s",
    )
    rows = tuple(
        (
            *campaign.labels(row.cell),
            *(row.planned, row.complete, row.invalid, row.unexplained),
            None if row.loss_ratio is None else 100 * row.loss_ratio,
            None if row.throughput_bps is None else row.throughput_bps / 1e6,
        )
        for row in cell_rows(campaign, found)
    )
    return Table("cells", "Cells", "", columns, rows)


def cell_rows(campaign: Campaign, found: Sequence[Outcome]) -> list[CellRow]:
    """One row per cell, in the order of the matrix."""
    by_key = {outcome.key: outcome for outcome in found}
    rows = []
    for runs in campaign.cells():
        keys = [run.key for run in runs]
        complete = [by_key[key] for key in keys if key in by_key]
        flows = [flow for outcome in complete if outcome.valid for flow in outcome.measured]
        rows.append(
            CellRow(
                cell=runs[0].cell,
                planned=len(keys),
                complete=len(complete),
                invalid=sum(not outcome.valid for outcome in complete),
                unexplained=sum(outcome.unexplained for outcome in complete),
                loss_ratio=_median(flows, "loss_ratio"),
                throughput_bps=_median(flows, "throughput_bps"),
            )
        )
    return rows


def _median(flows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [flow[name] for flow in flows if flow[name] is not None]
    return statistics.median(values) if values else None


def _runs(campaign: Campaign, found: Sequence[Outcome]) -> Table:
    columns = (
        *campaign.axes,
        *(
            "repeat",
            "run",
            "counts",
            "unexplained",
            "policers' rates",
            "woke late p99, ms",
            "switch late p99, ms",
        ),
    )
    rows = tuple(
        (
            *campaign.labels(outcome.cell),
            *(
                outcome.repeat + 1,
                _report_link(outcome),
            ),
            "yes" if outcome.valid else "no: " + "; ".join(outcome.invalid_reasons),
            *(outcome.unexplained, agreement(outcome)),
            *lateness_p99_ms(outcome),
        )
        for outcome in found
    )
    return Table("runs", "Runs", "", columns, rows)


def _report_link(outcome: Outcome) -> Link:
    return Link(outcome.key, f"{outcome.key}/{RunDirectory(outcome.path).report.name}")


def lateness_p99_ms(outcome: Outcome) -> tuple[float | None, float | None]:
    """Lateness of the machine's wake-ups and of the switch, 99th percentiles in ms."""
    scheduling, switch = outcome.manifest.scheduling, outcome.result.get("switch_lateness")
    return _ms(None if scheduling is None else scheduling.p99_s), _ms(switch["p99_s"] if switch else None)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1e3 * seconds, 3)


def agreement(outcome: Outcome) -> str:
    """Whether captures, counters and configured rate agree within `AGREEMENT_PERCENT`, or how they differ."""
    policers = outcome.result["policers"]
    problems = [f"{policer['name']}: {policer['agreement']}" for policer in policers if not policer["agrees"]]
    if not policers:
        return "no policer"
    return "; ".join(problems) or f"within {AGREEMENT_PERCENT:g} %"
