# SPDX-License-Identifier: Apache-2.0
"""Ten flows through one bottleneck, n of them with a low-latency congestion control: figures 7, 8(a), 8(b).

A. Mishra, W. H. Tiu, B. Leong, "Are we heading towards a BBR-dominant internet?", IMC 2022, as reproduced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from scipy import stats

from weir.analysis.figures import Figure, Section, line_figure
from weir.campaign.outcome import Outcome
from weir.campaign.studies.measured import measured
from weir.campaign.studies.runs import (
    label,
    mean_goodput_mbps,
    mean_or_none,
    queueing_delay_ms,
    valid_of,
)
from weir.campaign.studies.statements import Comparison, compare, comparison_section, numbers_of

PUBLISHED = numbers_of("bbr_dominant")
FLOWS: int = PUBLISHED["flows"]
Runs = Sequence[Outcome]
Curve = Mapping[int, float]
"""Number of low-latency flows → value."""


def sections(outcomes: Sequence[Outcome]) -> tuple[Section, ...]:
    """The study's part of the page, from valid runs only."""
    valid = valid_of(outcomes)
    published = comparison_section(PUBLISHED, _comparisons(valid), len(valid))
    drawn = Section(
        "figures",
        "Figures 7 and 8",
        "The document gives no values of these curves. Dotted: numbers from its text.",
        tuple(figure for figure in _figures(valid) if figure.traces),
    )
    return published, drawn


def throughput(outcomes: Sequence[Outcome], low_latency: str, cc: str) -> Curve:
    """Mean goodput, Mbit/s, of the flows with `cc` in runs with the low-latency control `low_latency`."""
    found = {n: mean_goodput_mbps(runs, cc) for n, runs in _by_n(outcomes, low_latency).items()}
    return {n: value for n, value in found.items() if value is not None}


def delay(outcomes: Sequence[Outcome], low_latency: str) -> Curve:
    """Mean queueing delay, ms, in runs with the low-latency control `low_latency`."""
    found = {
        n: mean_or_none(map(queueing_delay_ms, runs)) for n, runs in _by_n(outcomes, low_latency).items()
    }
    return {n: value for n, value in found.items() if value is not None}


def _by_n(outcomes: Sequence[Outcome], low_latency: str) -> dict[int, list[Outcome]]:
    found: dict[int, list[Outcome]] = {}
    for outcome in outcomes:
        if label(outcome, "low_latency") == low_latency:
            found.setdefault(int(label(outcome, "n")), []).append(outcome)
    return dict(sorted(found.items()))


def _comparisons(valid: Runs) -> list[Comparison]:
    with_bbr = [outcome for outcome in valid if label(outcome, "low_latency") == "bbr"]
    with_vegas = [outcome for outcome in valid if label(outcome, "low_latency") == "vegas"]
    measures: dict[str, tuple[Callable[[Runs], float | None], Runs]] = {
        "fair_share": (_mean_of_flows, valid),
        "bbr_falls": (_falls, with_bbr),
        "cubic_ahead": (
            lambda runs: first_ahead(throughput(runs, "bbr", "bbr"), throughput(runs, "bbr", "cubic")),
            with_bbr,
        ),
        "delay_bound": (_largest_delay, with_bbr),
        "papers_delay": (_largest_delay, with_bbr),
        "delay_unaffected": (_range_percent, with_bbr),
        "delay_drops": (_drop, with_bbr),
        "vegas_starves": (
            lambda runs: mean_or_none(throughput(runs, "vegas", "vegas").values()),
            [outcome for outcome in with_vegas if int(label(outcome, "n")) < FLOWS],
        ),
    }
    return [compare(PUBLISHED, name, measured(of, runs)) for name, (of, runs) in measures.items()]


def _mean_of_flows(runs: Runs) -> float | None:
    return mean_or_none(
        flow["goodput_bps"] / 1e6 for o in runs for flow in o.measured if flow["goodput_bps"] is not None
    )


def _falls(runs: Runs) -> float | None:
    bbr = throughput(runs, "bbr", "bbr")
    return float(stats.spearmanr(list(bbr), list(bbr.values())).statistic) if len(bbr) > 2 else None


def _largest_delay(runs: Runs) -> float | None:
    return max(delay(runs, "bbr").values(), default=None)


def _mixed(runs: Runs) -> list[float]:
    """Mean queueing delays of n below ten."""
    return [value for n, value in delay(runs, "bbr").items() if n < FLOWS]


def _range_percent(runs: Runs) -> float | None:
    mixed = _mixed(runs)
    return 100 * (max(mixed) - min(mixed)) / (sum(mixed) / len(mixed)) if len(mixed) > 1 else None


def _drop(runs: Runs) -> float | None:
    alone, mixed = delay(runs, "bbr").get(FLOWS), _mixed(runs)
    return None if alone is None or not mixed else alone - min(mixed)


def first_ahead(bbr: Curve, cubic: Curve) -> float | None:
    """The smallest n from which CUBIC flows get more than BBR flows at every n; NaN if there is none.

    None if no n has both.
    """
    both = sorted(set(bbr) & set(cubic))
    if not both:
        return None
    behind = [n for n in both if cubic[n] <= bbr[n]]
    ahead = [n for n in both if not behind or n > behind[-1]]
    return float(ahead[0]) if ahead else math.nan


def _figures(valid: Sequence[Outcome]) -> tuple[Figure, ...]:
    names = list(dict.fromkeys(label(outcome, "low_latency") for outcome in valid))
    share = (1.0, PUBLISHED["fair_share_mbps"]), (float(FLOWS), PUBLISHED["fair_share_mbps"])
    figure_8a = _lines({cc.upper(): throughput(valid, "bbr", cc) for cc in ("bbr", "cubic")})
    delays = _lines({"with BBR": delay(valid, "bbr")})
    figure_7 = _lines({cc: throughput(valid, cc, cc) for cc in names})
    axis = "flows of ten that are not CUBIC"
    ends = (1.0, float(FLOWS))
    return (
        line_figure(
            "figure-8a",
            "Throughput of a flow (figure 8a)",
            "Mean goodput.",
            figure_8a,
            x=axis,
            y="Mbit/s",
            marks={"fair share, 10 Mbit/s": share} if figure_8a else {},
        ),
        line_figure(
            "figure-8b",
            "Queueing delay (figure 8b)",
            "Mean RTT minus that of the links. Dotted: the maximum given in the text.",
            delays,
            x=axis,
            y="ms",
            marks={
                f"{words}: {PUBLISHED[key]} ms": tuple((x, PUBLISHED[key]) for x in ends)
                for words, key in (
                    ("reproduction", "largest_delay_ms"),
                    ("paper", "papers_largest_delay_ms"),
                )
            }
            if delays
            else {},
        ),
        line_figure(
            "figure-7",
            "Throughput of a flow of low latency (figure 7)",
            "The congestion controls that the kernel has. PCC-Vivace, BBRv2 and Copa are not in Linux.",
            figure_7,
            x=axis,
            y="Mbit/s",
            marks={"fair share, 10 Mbit/s": share} if figure_7 else {},
        ),
    )


def _lines(curves: Mapping[str, Curve]) -> dict[str, list[tuple[float, float]]]:
    return {
        name: [(float(n), value) for n, value in curve.items()] for name, curve in curves.items() if curve
    }
