# SPDX-License-Identifier: Apache-2.0
"""Time series of one flow: loss (dropped and inferred), throughput and RTT per interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.analysis.tables import Floats, Ints, Packets, RttSamples


@dataclass(frozen=True)
class FlowSeries:
    """One value per interval; `time_s` is the middle of each, relative to `start_ns`.

    Loss ratios are packets lost ÷ packets sent in the interval, by the time of sending, NaN where nothing was
    sent; throughputs are frame bytes (without FCS) × 8 ÷ interval.
    """

    time_s: Floats
    sent_packets: Ints
    dropped_packets: Ints
    inferred_packets: Ints
    switch_loss_ratio: Floats
    inferred_loss_ratio: Floats
    sent_bps: Floats
    received_bps: Floats
    rtt_s: Floats
    """Median RTT of the interval; NaN where no sample arrived."""


def edges(start_ns: int, end_ns: int, interval_ns: int) -> Ints:
    """Edges of the intervals that cover [start, end); the last one may extend beyond the end."""
    if interval_ns <= 0:
        raise ValueError(f"interval of {interval_ns} ns; it must be positive")
    return np.arange(start_ns, max(end_ns, start_ns + 1) + interval_ns, interval_ns, dtype=np.int64)[
        : -(-max(end_ns - start_ns, 1) // interval_ns) + 1
    ]


def _count(times_ns: Ints, at: Ints, weights: Ints | None = None) -> Ints:
    """Events, or the sum of their weights, per interval; integer edges keep epoch nanoseconds exact."""
    index = np.searchsorted(at, times_ns, side="right") - 1
    inside = (index >= 0) & (index < len(at) - 1)
    chosen = None if weights is None else weights[inside].astype(np.float64)
    return np.rint(np.bincount(index[inside], chosen, minlength=len(at) - 1)).astype(np.int64)


def _medians(times_ns: Ints, values: Floats, at: Ints) -> Floats:
    result = np.full(len(at) - 1, np.nan)
    index = np.searchsorted(at, times_ns, side="right") - 1
    order = np.argsort(index, kind="stable")
    intervals, first = np.unique(index[order], return_index=True)
    for interval, group in zip(intervals, np.split(values[order], first[1:]), strict=True):
        if 0 <= interval < len(result) and len(group):
            result[interval] = np.median(group)
    return result


def flow_series(
    packets: Packets, rtts: RttSamples | None, start_ns: int, end_ns: int, interval_ns: int
) -> FlowSeries:
    """The series of one flow from `start_ns` to `end_ns` (sender's clock)."""
    at = edges(start_ns, end_ns, interval_ns)
    sent = _count(packets.sent_ns, at)
    dropped = _count(packets.sent_ns[packets.dropped], at)
    inferred = _count(packets.sent_ns[packets.inferred_lost], at)
    arrived = packets.received
    with np.errstate(invalid="ignore", divide="ignore"):
        switch_ratio, inferred_ratio = dropped / sent, inferred / sent
    per_second = np.float64(8e9 / interval_ns)
    return FlowSeries(
        time_s=np.asarray(((at[:-1] - start_ns) + interval_ns / 2) / 1e9, dtype=np.float64),
        sent_packets=sent,
        dropped_packets=dropped,
        inferred_packets=inferred,
        switch_loss_ratio=switch_ratio,
        inferred_loss_ratio=inferred_ratio,
        sent_bps=np.asarray(_count(packets.sent_ns, at, packets.wire_length) * per_second, dtype=np.float64),
        received_bps=np.asarray(
            _count(packets.received_ns[arrived], at, packets.wire_length[arrived]) * per_second,
            dtype=np.float64,
        ),
        rtt_s=(
            _medians(rtts.time_ns, rtts.rtt_ns / 1e9, at)
            if rtts is not None and len(rtts.time_ns)
            else np.full(len(at) - 1, np.nan)
        ),
    )
