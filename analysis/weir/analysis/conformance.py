# SPDX-License-Identifier: Apache-2.0
"""Compares the bytes that a policer passed with its configuration: rate × time + burst.

Times are those at the policer (the switch's clock). A token bucket of rate r and burst b passes at most
r·T + b bytes in any window of length T. While it is never full, it passes exactly r·T plus the bytes by which
its level fell, at most b. Linear time after sorting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.analysis.tables import Bools, Floats, Ints

WINDOW_NS = 5_000_000_000


@dataclass(frozen=True)
class FirstBurst:
    """The burst from the last time at which the bucket was full to the first drop after it."""

    passed_bytes: int
    expected_bytes: float
    """burst + rate × elapsed; at the drop less than one frame of it can be left."""
    elapsed_s: float


LONG_RUN_NS = 1_000_000_000
LONG_RUN_BYTES = 1_500_000
"""Shortest long run; one frame at each of its ends is then at most 0.2 % of it."""


@dataclass(frozen=True)
class LongRun:
    """The longest time from drop to drop in which the bucket was never full: its throughput is the rate.

    `error_percent` is that of `throughput_bps` against the configured rate.
    """

    span_s: float
    throughput_bps: float
    error_percent: float


@dataclass(frozen=True)
class Conformance:
    """The difference between the passed bytes of one policer and its configuration, over windows of length T.

    `excess_percent`: the most that any window passed above rate × T + burst, relative to that bound; negative
    when every window stayed below. `saturated_deviation_percent`: the largest |bytes − rate × T| relative to
    rate × T over the windows in which the bucket was never full; None when there is no such window.
    `rate_error_percent`: the same from a drop to the first drop at least T later. The bucket held less than a
    frame at both ends, so this is the error of the rate, without changes of the bucket's level.
    `deviation_percent`: the figure to quote, the larger of saturated deviation and positive excess; None when
    the policer was not saturated and no window exceeded the bound. `offered_bps` is the rate of all packets,
    from the first to the last; None for a capture shorter than the window.
    """

    window_s: float
    windows: int
    saturated_windows: int
    excess_percent: float | None
    saturated_deviation_percent: float | None
    rate_error_percent: float | None
    deviation_percent: float | None
    first_burst: FirstBurst | None
    long_run: LongRun | None = None
    offered_bps: float | None = None


def bucket_deficit(
    times_ns: Ints, wire_bytes: Ints, passed: Bools, rate_bps: float, burst_bytes: float
) -> Floats:
    """The bytes missing from a full token bucket just before each packet; 0 exactly where it is full.

    The bucket starts full, and a packet that passed takes its bytes. A drop shows that the bucket held less
    than that frame, so the level is corrected at each drop: errors of the policer's rate or of the clocks do
    not accumulate over the run.
    """
    passed_bytes = np.where(passed, wire_bytes, 0)
    # The level of a bucket that is never full and never corrected; both only raise it, for all later packets.
    level = np.cumsum(passed_bytes) - passed_bytes - rate_bps / 8e9 * (times_ns - times_ns[0])
    raised = -level
    after_drop = np.where(passed, -np.inf, burst_bytes - wire_bytes - level)
    raised[1:] = np.maximum(raised[1:], after_drop[:-1])
    deficit: Floats = level + np.maximum.accumulate(raised)
    return deficit


def first_burst(
    times_ns: Ints, wire_bytes: Ints, passed: Bools, rate_bps: float, burst_bytes: float
) -> FirstBurst | None:
    """The burst that passed before the first drop, packets in order of time; None without a drop."""
    if passed.all():
        return None
    drop = int(np.flatnonzero(~passed)[0])
    until = slice(drop + 1)
    deficit = bucket_deficit(times_ns[until], wire_bytes[until], passed[until], rate_bps, burst_bytes)
    full = int(np.flatnonzero(deficit == 0)[-1])
    elapsed_ns = int(times_ns[drop] - times_ns[full])
    return FirstBurst(
        passed_bytes=int(wire_bytes[full:drop].sum()),
        expected_bytes=burst_bytes + rate_bps / 8e9 * elapsed_ns,
        elapsed_s=elapsed_ns / 1e9,
    )


def conformance(
    times_ns: Ints,
    wire_bytes: Ints,
    passed: Bools,
    rate_bps: float,
    burst_bytes: float,
    window_ns: int = WINDOW_NS,
) -> Conformance:
    """Compare a policer's packets with its rate and burst (arrays of one length, any order).

    A capture shorter than the window gives no window, and None for every percentage.
    """
    order = np.argsort(times_ns, kind="stable")
    times, sizes, pass_ = times_ns[order], wire_bytes[order], passed[order]
    allowed = rate_bps / 8e9 * window_ns
    if len(times) == 0 or times[-1] - times[0] < window_ns:
        burst = first_burst(times, sizes, pass_, rate_bps, burst_bytes) if len(times) else None
        return Conformance(window_ns / 1e9, 0, 0, None, None, None, None, burst)

    bytes_passed = np.where(pass_, sizes, 0).astype(np.int64)
    before = np.concatenate(([0], np.cumsum(bytes_passed)))
    starts = np.flatnonzero(times <= times[-1] - window_ns)

    # The fullest windows are closed and begin with a packet: [t, t + T].
    ends = np.searchsorted(times, times[starts] + window_ns, side="right")
    fullest = before[ends] - before[starts]
    bound = allowed + burst_bytes
    excess = float((fullest.max() - bound) / bound)

    # The emptiest windows are open and begin just after a packet: (t, t + T).
    ends_open = np.searchsorted(times, times[starts] + window_ns, side="left")
    emptiest = before[ends_open] - before[np.minimum(starts + 1, ends_open)]

    # A bucket full just before packet k filled up after packet k − 1, so include the packet after the window.
    deficit = bucket_deficit(times, sizes, pass_, rate_bps, burst_bytes)
    full_before = np.concatenate(([0], np.cumsum(deficit == 0)))
    last = np.minimum(ends + 1, len(times))
    saturated = full_before[last] - full_before[starts] == 0
    deviation = None
    if saturated.any():
        worst = max(
            float(np.abs(fullest[saturated] - allowed).max()),
            float(np.abs(emptiest[saturated] - allowed).max()),
        )
        deviation = worst / allowed * 100
    # From drop to drop: bytes passed between them against rate × time.
    error = None
    drops = np.flatnonzero(~pass_)
    later = np.searchsorted(times[drops], times[drops] + window_ns, side="left")
    first, second = drops[later < len(drops)], drops[later[later < len(drops)]]
    unbroken = full_before[second + 1] - full_before[first + 1] == 0
    if unbroken.any():
        first, second = first[unbroken], second[unbroken]
        due = rate_bps / 8e9 * (times[second] - times[first])
        error = float(np.abs((before[second] - before[first]) / due - 1).max()) * 100
    return Conformance(
        window_s=window_ns / 1e9,
        windows=len(starts),
        saturated_windows=int(saturated.sum()),
        excess_percent=excess * 100,
        saturated_deviation_percent=deviation,
        rate_error_percent=error,
        deviation_percent=_figure(deviation, excess * 100),
        first_burst=first_burst(times, sizes, pass_, rate_bps, burst_bytes),
        long_run=_long_run(times[drops], before[drops], full_before[drops + 1], rate_bps),
        offered_bps=float(sizes[:-1].sum()) * 8e9 / float(times[-1] - times[0]),
    )


def _long_run(times_ns: Ints, passed_before: Ints, full_before: Ints, rate_bps: float) -> LongRun | None:
    """The arguments are arrays over drops: time, bytes passed before, how often the bucket had been full."""
    if len(times_ns) == 0:
        return None
    _, first = np.unique(full_before, return_index=True)
    last = np.concatenate((first[1:], [len(times_ns)])) - 1
    spans = times_ns[last] - times_ns[first]
    passed = passed_before[last] - passed_before[first]
    enough = (spans >= LONG_RUN_NS) & (passed >= LONG_RUN_BYTES)
    if not enough.any():
        return None
    longest = int(np.flatnonzero(enough)[np.argmax(spans[enough])])
    throughput_bps = float(passed[longest]) * 8e9 / float(spans[longest])
    return LongRun(float(spans[longest]) / 1e9, throughput_bps, (throughput_bps / rate_bps - 1) * 100)


def _figure(deviation: float | None, excess: float) -> float | None:
    if deviation is None and excess <= 0:
        return None
    return max(deviation or 0.0, excess)
