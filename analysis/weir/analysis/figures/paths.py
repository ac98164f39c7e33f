# SPDX-License-Identifier: Apache-2.0
"""Figures of the benchmark over paths: errors over jitter and by property of the path, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weir.analysis.evaluate import Evaluation
from weir.analysis.figures.figure import (
    COLOURS,
    DASHES,
    Cell,
    Figure,
    Table,
    colour,
    line_figure,
    share_figure,
)
from weir.analysis.figures.study import Section, Study
from weir.analysis.paths.judging import ALL, PathEvaluation, in_ms
from weir.analysis.statistics import Share, share

TITLES: Mapping[str, str] = {
    "control": "congestion control of the two flows",
    "load": "what the second flow has to send",
    "queue": "a queue at the policer",
    "rate_mbps": "rate of the policers together, Mbit/s",
    "burst_ms": "burst, ms of the rate",
    "rtt_ms": "RTT of the first flow, ms",
    "rtt_ratio": "RTT of the second flow ÷ that of the first",
    "start_apart_s": "time between the starts, s",
    "other_flows": "number of other flows",
    "cross_traffic": "limits of the other flows ÷ rate of the policers",
    "front": "rate of a queue in front ÷ rate of the policers (below 1: no queue)",
    "loss_percent": "random loss, percent",
    "sent_mbps": "payload of the flow that sends less, Mbit/s",
    "lost_packets": "lost packets of the flow that lost less",
}
SHOWN_MS = (0.0, 1.0, 5.0)
"""Jitters of the figures by property."""


def wrong(one: Evaluation) -> Share:
    """The wrong verdicts among those on which the detector decided."""
    negatives, positives = one.false_negatives, one.false_positives
    return share(negatives.count + positives.count, negatives.of + positives.of)


def undecided(one: Evaluation) -> Share:
    """The pairs on which the detector did not decide."""
    return share(one.undecided, one.trials)


def path_study(found: Sequence[PathEvaluation], meta: str) -> Study:
    """The page of `weir evaluate --paths`; properties are shown for the first detector."""
    over_all = [one for one in found if one.factor == ALL]
    sections = [
        Section(
            "jitter",
            "Errors over jitter",
            "Mean delay before the policer. False positives: separate pairs judged shared; false "
            "negatives: shared pairs judged separate; both of the pairs on which the detector decided. "
            "Bars are exact 95 % intervals.",
            (
                _over_jitter("false-positives", "False positives", over_all, lambda one: one.false_positives),
                _over_jitter("false-negatives", "False negatives", over_all, lambda one: one.false_negatives),
                _over_jitter("cannot-tell", "Cannot tell", over_all, undecided),
                *_calibration(over_all),
                _numbers(over_all),
            ),
        ),
    ]
    if over_all:
        first = over_all[0].evaluation.detector
        its = [one for one in found if one.evaluation.detector == first and one.factor != ALL]
        sections += [
            _by_factor(first, factor, its) for factor in TITLES if any(i.factor == factor for i in its)
        ]
    return Study("Detectors over paths", meta, tuple(sections))


def jitter_text(seconds: float) -> str:
    """A jitter as people write it."""
    if not seconds:
        return "none"
    return f"{seconds * 1e6:g} µs" if seconds < 1e-3 else f"{seconds * 1e3:g} ms"


def _over_jitter(
    name: str, title: str, found: Sequence[PathEvaluation], of: Callable[[Evaluation], Share]
) -> Figure:
    """A line per detector, with the exact interval at each jitter."""
    lines: dict[str, list[tuple[str, Share]]] = {}
    for one in found:
        lines.setdefault(one.evaluation.detector, []).append((jitter_text(one.jitter_s), of(one.evaluation)))
    rows: list[tuple[Cell, ...]] = []
    traces: list[Mapping[str, Any]] = []
    for number, (detector, points) in enumerate(lines.items()):
        rows += [(detector, at, s.count, s.of, s.rate, s.low, s.high) for at, s in points]
        drawn = [(at, s, s.rate) for at, s in points if s.rate is not None]
        ink, dash = colour(number % COLOURS), ("solid", *DASHES)[number // COLOURS % (1 + len(DASHES))]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": detector,
                "x": [at for at, _, _ in drawn],
                "y": [100 * rate for _, _, rate in drawn],
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [100 * (s.high - rate) for _, s, rate in drawn],
                    "arrayminus": [100 * (rate - s.low) for _, s, rate in drawn],
                    "color": ink,
                    "thickness": 0.8,
                    "width": 2,
                },
                "customdata": [f"{s.count} of {s.of}" for _, s, _ in drawn],
                "hovertemplate": "%{x}: %{customdata}",
                "line": {"color": ink, "width": 1.7, "dash": dash},
                "marker": {"color": ink, "size": 5},
            }
        )
    order = list(dict.fromkeys(at for points in lines.values() for at, _ in points))
    return Figure(
        name,
        title,
        "",
        ("detector", "jitter", "count", "of", "rate", "low", "high"),
        tuple(rows),
        tuple(traces),
        {
            "xaxis": {"title": "mean jitter", "type": "category", "categoryarray": order},
            "yaxis": {"title": "percent", "range": [-2, 102]},
        },
        height=320 + 14 * len(lines),
    )


def _by_factor(detector: str, factor: str, found: Sequence[PathEvaluation]) -> Section:
    wrongs: dict[str, dict[str, Share]] = {}
    undecideds: dict[str, dict[str, Share]] = {}
    for one in found:
        if one.factor == factor and in_ms(one.jitter_s) in SHOWN_MS:
            at = f"jitter {jitter_text(one.jitter_s)}"
            wrongs.setdefault(at, {})[one.level] = wrong(one.evaluation)
            undecideds.setdefault(at, {})[one.level] = undecided(one.evaluation)
    return Section(
        factor,
        f"By {TITLES[factor]}",
        f"{detector}; all other properties as they were drawn.",
        (
            share_figure(f"{factor}-wrong", "Wrong", "Of the pairs on which it decided.", wrongs),
            share_figure(f"{factor}-cannot-tell", "Cannot tell", "Of all pairs.", undecideds),
        ),
    )


def _calibration(found: Sequence[PathEvaluation]) -> tuple[Figure, ...]:
    """p-values of separate pairs, of the first detector that has any, by jitter."""
    lines: dict[str, list[tuple[float, float]]] = {}
    chosen = next((one.evaluation.detector for one in found if len(one.evaluation.null_ps) >= 8), None)
    for one in found:
        ps = one.evaluation.null_ps
        if one.evaluation.detector == chosen and len(ps) >= 8:
            part = np.arange(1, len(ps) + 1) / len(ps)
            lines[f"jitter {jitter_text(one.jitter_s)}"] = list(zip(ps, part.tolist(), strict=True))
    if not lines:
        return ()
    return (
        line_figure(
            "calibration",
            f"p-values of separate pairs, {chosen}",
            "Part of the pairs whose p is at most x; calibrated p-values lie on the dotted line.",
            lines,
            x="p",
            y="part of the pairs",
            diagonal=True,
            square=True,
        ),
    )


def _numbers(found: Sequence[PathEvaluation]) -> Table:
    def part(its: Share) -> Cell:
        if its.rate is None:
            return None
        return f"{its.count} of {its.of} ({100 * its.low:.0f}–{100 * its.high:.0f} %)"

    rows: list[tuple[Cell, ...]] = [
        (
            one.evaluation.detector,
            jitter_text(one.jitter_s),
            one.evaluation.trials,
            one.evaluation.undecided,
            part(one.evaluation.false_negatives),
            part(one.evaluation.false_positives),
            None if one.evaluation.auc is None else round(one.evaluation.auc, 3),
            part(one.evaluation.p_below_level),
            None if one.evaluation.p_uniform is None else round(one.evaluation.p_uniform, 4),
            round(one.evaluation.cpu_s, 3),
        )
        for one in found
    ]
    columns = (
        *("detector", "jitter", "pairs", "cannot tell", "false negatives", "false positives", "AUC"),
        *("p < 0.05 under the null", "p of uniformity", "processor s per pair"),
    )
    return Table("over-jitter", "All numbers", "In brackets the exact 95 % interval.", columns, tuple(rows))
