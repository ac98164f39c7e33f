# SPDX-License-Identifier: Apache-2.0
"""Chooses the figures for the records of several runs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from weir.analysis.evaluate import Evaluation, Trial, evaluate
from weir.analysis.figures.conditions import gain_maps, winner_tree
from weir.analysis.figures.figure import (
    MOST_NAMES,
    Cell,
    Figure,
    Table,
    Values,
    box_figure,
    ecdf_figure,
    heat_figure,
)
from weir.analysis.figures.records import FlowRecord, PairRecord, Records
from weir.analysis.figures.verdicts import verdict_items
from weir.analysis.statistics import (
    heat_map,
    jain_index,
    kolmogorov_smirnov,
)
from weir.analysis.tables import Floats
from weir.rundir.plural import plural

LOSS_TREND = "wehey_loss_trend"
MOST_LINES = 24
"""More in one figure are not told apart."""
LINES = f"Where scenarios would be more than {MOST_LINES} lines, a line is of all scenarios."


@dataclass(frozen=True)
class Measure:
    """A number of a flow."""

    id: str
    title: str
    label: str
    """Of an axis."""
    unit: str
    field: str
    """The field of a record."""
    factor: float = 1.0
    """From the field's unit to this one's."""

    def of(self, flow: FlowRecord) -> float | None:
        """The flow's number in this unit."""
        value: float | None = getattr(flow, self.field)
        return None if value is None else value * self.factor


LOSS = Measure("loss", "Loss", "loss in percent", "percent", "loss_ratio", 100)
DELAY = Measure("delay", "Mean delay", "mean delay in ms", "ms", "mean_delay_s", 1e3)
RETRANSMISSIONS = Measure(
    "retransmissions",
    "Retransmission ratio",
    "retransmissions in percent",
    "percent",
    "retransmission_ratio",
    100,
)
THROUGHPUT = Measure("throughput", "Throughput", "Mbit/s", "Mbit/s", "throughput_bps", 1e-6)
MEASURES = (LOSS, DELAY, RETRANSMISSIONS, THROUGHPUT)


@dataclass(frozen=True)
class Section:
    """A part of the page; the table of contents links to `anchor`."""

    anchor: str
    title: str
    text: str
    items: tuple[Table, ...]


