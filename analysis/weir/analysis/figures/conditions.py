# SPDX-License-Identifier: Apache-2.0
"""Figures over the conditions of flows: BBR's gain of goodput over CUBIC, the tree of who has more. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from weir.analysis.figures.figure import Figure, heat_figure
from weir.analysis.figures.records import FlowRecord
from weir.analysis.figures.trees import grown_tree
from weir.analysis.statistics import gp_gain_percent, heat_map
from weir.rundir.plural import plural

MIN_TREE_SAMPLES = 8
RTT_STEP_MS = 5
"""Minimum RTTs differ from run to run under one condition, so they are rounded to multiples of this."""
Condition = tuple[float, float, float, float, float]
"""Values of `FACTORS`."""
Gains = dict[Condition, float | None]
"""BBR's gain in percent; None where CUBIC had no goodput."""
Plane = tuple[int, int]
"""The factors on the two axes of a map."""


class Factor(NamedTuple):
    """Something that differs between conditions."""

    id: str
    """In the names of files."""
    name: str
    unit: str
    axis: str


FACTORS = (
    Factor("rate", "rate", "Mbit/s", "bottleneck, Mbit/s"),
    Factor("rtt", "RTT", "ms", "RTT, ms"),
    Factor("buffer", "burst or queue", "kB", "burst or queue, kB"),
    Factor("random-loss", "random loss", "%", "random loss, %"),
    Factor("flows", "measured flows", "at once", "measured flows at once"),
)
RATE, RTT = 0, 1


def conditions(flows: Sequence[FlowRecord]) -> list[Condition | None]:
    """The condition of each flow; rounded, so that equal ones compare equal. None without rate or RTT."""
    at_once = Counter((flow.run, flow.scenario, flow.phase) for flow in flows)
    return [_condition(flow.factors, at_once[flow.run, flow.scenario, flow.phase]) for flow in flows]


def _condition(factors: Mapping[str, float], at_once: int) -> Condition | None:
    if "rate_mbps" not in factors or "rtt_ms" not in factors:
        return None
    return (
        round(factors["rate_mbps"], 3),
        float(RTT_STEP_MS * max(round(factors["rtt_ms"] / RTT_STEP_MS), 1)),
        round(factors.get("buffer_kb", 0.0), 3),
        round(factors.get("random_loss_percent", 0.0), 6),
        float(at_once),
    )


def gain_maps(flows: Sequence[FlowRecord], notes: list[str]) -> tuple[Figure, ...]:
    """BBR's gain over CUBIC: a map per pair of factors that vary, with the other factors held fixed.

    Of the values of the other factors, a map has those that most conditions share. A map that is not
    more than half full is left out; if no map is left, one has all conditions.
    """
    gains = _gains(flows)
    if not gains:
        notes.append(
            "no gain of goodput: no condition (rate, RTT, buffer, random loss, flows at once) was met by "
            "both BBR and CUBIC"
        )
        return ()
    found = []
    for plane in combinations(range(len(FACTORS)), 2):
        fixed, its = _largest_slice(plane, gains)
        if _filled(plane, its):
            found.append(_gain_map(plane, its, f"; {fixed}"))
    if found:
        return tuple(found)
    varying = [number for number in range(len(FACTORS)) if len({at[number] for at in gains}) > 1]
    x, y, *_ = dict.fromkeys([*varying, RATE, RTT])
    return (_gain_map((x, y), gains, "; a cell with several conditions shows their median"),)


def _gains(flows: Sequence[FlowRecord]) -> Gains:
    """BBR's gain in percent under each condition that both congestion controls met."""
    goodput: dict[Condition, dict[str, list[float]]] = {}
    for flow, at in zip(flows, conditions(flows), strict=True):
        if at is not None and flow.goodput_bps is not None:
            goodput.setdefault(at, {}).setdefault(flow.cc, []).append(flow.goodput_bps)
    return {
        at: gp_gain_percent(float(np.median(its["bbr"])), float(np.median(its["cubic"])))
        for at, its in goodput.items()
        if "bbr" in its and "cubic" in its
    }


def _largest_slice(plane: Plane, gains: Gains) -> tuple[str, Gains]:
    """The conditions with the commonest values of the factors that are not in the plane, and these values.

    Of values that are equally common, the largest.
    """
    others = [number for number in range(len(FACTORS)) if number not in plane]
    slices: dict[tuple[float, ...], Gains] = {}
    for at, gain in gains.items():
        slices.setdefault(tuple(at[number] for number in others), {})[at] = gain
    values, its = max(slices.items(), key=lambda of: (len(of[1]), of[0]))
    fixed = [
        f"{FACTORS[number].name} {value:g} {FACTORS[number].unit}"
        for number, value in zip(others, values, strict=True)
    ]
    return ", ".join(fixed), its


def _filled(plane: Plane, gains: Gains) -> bool:
    """Whether both factors vary and more than half of the map's cells have a value."""
    columns, lines = ({at[number] for at in gains} for number in plane)
    return min(len(columns), len(lines)) > 1 and 2 * len(gains) > len(columns) * len(lines)


def _gain_map(plane: Plane, gains: Gains, more: str) -> Figure:
    x, y = plane
    return heat_figure(
        "gp-gain" if set(plane) == {RATE, RTT} else f"gp-gain-{FACTORS[x].id}-{FACTORS[y].id}",
        f"GpGain of BBR over CUBIC by {FACTORS[x].name} and {FACTORS[y].name}",
        f"(goodput of BBR − goodput of CUBIC) ÷ goodput of CUBIC, medians of each condition{more}.",
        heat_map([(at[x], at[y], gain) for at, gain in gains.items()]),
        x=FACTORS[x].axis,
        y=FACTORS[y].axis,
        value="percent",
        diverging=True,
    )


def winner_tree(flows: Sequence[FlowRecord], notes: list[str]) -> tuple[Figure, ...]:
    """The tree of which congestion control has the larger median goodput under each condition."""
    goodput: dict[Condition, dict[str, list[float]]] = {}
    known: list[tuple[Condition, float]] = []
    for flow, at in zip(flows, conditions(flows), strict=True):
        if at is not None and flow.goodput_bps is not None and flow.loss_ratio is not None:
            goodput.setdefault(at, {}).setdefault(flow.cc, []).append(flow.goodput_bps)
            known.append((at, flow.loss_ratio))
    winners = {
        at: max(its, key=lambda cc: float(np.median(its[cc]))) for at, its in goodput.items() if len(its) > 1
    }
    names = [factor.axis for factor in FACTORS]
    compared = [(at, loss_ratio) for at, loss_ratio in known if at in winners]
    labels = [winners[at] for at, _ in compared]
    if len(labels) < MIN_TREE_SAMPLES or len(set(labels)) < 2:
        notes.append(
            f"no decision tree: {plural(len(labels), 'flow')} under conditions that several congestion "
            f"controls met, outcomes: {len(set(labels))}; "
            f"at least {MIN_TREE_SAMPLES} flows and two outcomes are needed"
        )
        return ()
    rows = [dict(zip(names, at, strict=True)) | {"loss, %": 100 * loss_ratio} for at, loss_ratio in compared]
    return (grown_tree("decision-tree", "Decision tree", rows, labels),)
