# SPDX-License-Identifier: Apache-2.0
"""Numbers of runs that several studies need: of cells, of flows by congestion control, of two runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.analysis.figures import Figure, grown_tree
from weir.analysis.statistics import bandwidth_share, gp_gain_percent
from weir.campaign.outcome import Outcome

MIN_TREE_SAMPLES = 4


def label(outcome: Outcome, axis: str) -> str:
    """The label of its cell on an axis; empty on one that it does not have."""
    return str(outcome.cell.get(axis, ""))


def rounded(value: float | None, digits: int = 1) -> float | None:
    """A number as a table shows it."""
    return None if value is None else round(value, digits)


def valid_of(outcomes: Iterable[Outcome], part: str | None = None) -> list[Outcome]:
    """The runs that count, of one part of the campaign."""
    return [o for o in outcomes if o.valid and (part is None or label(o, "part") == part)]


def goodputs_mbps(outcome: Outcome, cc: str) -> list[float]:
    """Goodput of each measured flow with this congestion control."""
    return [
        f["goodput_bps"] / 1e6 for f in outcome.measured if f["cc"] == cc and f["goodput_bps"] is not None
    ]


def mean_or_none(values: Iterable[float | None]) -> float | None:
    """The mean of the known ones; None of nothing."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def mean_goodput_mbps(outcomes: Iterable[Outcome], cc: str) -> float | None:
    """Mean over the flows of each run, then over the runs."""
    return mean_or_none(mean_or_none(goodputs_mbps(outcome, cc)) for outcome in outcomes)


def share_percent(outcome: Outcome, cc: str) -> float | None:
    """One congestion control's part of the goodput of a BBR and a CUBIC flow; None unless there are both."""
    rates = {name: goodputs_mbps(outcome, name) for name in ("bbr", "cubic")}
    if any(len(its) != 1 for its in rates.values()):
        return None
    part = bandwidth_share(rates[cc][0], [its[0] for its in rates.values()])
    return None if part is None else 100 * part


def queueing_delay_ms(outcome: Outcome) -> float | None:
    """Mean RTT of its measured flows above the delay of their links, both ways."""
    delays = {host.name: host.delay_s for host in outcome.manifest.hosts}
    return mean_or_none(
        1e3 * (flow["min_rtt_s"] + flow["mean_delay_s"] - delays[flow["src_host"]] - delays[flow["dst_host"]])
        for flow in outcome.measured
        if flow["min_rtt_s"] is not None and flow["mean_delay_s"] is not None
    )


def bottleneck_mbps(outcome: Outcome) -> float:
    """The lowest rate of its hosts' links; infinite where none has one."""
    rates = [host.rate_bps for host in outcome.manifest.hosts if host.rate_bps]
    return min(rates, default=math.inf) / 1e6


@dataclass(frozen=True)
class Duel:
    """BBR alone and CUBIC alone under one condition; medians over the runs."""

    cell: Mapping[str, str]
    bbr_mbps: float
    cubic_mbps: float
    bbr_retransmissions: float
    cubic_retransmissions: float
    rate_mbps: float
    """Of the bottleneck, as it was configured."""

    @property
    def winner(self) -> str:
        """Who has more goodput."""
        return "BBR" if self.bbr_mbps > self.cubic_mbps else "CUBIC"

    @property
    def gp_gain(self) -> float | None:
        """GpGain of BBR over CUBIC, in percent."""
        return gp_gain_percent(self.bbr_mbps, self.cubic_mbps)

    @property
    def retransmission_ratio(self) -> float:
        """Retransmissions of BBR ÷ those of CUBIC, of which none count as one."""
        return self.bbr_retransmissions / max(self.cubic_retransmissions, 1)


def duels(outcomes: Iterable[Outcome], axis: str = "cc") -> list[Duel]:
    """The conditions under which both were run, in order; the label of `axis` says which it was."""
    by_condition: dict[tuple[tuple[str, str], ...], dict[str, list[Mapping[str, Any]]]] = {}
    rates: dict[tuple[tuple[str, str], ...], float] = {}
    for outcome in outcomes:
        condition = tuple((name, value) for name, value in outcome.cell.items() if name != axis)
        rates[condition] = bottleneck_mbps(outcome)
        its = by_condition.setdefault(condition, {}).setdefault(label(outcome, axis), [])
        its += [flow for flow in outcome.measured if flow["goodput_bps"] is not None]
    return [
        Duel(
            cell=dict(condition),
            bbr_mbps=_median(flows["bbr"], "goodput_bps") / 1e6,
            cubic_mbps=_median(flows["cubic"], "goodput_bps") / 1e6,
            bbr_retransmissions=_median(flows["bbr"], "retransmissions"),
            cubic_retransmissions=_median(flows["cubic"], "retransmissions"),
            rate_mbps=rates[condition],
        )
        for condition, flows in by_condition.items()
        if flows.get("bbr") and flows.get("cubic")
    ]


def _median(flows: Sequence[Mapping[str, Any]], key: str) -> float:
    return float(statistics.median(flow[key] for flow in flows))


def duel_tree(
    rows: Sequence[Mapping[str, float]], winners: Sequence[str], name: str, title: str
) -> tuple[Figure, ...]:
    """The decision tree that tells by the conditions who wins; nothing of too few conditions."""
    return (grown_tree(name, title, rows, winners),) if len(rows) >= MIN_TREE_SAMPLES else ()