@dataclass(frozen=True)
class Study:
    """A page; empty sections are left out."""

    title: str
    meta: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table and figure, in order."""
        return tuple(item for section in self.sections for item in section.items)


def study(records: Records, title: str) -> Study:
    """The figures of some records; the notes name those for which the records do not suffice."""
    flows, notes = records.flows, list(records.notes)
    sections = [
        Section(
            "loss",
            "Loss",
            "Packets lost ÷ packets sent of each measured flow, by the switch or inferred from a capture. "
            "Random loss on links is not counted.",
            _by_cc(flows, LOSS),
        ),
        Section(
            "delay",
            "Delay",
            "Mean RTT of each flow above its smallest one, and the distribution of its RTTs.",
            (*_by_cc(flows, DELAY), *_queueing(flows)),
        ),
        Section(
            "correlation",
            "Correlation of loss",
            "Each pair's best rank correlation of loss over all interval sizes: the highest with p < 0.05, "
            "else of all.",
            _correlation(records),
        ),
        Section(
            "throughput",
            "Throughput and fairness",
            "Frame bytes received. Jain's index over the measured flows of a run's phase: 1 is fair.",
            (
                *_by_cc(flows, THROUGHPUT),
                *_delivery(flows),
                *_fairness(flows),
                *gain_maps(flows, notes),
            ),
        ),
        Section(
            "retransmissions",
            "Retransmissions",
            "Retransmissions ÷ packets sent.",
            _by_cc(flows, RETRANSMISSIONS),
        ),
        Section(
            "comparison",
            "Significance of differences",
            "Kolmogorov–Smirnov tests: two congestion controls in one scenario, or one in two scenarios.",
            _tests(flows),
        ),
        Section("maps", "Conditions", "Medians over the flows of each condition.", _medians(flows)),
        Section(
            "tree",
            "Conditions that favour one congestion control",
            "A decision tree over the conditions of the runs; numbers are flows per outcome.",
            winner_tree(flows, notes),
        ),
        Section(
            "verdicts",
            "Verdicts on pairs",
            "The detectors' verdicts compared with the truth, with exact 95 % intervals.",
            verdict_items(evaluate([_trial(pair) for pair in records.pairs])) if records.pairs else (),
        ),
    ]
    runs = len(dict.fromkeys(flow.run for flow in flows))
    return Study(
        title,
        f"{plural(runs, 'run')}, {plural(len(flows), 'flow')}, {plural(len(records.pairs), 'verdict')}",
        tuple(section for section in sections if section.items),
        tuple(notes),
    )


def evaluation(found: Sequence[Evaluation], meta: str) -> Study:
    """The page of `weir evaluate`; `meta` names the trials, as text."""
    section = Section(
        "verdicts",
        "Verdicts on pairs",
        "The detectors' verdicts compared with the truth, with exact 95 % intervals.",
        verdict_items(found),
    )
    return Study("Detectors compared with the truth", meta, (section,))


def _by_cc(flows: Sequence[FlowRecord], measure: Measure) -> tuple[Figure, ...]:
    # Every series has every scenario, so that these keep their order on the axis.
    scenarios = list(dict.fromkeys(flow.scenario for flow in flows))
    values: dict[str, dict[str, list[float | None]]] = {}
    for flow in flows:
        values.setdefault(flow.cc, {name: [] for name in scenarios})[flow.scenario].append(measure.of(flow))
    return _boxed(measure.id, f"{measure.title} by scenario", values, measure.label)


def _boxed(name: str, title: str, values: Values, unit: str) -> tuple[Figure, ...]:
    found = box_figure(name, title, "", values, unit=unit)
    return (found,) if found.rows else ()


def _queueing(flows: Sequence[FlowRecord]) -> tuple[Figure, ...]:
    samples = _percentiles(flows, lambda flow: flow.delays_s * 1e3)
    caption = f"Percentiles of each flow's RTT above its smallest one, all flows of a line together. {LINES}"
    return (ecdf_figure("queueing-delay", "Queueing delay", caption, samples, unit="ms"),) if samples else ()


def _delivery(flows: Sequence[FlowRecord]) -> tuple[Figure, ...]:
    samples = _percentiles(flows, lambda flow: flow.delivery_rates_bps / 1e6)
    caption = (
        "Percentiles of each flow's samples, one per ACK: payload delivered ÷ the longer of the times of "
        f"sending and of acknowledging. Where the application had nothing to send, its rate. {LINES}"
    )
    return (
        (ecdf_figure("delivery-rate", "Delivery rate", caption, samples, unit="Mbit/s"),) if samples else ()
    )


def _percentiles(flows: Sequence[FlowRecord], of: Callable[[FlowRecord], Floats]) -> dict[str, list[float]]:
    """Percentiles by scenario and congestion control; equally many per flow, so that all weigh the same.

    By congestion control alone where lines of all scenarios would be too many to be told apart.
    """
    samples: dict[tuple[str, str], list[float]] = {}
    for flow in flows:
        its = of(flow)
        if len(its):
            percentiles = np.quantile(its, np.linspace(0, 1, 101)).tolist()
            samples.setdefault((flow.scenario, flow.cc), []).extend(percentiles)
    found: dict[str, list[float]] = {}
    for (scenario, cc), percentiles in samples.items():
        name = scenario if cc == "unknown" else f"{scenario}, {cc}"
        found.setdefault(name if len(samples) <= MOST_LINES else cc, []).extend(percentiles)
    return found


def _correlation(records: Records) -> tuple[Figure, ...]:
    values: dict[str, dict[str, list[float | None]]] = {}
    for pair in records.pairs:
        if pair.detector == LOSS_TREND and pair.correlation is not None:
            its = values.setdefault(f"in truth {pair.truth}", {})
            its.setdefault(pair.scenario, []).append(pair.correlation)
    return _boxed("correlation", "Best correlation by scenario", values, "rank correlation") if values else ()


def _fairness(flows: Sequence[FlowRecord]) -> tuple[Figure, ...]:
    rates: dict[tuple[str, str, str], list[float]] = {}
    for flow in flows:
        if flow.throughput_bps is not None:
            rates.setdefault((flow.scenario, flow.run, flow.phase), []).append(flow.throughput_bps)
    values: dict[str, dict[str, list[float | None]]] = {"Jain's index": {}}
    for (scenario, _, _), its in rates.items():
        if len(its) > 1:
            values["Jain's index"].setdefault(scenario, []).append(jain_index(its))
    return _boxed("jain", "Jain's index by scenario", values, "Jain's index")


def _medians(flows: Sequence[FlowRecord]) -> tuple[Table, ...]:
    """Medians by scenario and congestion control, when there is more than one combination.

    A map per measure; one table where a map would have too many lines to be looked at.
    """
    if len({(flow.scenario, flow.cc) for flow in flows}) < 2:
        return ()
    if len({flow.scenario for flow in flows}) > MOST_NAMES:
        return (_median_table(flows),)
    return tuple(
        heat_figure(
            f"map-{measure.id}",
            f"{measure.title} by scenario and congestion control",
            "",
            heat_map([(flow.cc, flow.scenario, measure.of(flow)) for flow in flows]),
            x="congestion control",
            y="scenario",
            value=measure.unit,
        )
        for measure in MEASURES
    )


def _groups(flows: Sequence[FlowRecord]) -> dict[tuple[str, str], list[FlowRecord]]:
    """The flows by scenario and congestion control."""
    groups: dict[tuple[str, str], list[FlowRecord]] = {}
    for flow in flows:
        groups.setdefault((flow.scenario, flow.cc), []).append(flow)
    return groups


def _median_table(flows: Sequence[FlowRecord]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for at, its in _groups(flows).items():
        known = [[v for v in map(measure.of, its) if v is not None] for measure in MEASURES]
        rows.append((*at, len(its), *(float(np.median(values)) if values else None for values in known)))
    measures = (f"{measure.title.lower()}, {measure.unit}" for measure in MEASURES)
    columns = ("scenario", "congestion control", "flows", *measures)
    return Table("medians", "Medians by scenario and congestion control", "", columns, tuple(rows))


def _tests(flows: Sequence[FlowRecord]) -> tuple[Table, ...]:
    rows: list[tuple[Cell, ...]] = []
    for (one, its), (other, others) in combinations(_groups(flows).items(), 2):
        # Samples that differ in both scenario and congestion control show the effect of neither.
        if (one[0] == other[0]) == (one[1] == other[1]):
            continue
        for measure in (LOSS, DELAY, THROUGHPUT):
            a, b = (np.array([measure.of(f) for f in some], dtype=np.float64) for some in (its, others))
            found = kolmogorov_smirnov(a, b)
            if found is None or min(found.n_a, found.n_b) < 2:
                continue
            difference = np.nanmedian(a) - np.nanmedian(b)
            larger = ", ".join(one if difference > 0 else other) if difference else None
            rows.append(
                (
                    measure.title.lower(),
                    ", ".join(one),
                    ", ".join(other),
                    found.n_a,
                    found.n_b,
                    found.statistic,
                    found.p,
                    larger,
                )
            )
    if not rows:
        return ()
    columns = ("measure", "sample a", "sample b", "n a", "n b", "distance", "p", "larger median")
    caption = (
        "Each flow is a value, and p takes values as independent: where a run has several of a sample, which "
        "compete, p is too small. With two values on either side it cannot be below 0.33."
    )
    return (Table("ks-tests", "Kolmogorov–Smirnov tests", caption, columns, tuple(rows)),)


def _trial(pair: PairRecord) -> Trial:
    return Trial(pair.detector, pair.scenario, pair.truth, pair.verdict, pair.score, pair.p, 0.0)
