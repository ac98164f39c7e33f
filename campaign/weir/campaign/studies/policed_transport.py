# SPDX-License-Identifier: Apache-2.0
"""TCP behind a rate limit: the effect of the limit's kind, rate and burst, of RTT and congestion control.

Compared with what is published on policers and their bursts: T. Flach et al., "An Internet-Wide Analysis of
Traffic Policing", SIGCOMM 2016, and the rules by which operators set bursts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weir.analysis.figures import Figure, Section, Table, box_figure, line_figure
from weir.analysis.figures.figure import Cell
from weir.analysis.statistics import jain_index
from weir.campaign.outcome import Outcome
from weir.campaign.studies.measured import measured
from weir.campaign.studies.runs import label, mean_or_none, payload_bps, queueing_delay_ms, rounded, valid_of
from weir.campaign.studies.statements import Comparison, compare, comparison_section, numbers_of
from weir.controlplane.units import parse_rate, parse_time

PUBLISHED = numbers_of("policed_transport")
RATE = "10 Mbit/s"
"""The rate of the parts without an axis of rates."""
ENOUGH_PERCENT = 90.0
PARTS = (
    *("alone", "other limits", "receive queues", "two flows", "two flows through receive queues"),
    *("Prague", "two flows of Prague"),
)
BUCKET, QUEUE = "bucket", "bucket with a queue"
Runs = Sequence[Outcome]
Measure = Callable[[Outcome], float | None]


def sections(outcomes: Runs) -> tuple[Section, ...]:
    """The study's part of the page, from valid runs only."""
    valid = [outcome for outcome in valid_of(outcomes) if utilization_percent(outcome) is not None]
    alone, others, queues, pairs, queued, prague, its_pairs = (valid_of(valid, part) for part in PARTS)
    return (
        comparison_section(PUBLISHED, _comparisons(alone, others), len(valid)),
        _alone(alone),
        _limits(alone, others),
        _receive_queues(queues),
        _pairs([*pairs, *queued, *its_pairs]),
        *([_prague(prague)] if prague else []),
    )


def rate_bps(outcome: Outcome) -> float:
    """The limit's rate, of frames."""
    return float(parse_rate(label(outcome, "rate") or RATE))


def milliseconds(outcome: Outcome, axis: str) -> float:
    """A duration on an axis of the campaign."""
    return parse_time(label(outcome, axis)) / 1e6


def utilization_percent(outcome: Outcome) -> float | None:
    """Goodput of all flows in percent of what the rate carries in full frames."""
    rates = [flow["goodput_bps"] for flow in outcome.measured if flow["goodput_bps"] is not None]
    return 100 * sum(rates) / payload_bps(rate_bps(outcome)) if rates else None


def retransmitted_percent(outcome: Outcome) -> float | None:
    """Retransmissions of all flows in percent of the packets that they sent."""
    sent = sum(flow["sent"] for flow in outcome.measured)
    return 100 * sum(flow["retransmissions"] for flow in outcome.measured) / sent if sent else None


def first_share_percent(outcome: Outcome) -> float | None:
    """The first flow's share in the goodput of two."""
    rates = {flow["name"]: flow["goodput_bps"] or 0.0 for flow in outcome.measured}
    return 100 * rates["one"] / sum(rates.values()) if sum(rates.values()) else None


def smallest_bursts(runs: Runs) -> dict[tuple[str, str, str], float | None]:
    """Rate, RTT and congestion control → least burst from which on 90 % of the rate are reached, ms."""
    found: dict[tuple[str, str, str], dict[float, list[float]]] = {}
    for outcome in runs:
        key = (label(outcome, "rate"), label(outcome, "rtt"), label(outcome, "congestion_control"))
        reached = utilization_percent(outcome) or 0.0
        found.setdefault(key, {}).setdefault(milliseconds(outcome, "burst"), []).append(reached)
    return {key: _least_enough(by_burst) for key, by_burst in found.items()}


def _least_enough(by_burst: Mapping[float, Sequence[float]]) -> float | None:
    least = None
    for burst in sorted(by_burst, reverse=True):
        if min(by_burst[burst]) < ENOUGH_PERCENT:
            break
        least = burst
    return least


