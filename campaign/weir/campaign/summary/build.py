# SPDX-License-Identifier: Apache-2.0
"""Builds the summary of a campaign from its complete runs: pure, and the same for the same runs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from weir.analysis.evaluate import Trial, evaluation_of
from weir.analysis.figures import FlowRecord, PairRecord, Records, Section
from weir.analysis.figures.figure import Cell as TableCell
from weir.analysis.figures.figure import Figure
from weir.analysis.statistics import Share, grouped_median, jain_index, share
from weir.campaign.load import Campaign, PlannedRun
from weir.campaign.outcome import Outcome
from weir.campaign.summary.model import (
    CampaignFacts,
    CellSummary,
    Counts,
    FigureValue,
    GuestKernel,
    MadeBy,
    RunFacts,
    StudyTable,
    Summary,
    Value,
)

_Record = TypeVar("_Record", FlowRecord, PairRecord)

DIGITS = 12
"""Significant digits: a sum of floating-point numbers may differ in the last ones between processors."""
ALL_FLOWS = "all flows"
_SHARE_COVERAGE = 0.95

_QUANTITIES: tuple[tuple[str, str, Callable[[FlowRecord], float | None], float], ...] = (
    ("loss", "%", lambda flow: flow.loss_ratio, 100),
    ("throughput", "Mbit/s", lambda flow: flow.throughput_bps, 1e-6),
    ("goodput", "Mbit/s", lambda flow: flow.goodput_bps, 1e-6),
    ("mean delay", "ms", lambda flow: flow.mean_delay_s, 1e3),
    ("retransmissions", "%", lambda flow: flow.retransmission_ratio, 100),
)
"""Quantities of each flow, in the units of the page."""
_OF_CELLS_TABLE = ("loss", "throughput")
"""Those that the page's table of cells has over the flows of all congestion controls."""


def summary_of(
    campaign: Campaign, found: Sequence[Outcome], records: Records, published: Sequence[Section]
) -> Summary:
    """The summary; `records` are those of the valid runs, `published` the sections of the study."""
    by_key = {outcome.key: outcome for outcome in found}
    flows, pairs = _by_run(records.flows), _by_run(records.pairs)
    cells = tuple(_cell(runs, by_key, flows, pairs) for runs in campaign.cells())
    software = (
        None if not found or found[0].manifest.campaign is None else found[0].manifest.campaign.software
    )
    return Summary(
        schema_version=1,
        campaign=CampaignFacts(
            name=campaign.name,
            file_sha256=hashlib.sha256(campaign.text.encode()).hexdigest(),
            study=campaign.study,
        ),
        digest=_total([run for cell in cells for run in cell.runs]),
        made_by=None
        if software is None
        else MadeBy(
            weir_version=software.weir_version,
            commit=software.commit,
            programs=dict(sorted(software.programs.items())),
        ),
        targets=tuple(sorted({outcome.manifest.target for outcome in found})),
        kernels=_kernels(found),
        congestion_controls=tuple(sorted({flow.cc for flow in records.flows} - {"unknown"})),
        counts=_sum(cell.counts for cell in cells),
        left_out=dict(sorted(campaign.left_out.items())),
        cells=cells,
        study=tuple(_tables(published)),
    )


def _by_run(records: Iterable[_Record]) -> dict[str, list[_Record]]:
    found: dict[str, list[_Record]] = {}
    for record in records:
        found.setdefault(record.run, []).append(record)
    return found


def _cell(
    runs: Sequence[PlannedRun],
    by_key: Mapping[str, Outcome],
    flows: Mapping[str, list[FlowRecord]],
    pairs: Mapping[str, list[PairRecord]],
) -> CellSummary:
    complete = [by_key[run.key] for run in runs if run.key in by_key]
    keys = [outcome.key for outcome in complete if outcome.valid]
    return CellSummary(
        cell=dict(runs[0].cell),
        counts=Counts(
            planned=len(runs),
            complete=len(complete),
            invalid=len(complete) - len(keys),
            unexplained=sum(outcome.unexplained for outcome in complete),
        ),
        figures=(
            *_of_flows([flows[key] for key in keys if key in flows]),
            *_of_pairs([pairs[key] for key in keys if key in pairs]),
        ),
        runs=tuple(_run(outcome) for outcome in complete),
    )


def _run(outcome: Outcome) -> RunFacts:
    made = outcome.manifest.campaign
    return RunFacts(
        run=outcome.key,
        repeat=outcome.repeat + 1,
        experiment_sha256="" if made is None else made.config_digest,
        digest=outcome.manifest.digest,
        unexplained=outcome.unexplained,
        invalid=outcome.invalid_reasons,
    )


