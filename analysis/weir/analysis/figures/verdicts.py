# SPDX-License-Identifier: Apache-2.0
"""Figures of evaluations: errors with exact intervals, ROC curves, p-values under the null, cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir.analysis.evaluate import Evaluation
from weir.analysis.figures.figure import Cell, Figure, Table, line_figure, share_figure
from weir.analysis.statistics import Share, share


def verdict_items(found: Sequence[Evaluation]) -> tuple[Table, ...]:
    """All figures of the evaluations, and the table of their numbers."""
    return (
        *_errors("false-positives", "False positives: separate, judged shared", found, "false_positives"),
        *_errors("false-negatives", "False negatives: shared, judged separate", found, "false_negatives"),
        *_undecided(found),
        *_curves(found),
        *_calibration(found),
        *_cost(found),
        _numbers(found),
    )


def _errors(name: str, title: str, found: Sequence[Evaluation], which: str) -> tuple[Figure, ...]:
    shares: dict[str, dict[str, Share]] = {}
    for one in found:
        its: Share = getattr(one, which)
        if one.scenario != "all" and its.of:
            shares.setdefault(one.detector, {})[one.scenario] = its
    if not shares:
        return ()
    return (share_figure(name, title, "Of the pairs on which the detector decided.", shares),)


def _undecided(found: Sequence[Evaluation]) -> tuple[Figure, ...]:
    shares: dict[str, dict[str, Share]] = {}
    for one in found:
        if one.scenario != "all" and one.undecided:
            shares.setdefault(one.detector, {})[one.scenario] = share(one.undecided, one.trials)
    if not shares:
        return ()
    return (share_figure("cannot-tell", "Cannot tell", "Neither right nor wrong.", shares),)


def _curves(found: Sequence[Evaluation]) -> tuple[Figure, ...]:
    lines = {
        f"{one.detector} ({one.auc:.2f})": one.roc
        for one in found
        if one.scenario == "all" and one.roc and one.auc is not None
    }
    if not lines:
        return ()
    return (
        line_figure(
            "roc",
            "ROC curves over all scenarios",
            "A point per threshold of the detector's score; the area under the curve is in brackets.",
            lines,
            x="false positives",
            y="true positives",
            diagonal=True,
            square=True,
        ),
    )


def _calibration(found: Sequence[Evaluation]) -> tuple[Figure, ...]:
    lines = {}
    for one in found:
        if one.scenario == "all" and len(one.null_ps) >= 8:
            part = np.arange(1, len(one.null_ps) + 1) / len(one.null_ps)
            lines[one.detector] = list(zip(one.null_ps, part.tolist(), strict=True))
    if not lines:
        return ()
    return (
        line_figure(
            "calibration",
            "p-values of separate flows",
            "Part of the pairs whose p is at most x; calibrated p-values lie on the dotted line.",
            lines,
            x="p",
            y="part of the pairs",
            diagonal=True,
            square=True,
        ),
    )


def _cost(found: Sequence[Evaluation]) -> tuple[Table, ...]:
    rows: list[tuple[Cell, ...]] = [
        (one.detector, one.trials, round(one.cpu_s, 4), round(one.cpu_max_s, 4))
        for one in found
        if one.scenario == "all" and one.cpu_s > 0
    ]
    if not rows:
        return ()
    columns = ("detector", "pairs", "mean s", "longest s")
    return (Table("cost", "Processor seconds per pair", "", columns, tuple(rows)),)


def _numbers(found: Sequence[Evaluation]) -> Table:
    def part(its: Share) -> Cell:
        if its.rate is None:
            return None
        return f"{its.count} of {its.of} ({100 * its.low:.0f}–{100 * its.high:.0f} %)"

    rows: list[tuple[Cell, ...]] = [
        (
            one.detector,
            one.scenario,
            one.trials,
            one.undecided,
            part(one.false_negatives),
            part(one.false_positives),
            None if one.auc is None else round(one.auc, 3),
            part(one.p_below_level),
            None if one.p_uniform is None else round(one.p_uniform, 4),
        )
        for one in found
    ]
    columns = (
        *("detector", "scenario", "trials", "cannot tell", "false negatives", "false positives"),
        *("AUC", "p < 0.05 under the null", "p of uniformity"),
    )
    return Table("verdicts", "All numbers", "In brackets the exact 95 % interval.", columns, tuple(rows))
