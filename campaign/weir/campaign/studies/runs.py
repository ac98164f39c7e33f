# SPDX-License-Identifier: Apache-2.0
"""Numbers that several studies extract from runs: goodputs, shares, delays, and BBR versus CUBIC."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.analysis.figures import Figure, grown_tree
from weir.analysis.statistics import (
    Interval,
    Share,
    bandwidth_share,
    gp_gain_percent,
    median_interval,
    share,
)
from weir.campaign.load import PART
from weir.campaign.outcome import Outcome
from weir.controlplane.config.values import FRAME_BYTES

MIN_TREE_SAMPLES = 4
SEGMENT_BYTES = 1448
"""Payload of a full frame over IPv4 with time stamps."""


def label(outcome: Outcome, axis: str) -> str:
    """The label of the run's cell on an axis; empty if the cell does not have the axis."""
    return str(outcome.cell.get(axis, ""))


def payload_bps(rate_bps: float) -> float:
    """The share of payload in a rate of full frames."""
    return rate_bps * SEGMENT_BYTES / FRAME_BYTES


def rounded(value: float | None, digits: int = 1) -> float | None:
    """Round a number for a table; None stays None."""
    return None if value is None else round(value, digits)


def valid_of(outcomes: Iterable[Outcome], part: str | None = None) -> list[Outcome]:
    """The valid runs, optionally of one part of the campaign."""
    return [o for o in outcomes if o.valid and (part is None or label(o, "part") == part)]


def goodputs_mbps(outcome: Outcome, cc: str) -> list[float]:
    """Goodput of each measured flow with this congestion control."""
    return [
        f["goodput_bps"] / 1e6 for f in outcome.measured if f["cc"] == cc and f["goodput_bps"] is not None
    ]


def mean_or_none(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def mean_goodput_mbps(outcomes: Iterable[Outcome], cc: str) -> float | None:
    """Mean goodput over the flows of each run, then over the runs."""
    return mean_or_none(mean_or_none(goodputs_mbps(outcome, cc)) for outcome in outcomes)


def share_percent(outcome: Outcome, cc: str) -> float | None:
    """Share of `cc` in the goodput of a run of one BBR and one CUBIC flow; None for other runs."""
    rates = {name: goodputs_mbps(outcome, name) for name in ("bbr", "cubic")}
    if any(len(its) != 1 for its in rates.values()):
        return None
    share = bandwidth_share(rates[cc][0], [its[0] for its in rates.values()])
    return None if share is None else 100 * share


def queueing_delay_ms(outcome: Outcome) -> float | None:
    """Mean RTT of its measured flows, minus the delay of their links in both directions."""
    delays = {host.name: host.delay_s for host in outcome.manifest.hosts}
    return mean_or_none(
        1e3 * (flow["min_rtt_s"] + flow["mean_delay_s"] - delays[flow["src_host"]] - delays[flow["dst_host"]])
        for flow in outcome.measured
        if flow["min_rtt_s"] is not None and flow["mean_delay_s"] is not None
    )


def bottleneck_mbps(outcome: Outcome) -> float:
    """The lowest rate of its hosts' links; infinite if none is limited."""
    rates = [host.rate_bps for host in outcome.manifest.hosts if host.rate_bps]
    return min(rates, default=math.inf) / 1e6


@dataclass(frozen=True)
class Duel:
    """BBR alone versus CUBIC alone under one condition; medians over the runs."""

    cell: Mapping[str, str]
    bbr_mbps: float
    cubic_mbps: float
    bbr_interval: Interval | None
    """Of the median goodput, Mbit/s; None with one run."""
    cubic_interval: Interval | None
    bbr_retransmissions: float
    cubic_retransmissions: float
    rate_mbps: float
    """Configured rate of the bottleneck."""

    @property
    def winner(self) -> str:
        """The congestion control with more goodput."""
        return "BBR" if self.bbr_mbps > self.cubic_mbps else "CUBIC"

    @property
    def gp_gain(self) -> float | None:
        """GpGain of BBR over CUBIC, in percent."""
        return gp_gain_percent(self.bbr_mbps, self.cubic_mbps)

    @property
    def retransmission_ratio(self) -> float:
        """Retransmissions of BBR ÷ those of CUBIC, or ÷ 1 if CUBIC has none."""
        return self.bbr_retransmissions / max(self.cubic_retransmissions, 1)


def duels(outcomes: Iterable[Outcome], axis: str = "cc") -> list[Duel]:
    """The conditions under which both were run, in order; `axis` is that of the congestion control.

    Runs of several parts under the same condition are counted together.
    """
    by_condition: dict[tuple[tuple[str, str], ...], dict[str, list[Mapping[str, Any]]]] = {}
    rates: dict[tuple[tuple[str, str], ...], float] = {}
    for outcome in outcomes:
        condition = tuple((name, value) for name, value in outcome.cell.items() if name not in (axis, PART))
        rates[condition] = bottleneck_mbps(outcome)
        its = by_condition.setdefault(condition, {}).setdefault(label(outcome, axis), [])
        its += [flow for flow in outcome.measured if flow["goodput_bps"] is not None]
    return [
        Duel(
            cell=dict(condition),
            bbr_mbps=_median(flows["bbr"], "goodput_bps") / 1e6,
            cubic_mbps=_median(flows["cubic"], "goodput_bps") / 1e6,
            bbr_interval=_interval_mbps(flows["bbr"]),
            cubic_interval=_interval_mbps(flows["cubic"]),
            bbr_retransmissions=_median(flows["bbr"], "retransmissions"),
            cubic_retransmissions=_median(flows["cubic"], "retransmissions"),
            rate_mbps=rates[condition],
        )
        for condition, flows in by_condition.items()
        if flows.get("bbr") and flows.get("cubic")
    ]


def _median(flows: Sequence[Mapping[str, Any]], key: str) -> float:
    return float(statistics.median(flow[key] for flow in flows))


def _interval_mbps(flows: Sequence[Mapping[str, Any]]) -> Interval | None:
    return median_interval([flow["goodput_bps"] / 1e6 for flow in flows])


def won(found: Sequence[Duel], winner: str) -> Share:
    """How many of the duels `winner` won."""
    return share(sum(duel.winner == winner for duel in found), len(found))


def duel_tree(
    rows: Sequence[Mapping[str, float]], winners: Sequence[str], name: str, title: str
) -> tuple[Figure, ...]:
    """A decision tree that predicts the winner from the conditions; empty below `MIN_TREE_SAMPLES`."""
    return (grown_tree(name, title, rows, winners),) if len(rows) >= MIN_TREE_SAMPLES else ()