def _of_flows(runs: Sequence[Sequence[FlowRecord]]) -> Iterator[FigureValue]:
    """The figures of the measured flows, which are given by run."""
    controls = sorted({flow.cc for flows in runs for flow in flows})
    for name, unit, of, factor in _QUANTITIES:
        # With one congestion control, the median of all flows is its own.
        over_all = [ALL_FLOWS] if len(controls) > 1 and name in _OF_CELLS_TABLE else []
        for subject in (*over_all, *controls):
            by_run = [
                [
                    factor * value
                    for flow in flows
                    if subject in (ALL_FLOWS, flow.cc)
                    if (value := of(flow)) is not None
                ]
                for flows in runs
            ]
            yield _median(name, subject, unit, by_run)
    indices = [_jain_indices(flows) for flows in runs]
    if any(indices):
        yield _median("Jain's index", ALL_FLOWS, "1", indices)


def _jain_indices(flows: Sequence[FlowRecord]) -> list[float]:
    """Jain's index of each phase of a run with two flows or more: those of two phases share nothing."""
    rates: dict[str, list[float]] = {}
    for flow in flows:
        if flow.throughput_bps is not None:
            rates.setdefault(flow.phase, []).append(flow.throughput_bps)
    found = [jain_index(its) for its in rates.values() if len(its) > 1]
    return [index for index in found if index is not None]


def _of_pairs(runs: Sequence[Sequence[PairRecord]]) -> Iterator[FigureValue]:
    """The figures of the detectors' verdicts, which are given by run."""
    for detector in sorted({pair.detector for pairs in runs for pair in pairs}):
        its = [[pair for pair in pairs if pair.detector == detector] for pairs in runs]
        trials = [
            Trial(detector, "", pair.truth, pair.verdict, pair.score, pair.p, 0.0)
            for pairs in its
            for pair in pairs
        ]
        found, of = evaluation_of(detector, "", trials), sum(bool(pairs) for pairs in its)
        for name, its_share in (
            ("false negatives", found.false_negatives),
            ("false positives", found.false_positives),
            ("cannot tell", share(found.undecided, found.trials)),
        ):
            if its_share.of:
                yield _percent(name, detector, its_share, of)
        for truth in sorted({trial.truth for trial in trials}):
            by_run = [
                [pair.correlation for pair in pairs if pair.truth == truth and pair.correlation is not None]
                for pairs in its
            ]
            if any(by_run):
                yield _median("best correlation", f"{detector}, in truth {truth}", "1", by_run)


def _median(name: str, subject: str, unit: str, by_run: Sequence[Sequence[float]]) -> FigureValue:
    known = [its for its in ([value for value in run if math.isfinite(value)] for run in by_run) if its]
    median, interval = grouped_median(known)
    return FigureValue(
        name=name,
        subject=subject,
        unit=unit,
        value=_rounded(median),
        n=sum(map(len, known)),
        runs=len(known),
        low=_rounded(interval.low) if interval else None,
        high=_rounded(interval.high) if interval else None,
        coverage=_rounded(interval.coverage) if interval else None,
    )


def _percent(name: str, subject: str, its: Share, runs: int) -> FigureValue:
    return FigureValue(
        name=name,
        subject=subject,
        unit="%",
        value=None if its.rate is None else _rounded(100 * its.rate),
        n=its.of,
        runs=runs,
        low=_rounded(100 * its.low),
        high=_rounded(100 * its.high),
        coverage=_SHARE_COVERAGE,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _total(runs: Sequence[RunFacts]) -> str | None:
    """The digest over all runs; None if there are none, or one was in real time."""
    if not runs or any(run.digest is None for run in runs):
        return None
    lines = "".join(f"{run.digest}  {run.run}\n" for run in sorted(runs, key=lambda run: run.run))
    return hashlib.sha256(lines.encode()).hexdigest()


def _kernels(found: Sequence[Outcome]) -> tuple[GuestKernel, ...]:
    used = [
        outcome.manifest.virtual_time.kernel for outcome in found if outcome.manifest.virtual_time is not None
    ]
    by_inputs = {
        kernel.inputs_sha256: GuestKernel(
            name=kernel.name, version=kernel.version, inputs_sha256=kernel.inputs_sha256
        )
        for kernel in used
    }
    return tuple(sorted(by_inputs.values(), key=lambda kernel: (kernel.name or "", kernel.inputs_sha256)))


def _sum(counts: Iterable[Counts]) -> Counts:
    each = list(counts)
    return Counts(
        planned=sum(its.planned for its in each),
        complete=sum(its.complete for its in each),
        invalid=sum(its.invalid for its in each),
        unexplained=sum(its.unexplained for its in each),
    )


def _tables(sections: Sequence[Section]) -> Iterator[StudyTable]:
    """The tables of the study; the values of its drawings are in the cells, or in `data/`."""
    for section in sections:
        for item in section.items:
            if not isinstance(item, Figure):
                rows = tuple(tuple(map(_plain, row)) for row in item.rows)
                yield StudyTable(name=item.name, title=item.title, columns=item.columns, rows=rows)


def _plain(cell: TableCell) -> Value:
    if isinstance(cell, float):
        return _rounded(float(cell)) if math.isfinite(cell) else None
    return str(cell) if isinstance(cell, str) else cell
