# SPDX-License-Identifier: Apache-2.0
"""Chooses the figures for the records of several runs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from weir.analysis.evaluate import Evaluation, Trial, evaluate
from weir.analysis.figures.figure import (
    Cell,
    Figure,
    Table,
    Values,
    box_figure,
    ecdf_figure,
    grown_tree,
    heat_figure,
)
from weir.analysis.figures.records import FlowRecord, PairRecord, Records
from weir.analysis.figures.verdicts import verdict_items
from weir.analysis.statistics import (
    gp_gain_percent,
    heat_map,
    jain_index,
    kolmogorov_smirnov,
)
from weir.analysis.tables import Floats

MOST_LINES = 48
"""More in one figure are not told apart."""
LINES = f"Where scenarios would be more than {MOST_LINES} lines, a line is of all scenarios."
MIN_TREE_SAMPLES = 8
Condition = tuple[float, float, float, float]
FACTORS = ("bottleneck, Mbit/s", "RTT, ms", "burst or queue, kB", "random loss, %")
FACTOR_NAMES = ("rate", "RTT", "burst or queue", "random loss")
FACTOR_IDS = ("rate", "rtt", "buffer", "random-loss")
RATE, RTT, BUFFER, RANDOM_LOSS = range(4)
RTT_STEP_MS = 5
"""Minimum RTTs differ from run to run under one condition, so they are rounded to multiples of this."""


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
            "Packets lost ÷ packets sent of each measured flow, by the switch or inferred from a capture.",
            _by_cc("loss", "Loss by scenario", flows, lambda f: _times(f.loss_ratio, 100), "loss in percent"),
        ),
        Section(
            "delay",
            "Delay",
            "Mean RTT of each flow above its smallest one, and the distribution of its RTTs.",
            (
                *_by_cc(
                    "delay",
                    "Delay by scenario",
                    flows,
                    lambda f: _times(f.mean_delay_s, 1e3),
                    "mean delay in ms",
                ),
                *_queueing(flows),
            ),
        ),
        Section(
            "correlation",
            "Correlation of loss",
            "Each pair's best coefficient over all interval sizes: the highest with p < 0.05, else of all.",
            _correlation(records),
        ),
        Section(
            "throughput",
            "Throughput and fairness",
            "Frame bytes received. Jain's index over the measured flows of a run: 1 is fair.",
            (
                *_by_cc(
                    "throughput",
                    "Throughput by scenario",
                    flows,
                    lambda f: _times(f.throughput_bps, 1e-6),
                    "Mbit/s",
                ),
                *_delivery(flows),
                *_fairness(flows),
                *_gains(flows, notes),
            ),
        ),
        Section(
            "retransmissions",
            "Retransmissions",
            "Retransmissions ÷ packets sent.",
            _by_cc(
                "retransmissions",
                "Retransmission ratio by scenario",
                flows,
                lambda f: _times(f.retransmission_ratio, 100),
                "retransmissions in percent",
            ),
        ),
        Section(
            "comparison",
            "Significance of differences",
            "Kolmogorov–Smirnov tests: two congestion controls in one scenario, or one in two scenarios.",
            _tests(flows),
        ),
        Section("maps", "Conditions", "Medians over the flows of each condition.", _maps(flows)),
        Section(
            "tree",
            "Conditions that favour one congestion control",
            "A decision tree over the conditions of the runs; numbers are flows per outcome.",
            _tree(flows, notes),
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
        f"{runs} {'run' if runs == 1 else 'runs'}, {len(flows)} flows, {len(records.pairs)} verdicts",
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


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _by_cc(
    name: str,
    title: str,
    flows: Iterable[FlowRecord],
    of: Callable[[FlowRecord], float | None],
    unit: str,
) -> tuple[Figure, ...]:
    values: dict[str, dict[str, list[float | None]]] = {}
    for flow in flows:
        values.setdefault(flow.cc, {}).setdefault(flow.scenario, []).append(of(flow))
    return _boxed(name, title, values, unit)


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
        if pair.correlation is not None:
            its = values.setdefault(f"in truth {pair.truth}", {})
            its.setdefault(pair.scenario, []).append(pair.correlation)
    return _boxed("correlation", "Best correlation by scenario", values, "rank correlation") if values else ()


def _fairness(flows: Sequence[FlowRecord]) -> tuple[Figure, ...]:
    rates: dict[tuple[str, str], list[float]] = {}
    for flow in flows:
        if flow.throughput_bps is not None:
            rates.setdefault((flow.scenario, flow.run), []).append(flow.throughput_bps)
    values: dict[str, dict[str, list[float | None]]] = {"Jain's index": {}}
    for (scenario, _), its in rates.items():
        if len(its) > 1:
            values["Jain's index"].setdefault(scenario, []).append(jain_index(its))
    return _boxed("jain", "Jain's index by scenario", values, "Jain's index")


def _condition(flow: FlowRecord) -> Condition | None:
    """The conditions of the flow, in the order of `FACTORS`; rounded, so that equal ones compare equal."""
    factors = flow.factors
    if "rate_mbps" not in factors or "rtt_ms" not in factors:
        return None
    rtt = RTT_STEP_MS * max(round(factors["rtt_ms"] / RTT_STEP_MS), 1)
    return (
        round(factors["rate_mbps"], 3),
        float(rtt),
        round(factors.get("buffer_kb", 0.0), 3),
        round(factors.get("random_loss_percent", 0.0), 6),
    )


def _planes(conditions: Iterable[Condition]) -> list[tuple[int, int]]:
    """The pairs of factors for maps: rate and RTT, and each of them with every other factor that varies."""
    values = [set(column) for column in zip(*conditions, strict=True)]
    planes = [(RATE, RTT)]
    for factor in (BUFFER, RANDOM_LOSS):
        if len(values[factor]) > 1:
            planes += [(RATE, factor), (RTT, factor)]
    # A map of two constant factors would be one cell; rate and RTT are drawn in any case.
    return [plane for plane in planes if plane == (RATE, RTT) or any(len(values[one]) > 1 for one in plane)]


def _gains(flows: Sequence[FlowRecord], notes: list[str]) -> tuple[Figure, ...]:
    goodput: dict[Condition, dict[str, list[float]]] = {}
    for flow in flows:
        at = _condition(flow)
        if at is not None and flow.goodput_bps is not None:
            goodput.setdefault(at, {}).setdefault(flow.cc, []).append(flow.goodput_bps)
    gains = {
        at: gp_gain_percent(float(np.median(its["bbr"])), float(np.median(its["cubic"])))
        for at, its in goodput.items()
        if "bbr" in its and "cubic" in its
    }
    if not gains:
        notes.append(
            "no gain of goodput: no condition (rate, RTT, buffer, random loss) was met by both BBR and CUBIC"
        )
        return ()
    caption = "(goodput of BBR − goodput of CUBIC) ÷ goodput of CUBIC, medians of each condition"
    return tuple(
        heat_figure(
            "gp-gain" if (x, y) == (RATE, RTT) else f"gp-gain-{FACTOR_IDS[x]}-{FACTOR_IDS[y]}",
            f"GpGain of BBR over CUBIC by {FACTOR_NAMES[x]} and {FACTOR_NAMES[y]}",
            f"{caption}; a cell with several conditions shows their median.",
            heat_map([(at[x], at[y], gain) for at, gain in gains.items()]),
            x=FACTORS[x],
            y=FACTORS[y],
            value="percent",
            diverging=True,
        )
        for x, y in _planes(gains)
    )


def _maps(flows: Sequence[FlowRecord]) -> tuple[Figure, ...]:
    """Medians over scenario and congestion control, when there is more than one combination."""
    if len({flow.scenario for flow in flows}) * len({flow.cc for flow in flows}) < 2:
        return ()
    measures: tuple[tuple[str, str, str, Callable[[FlowRecord], float | None]], ...] = (
        ("map-loss", "Loss", "percent", lambda f: _times(f.loss_ratio, 100)),
        ("map-delay", "Mean delay", "ms", lambda f: _times(f.mean_delay_s, 1e3)),
        (
            "map-retransmissions",
            "Retransmission ratio",
            "percent",
            lambda f: _times(f.retransmission_ratio, 100),
        ),
        ("map-throughput", "Throughput", "Mbit/s", lambda f: _times(f.throughput_bps, 1e-6)),
    )
    return tuple(
        heat_figure(
            name,
            f"{title} by scenario and congestion control",
            "",
            heat_map([(flow.cc, flow.scenario, of(flow)) for flow in flows]),
            x="congestion control",
            y="scenario",
            value=unit,
        )
        for name, title, unit, of in measures
    )


def _tests(flows: Sequence[FlowRecord]) -> tuple[Table, ...]:
    rows: list[tuple[Cell, ...]] = []
    measures: tuple[tuple[str, Callable[[FlowRecord], float | None]], ...] = (
        ("loss", lambda f: f.loss_ratio),
        ("delay", lambda f: f.mean_delay_s),
        ("throughput", lambda f: f.throughput_bps),
    )
    groups: dict[tuple[str, str], list[FlowRecord]] = {}
    for flow in flows:
        groups.setdefault((flow.scenario, flow.cc), []).append(flow)
    for (one, its), (other, others) in combinations(groups.items(), 2):
        # Samples that differ in both scenario and congestion control show the effect of neither.
        if (one[0] == other[0]) == (one[1] == other[1]):
            continue
        for measure, of in measures:
            a, b = (np.array([of(f) for f in some], dtype=np.float64) for some in (its, others))
            found = kolmogorov_smirnov(a, b)
            if found is None or min(found.n_a, found.n_b) < 2:
                continue
            larger = ", ".join(one if np.nanmedian(a) > np.nanmedian(b) else other)
            rows.append(
                (
                    measure,
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
    caption = "p is exact; with two values on either side it cannot be below 0.33."
    return (Table("ks-tests", "Kolmogorov–Smirnov tests", caption, columns, tuple(rows)),)


def _tree(flows: Sequence[FlowRecord], notes: list[str]) -> tuple[Figure, ...]:
    """The tree of which congestion control has the larger median goodput under each condition."""
    known = [
        flow
        for flow in flows
        if flow.goodput_bps is not None and flow.factors and flow.loss_ratio is not None
    ]
    by_condition: dict[Condition, dict[str, list[float]]] = {}
    for flow in known:
        at = _condition(flow)
        if at is not None:
            by_condition.setdefault(at, {}).setdefault(flow.cc, []).append(flow.goodput_bps or 0.0)
    rows: list[dict[str, float]] = []
    labels: list[str] = []
    for flow in known:
        at = _condition(flow)
        medians = {} if at is None else {cc: float(np.median(its)) for cc, its in by_condition[at].items()}
        if at is not None and len(medians) > 1:
            rows.append(dict(zip(FACTORS, at, strict=True)) | {"loss, %": 100 * (flow.loss_ratio or 0.0)})
            labels.append(max(medians, key=lambda cc: medians[cc]))
    if len(rows) < MIN_TREE_SAMPLES or len(set(labels)) < 2:
        notes.append(
            f"no decision tree: {len(rows)} flows under conditions that several congestion controls met, "
            f"{len(set(labels))} outcomes; at least {MIN_TREE_SAMPLES} flows and two outcomes are needed"
        )
        return ()
    return (grown_tree("decision-tree", "Decision tree", rows, labels),)


def _trial(pair: PairRecord) -> Trial:
    return Trial(pair.detector, pair.scenario, pair.truth, pair.verdict, pair.score, pair.p, 0.0)