def _comparisons(alone: Runs, others: Runs) -> list[Comparison]:
    queued = [one for one in others if label(one, "limit") == QUEUE]
    shared = [
        one
        for one in alone
        if label(one, "rate") == RATE
        and any(label(one, "burst") == label(other, "burst") for other in queued)
    ]
    cubic = [one for one in alone if label(one, "congestion_control") == "cubic"]
    values = {
        "loss": measured(lambda runs: _bucket_to_queue(runs, retransmitted_percent), [*shared, *queued]),
        "shaping": measured(
            lambda runs: 1 / ratio if (ratio := _bucket_to_queue(runs, utilization_percent)) else None,
            [*shared, *queued],
        ),
        "seconds": measured(lambda runs: max(_least_bursts(runs).values(), default=None), cubic),
        "bdp": measured(
            lambda runs: max(
                (burst / (parse_time(rtt) / 1e6) for (_, rtt, _), burst in _least_bursts(runs).items()),
                default=None,
            ),
            cubic,
        ),
    }
    return [compare(PUBLISHED, name, value) for name, value in values.items()]


def _least_bursts(runs: Runs) -> dict[tuple[str, str, str], float]:
    return {key: burst for key, burst in smallest_bursts(runs).items() if burst is not None}


def _bucket_to_queue(runs: Runs, measure: Measure) -> float | None:
    """The mean of a measure behind a plain bucket ÷ behind a bucket with a queue."""
    queued = [one for one in runs if label(one, "limit") == QUEUE]
    ours, theirs = (
        mean_or_none(map(measure, its))
        for its in ([one for one in runs if label(one, "limit") != QUEUE], queued)
    )
    return ours / theirs if ours is not None and theirs else None


def _alone(runs: Runs) -> Section:
    text = (
        "One flow behind a plain token bucket. Utilization is goodput in percent of what the rate carries in "
        f"full frames; the figures are of {RATE}, the tables of all rates."
    )
    if not runs:
        return Section("alone", "One flow and its burst", text, ())
    items: list[Table] = []
    for rtt in dict.fromkeys(label(one, "rtt") for one in runs):
        its = [one for one in runs if label(one, "rtt") == rtt and label(one, "rate") == RATE]
        name = rtt.replace(" ", "-")
        items += [
            _by_burst(f"utilization-{name}", f"Utilization, RTT {rtt}", its, utilization_percent),
            _by_burst(f"retransmitted-{name}", f"Retransmissions, RTT {rtt}", its, retransmitted_percent),
        ]
    return Section(
        "alone", "One flow and its burst", text, (*items, _smallest(runs), _every("alone-runs", runs))
    )


def _by_burst(name: str, title: str, runs: Runs, measure: Measure) -> Figure:
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in sorted(runs, key=lambda one: milliseconds(one, "burst")):
        value = measure(one)
        if value is not None:
            lines.setdefault(label(one, "congestion_control"), []).append((milliseconds(one, "burst"), value))
    return line_figure(name, title, "", lines, x="burst, ms at the rate", y="percent", log_x=True)


def _smallest(runs: Runs) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for (rate, rtt, control), burst in smallest_bursts(runs).items():
        kilobytes = None if burst is None else burst / 1e3 * parse_rate(rate) / 8 / 1e3
        bdp = None if burst is None else burst / (parse_time(rtt) / 1e6)
        rows.append((rate, rtt, control, burst, rounded(kilobytes), rounded(bdp, 2)))
    caption = f"Empty: {ENOUGH_PERCENT:g} % are not reached with any burst that was run."
    columns = ("rate", "RTT", "congestion control", "burst, ms", "burst, kB", "burst ÷ BDP")
    return Table(
        "smallest-burst",
        f"The least burst for {ENOUGH_PERCENT:g} % of the rate",
        caption,
        columns,
        tuple(rows),
    )


def _every(name: str, runs: Runs) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            *(
                label(one, "limit") or BUCKET,
                label(one, "rate") or RATE,
                label(one, "rtt"),
                label(one, "burst"),
            ),
            *(label(one, "congestion_control"), rounded(utilization_percent(one))),
            *(rounded(retransmitted_percent(one), 2), rounded(queueing_delay_ms(one))),
        )
        for one in runs
    ]
    columns = (
        "limit",
        "rate",
        "RTT",
        "burst",
        "congestion control",
        "utilization, %",
        "retransmitted, %",
        "delay, ms",
    )
    return Table(name, "All runs", "Delay is the mean RTT less that of the links.", columns, tuple(rows))


