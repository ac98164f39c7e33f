# SPDX-License-Identifier: Apache-2.0
"""Shared bottleneck detection of RFC 8382, for two flows.

Summary statistics over base intervals of T = 350 ms (section 3.2): skewness (how often delays are below the
mean of the interval before), variability (mean absolute deviation), oscillation (significant crossings of
the mean) and loss over N intervals; then the grouping of section 3.3.2 with the parameters of section 2.2.
Delays here are RTT samples by the time of sending, as a sender's capture has them, where the RFC takes
one-way delays.

The RFC decides after every interval and follows the flows; the verdict here is what it says of most of the
intervals in which both flows see a bottleneck.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.tables import Bools, Floats, Ints

T_NS = 350_000_000
N, M = 50, 30
C_S, C_H, P_S = 0.1, 0.3, 0.15
P_F, P_MAD, P_D, P_L, P_V = 0.1, 0.1, 0.1, 0.05, 0.7


@dataclass(frozen=True)
class Rfc8382Result:
    """The verdict; of `intervals`, both flows saw a bottleneck in `bottleneck`, the same one in `grouped`."""

    verdict: Literal["shared", "separate", "insufficient_loss"]
    reason: str
    intervals: int
    bottleneck: int
    grouped: int

    def detail(self) -> dict[str, object]:
        """All numbers behind the verdict, ready for JSON."""
        values = asdict(self)
        del values["verdict"], values["reason"]
        return values


@dataclass(frozen=True)
class _Statistics:
    """One value per base interval; NaN before there are enough."""

    skew: Floats
    mad: Floats
    freq: Floats
    loss: Floats


def rfc8382(a: FlowEvents, b: FlowEvents) -> Rfc8382Result:
    """Do two flows share a bottleneck? See the module's text."""
    start = max(int(a.sent_ns[0]), int(b.sent_ns[0])) if len(a.sent_ns) and len(b.sent_ns) else 0
    end = min(int(a.sent_ns[-1]), int(b.sent_ns[-1])) if start else 0
    count = max(end - start, 0) // T_NS
    if count <= M:
        reason = f"{count} intervals of {T_NS / 1e6:.0f} ms in common; more than {M} are needed"
        return Rfc8382Result("insufficient_loss", reason, 0, 0, 0)
    one, other = _statistics(a, start, count), _statistics(b, start, count)
    seen = _bottleneck(one) & _bottleneck(other)
    grouped = seen & _same(one, other)
    judged = int(np.count_nonzero(np.isfinite(one.skew) & np.isfinite(other.skew)))
    with_bottleneck, same = int(np.count_nonzero(seen)), int(np.count_nonzero(grouped))
    if not with_bottleneck:
        reason = f"in none of {judged} intervals do both flows see a bottleneck"
        return Rfc8382Result("insufficient_loss", reason, judged, 0, 0)
    verdict: Literal["shared", "separate"] = "shared" if 2 * same > with_bottleneck else "separate"
    reason = f"grouped in {same} of the {with_bottleneck} intervals in which both see a bottleneck"
    return Rfc8382Result(verdict, reason, judged, with_bottleneck, same)


def _bottleneck(flow: _Statistics) -> Bools:
    """Section 3.3.1, with its hysteresis."""
    result = np.zeros(len(flow.skew), dtype=bool)
    before = False
    for i, (skew, loss) in enumerate(zip(flow.skew, flow.loss, strict=True)):
        before = bool(skew < C_S or (skew < C_H and before) or loss > P_L)
        result[i] = before and bool(np.isfinite(skew))
    return result


def _same(a: _Statistics, b: _Statistics) -> Bools:
    """Section 3.3.2: oscillation, variability, then skewness, or loss where it is high."""

    def apart(x: Floats, y: Floats) -> Floats:
        return np.abs(x - y)

    lossy = (a.loss > P_L) & (b.loss > P_L)
    close = np.where(
        lossy, apart(a.loss, b.loss) <= P_D * np.maximum(a.loss, b.loss), apart(a.skew, b.skew) <= P_S
    )
    result: Bools = (
        (apart(a.freq, b.freq) <= P_F) & (apart(a.mad, b.mad) <= P_MAD * np.maximum(a.mad, b.mad)) & close
    )
    return result


def _statistics(flow: FlowEvents, start: int, count: int) -> _Statistics:
    place = (flow.rtt_sent_ns - start) // T_NS
    inside = (place >= 0) & (place < count)
    where, delay = place[inside], flow.rtt_ns[inside] / 1e9
    samples = np.bincount(where, minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(where, delay, minlength=count) / samples
    before = np.concatenate([[np.nan], mean[:-1]])
    # skew_base_T and var_base_T, section 3.2.2 and 3.2.3: against the mean of the interval before.
    against = delay - before[where]
    known = np.isfinite(against)
    sign = np.bincount(where[known], -np.sign(against[known]), minlength=count)
    deviation = np.bincount(where[known], np.abs(against[known]), minlength=count)
    compared = np.bincount(where[known], minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        skew = _last(sign, M) / _last(compared, M)
        mad = _last(deviation, M) / _last(compared, M)
    packets_in = (flow.sent_ns - start) // T_NS
    used = (packets_in >= 0) & (packets_in < count)
    sent = np.bincount(packets_in[used], minlength=count)
    lost = np.bincount(packets_in[used], flow.lost[used].astype(np.float64), minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        loss = _last(lost, N) / _last(sent, N)
    freq = _crossings(mean, mad)
    early = np.arange(count) < M
    return _Statistics(np.where(early, np.nan, skew), mad, freq, loss)


def _last(values: Floats | Ints, intervals: int) -> Floats:
    """The sum over the latest `intervals`, fewer at the beginning."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    upto = np.arange(1, len(values) + 1)
    result: Floats = total[upto] - total[np.maximum(upto - intervals, 0)]
    return result


def _crossings(mean: Floats, mad: Floats) -> Floats:
    """freq_est, section 3.2.4: crossings of the mean over M intervals by more than p_v · var_est, ÷ N."""
    crossed = np.zeros(len(mean))
    side = 0
    for i in range(len(mean)):
        recent = mean[max(0, i - M + 1) : i + 1]
        if not np.isfinite(mean[i]) or not np.isfinite(mad[i]):
            continue
        middle = float(np.nanmean(recent))
        now = int(mean[i] > middle + P_V * mad[i]) - int(mean[i] < middle - P_V * mad[i])
        if now and side and now != side:
            crossed[i] = 1
        side = now or side
    return _last(crossed, N) / N