def _limits(alone: Runs, others: Runs) -> Section:
    text = (
        f"The same rate of {RATE} as a bucket without and with a queue of one burst, with two rates (half of "
        "it committed, the rest remarked), and with CE marks in place of drops (RFC 3168)."
    )
    if not others:
        return Section("limits", "Other limits", text, ())
    bursts = {label(one, "burst") for one in others}
    buckets = [one for one in alone if label(one, "rate") == RATE and label(one, "burst") in bursts]
    every = [*buckets, *others]
    items = [
        _boxes("limits-utilization", "Utilization by kind of limit", every, utilization_percent, log=True),
        _boxes("limits-retransmitted", "Retransmissions by kind of limit", every, retransmitted_percent),
    ]
    return Section("limits", "Other limits", text, (*items, _every("limits-runs", every)))


def _receive_queues(runs: Runs) -> Section:
    text = (
        f"The same rate of {RATE} as a queue in the receiver's kernel, which drops or marks by how long "
        "packets have waited (RFC 8289, 8033, 8290, 9332) and not by a bucket. The switch drops nothing here."
    )
    if not runs:
        return Section("receive-queues", "Queues in place of policers", text, ())
    items = [
        _boxes("receive-queues-delay", "Delay by discipline", runs, queueing_delay_ms, unit="ms"),
        _boxes("receive-queues-retransmitted", "Retransmissions by discipline", runs, retransmitted_percent),
    ]
    every = _every("receive-queues-runs", runs)
    return Section("receive-queues", "Queues in place of policers", text, (*items, every))


def _prague(runs: Runs) -> Section:
    text = (
        f"TCP Prague, the congestion control of L4S (RFC 9330), at {RATE} behind limits of both kinds. It "
        "sends ECT(1), and Accurate ECN (RFC 9768) tells it how many packets were marked."
    )
    items = [
        _boxes("prague-utilization", "Utilization by kind of limit", runs, utilization_percent, log=True),
        _boxes("prague-delay", "Delay by kind of limit", runs, queueing_delay_ms, unit="ms"),
    ]
    return Section("prague", "Prague", text, (*items, _every("prague-runs", runs)))


def _boxes(
    name: str, title: str, runs: Runs, measure: Measure, *, unit: str = "percent", log: bool = False
) -> Figure:
    values: dict[str, dict[str, list[float | None]]] = {}
    for one in runs:
        its = values.setdefault(label(one, "congestion_control"), {})
        its.setdefault(label(one, "limit") or BUCKET, []).append(measure(one))
    over = "Over RTTs and bursts." if any(label(one, "burst") for one in runs) else "Over RTTs."
    return box_figure(name, title, over, values, unit=unit, log=log)


def _pairs(runs: Runs) -> Section:
    text = f"Two flows of one sender, which start together, at {RATE}. The share is that of the first flow."
    if not runs:
        return Section("pairs", "Who starves whom", text, ())
    values: dict[str, dict[str, list[float | None]]] = {}
    for one in runs:
        values.setdefault(label(one, "pair"), {}).setdefault(label(one, "limit"), []).append(
            first_share_percent(one)
        )
    rows: list[tuple[Cell, ...]] = [
        (
            *(label(one, "pair"), label(one, "limit"), label(one, "rtt"), label(one, "burst")),
            *(rounded(first_share_percent(one)), rounded(_fairness(one), 2)),
            *(rounded(utilization_percent(one)), rounded(retransmitted_percent(one), 2)),
        )
        for one in runs
    ]
    columns = (
        *("flows", "limit", "RTT", "burst", "share of the first, %", "Jain's index", "utilization, %"),
        "retransmitted, %",
    )
    items = (
        box_figure("pairs-share", "The first flow's share", "Over RTTs and bursts.", values, unit="percent"),
        Table("pairs-runs", "All runs of two flows", "", columns, tuple(rows)),
    )
    return Section("pairs", "Who starves whom", text, items)


def _fairness(outcome: Outcome) -> float | None:
    return jain_index([flow["goodput_bps"] or 0.0 for flow in outcome.measured])
