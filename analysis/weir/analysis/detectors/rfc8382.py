# SPDX-License-Identifier: Apache-2.0
"""Shared bottleneck detection of RFC 8382, for two flows, section by section.

- 2.2: T = 350 ms, N = 50, M = 30, c_s = 0.1, c_h = 0.3, p_s = 0.15, p_f = 0.1, p_v = 0.7, p_mad = 0.1,
  p_d = 0.1, p_l = 0.05. The further parameters of section 4, which is optional, are not used.
- 3.2.1: mean_delay is the mean of the latest M values of E_T(OWD), the mean delay of an interval.
- 3.2.2: skew_est, over M intervals: delays below minus delays above mean_delay as it was before the interval,
  ÷ their number.
- 3.2.3: var_est, over M intervals: mean distance of the delays from E_T(OWD) of the interval before.
- 3.2.4: freq_est: intervals ÷ N, of the latest N, in which E_T(OWD) lies more than p_v · var_est beyond
  mean_delay on the other side than the last time that it did.
- 3.2.5: pkt_loss: packets lost ÷ packets sent of the latest N intervals.
- 3.3.1: a flow experiences a bottleneck when skew_est < c_s, or skew_est < c_h and it did before, or
  pkt_loss > p_l. Such flows are separated where freq_est differs by p_f, then var_est by p_mad of the larger,
  then, with pkt_loss above p_l, pkt_loss by p_d of the larger, else skew_est by p_s.
- 3.3.2: the first 2 M intervals (21 s) are not judged.

Our choices where the RFC has no rule: delays are RTT samples by the time of sending, which a sender's capture
shows, instead of one-way delays; an interval without a sample is skipped; losses are compared when one of two
flows is above p_l; and as the RFC groups flows continuously, the verdict is the grouping in most of the
intervals in which both flows experience a bottleneck.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.analysis.detectors.events import FlowEvents, statistics_of
from weir.analysis.tables import Bools, Floats, Ints
from weir.rundir.plural import plural

T_NS = 350_000_000
N, M = 50, 30
C_S, C_H, P_S = 0.1, 0.3, 0.15
P_F, P_MAD, P_D, P_L, P_V = 0.1, 0.1, 0.1, 0.05, 0.7


@dataclass(frozen=True)
class Rfc8382Result:
    """The verdict; of `intervals`, both flows see a bottleneck in `bottleneck`, the same in `grouped`."""

    verdict: Literal["shared", "separate", "cannot_tell"]
    reason: str
    intervals: int
    bottleneck: int
    grouped: int

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return statistics_of(self)


@dataclass(frozen=True)
class _Statistics:
    """Arrays with one value per base interval; `skew` is NaN in the first 2 M."""

    skew: Floats
    mad: Floats
    freq: Floats
    loss: Floats


def rfc8382(a: FlowEvents, b: FlowEvents) -> Rfc8382Result:
    """Do two flows share a bottleneck? See the module's text."""
    start = max(int(a.sent_ns[0]), int(b.sent_ns[0])) if len(a.sent_ns) and len(b.sent_ns) else 0
    end = min(int(a.sent_ns[-1]), int(b.sent_ns[-1])) if start else 0
    count = max(end - start, 0) // T_NS
    if count <= 2 * M:
        reason = f"{plural(count, 'interval')} of {T_NS / 1e6:.0f} ms in common; more than {2 * M} are needed"
        return Rfc8382Result("cannot_tell", reason, 0, 0, 0)
    one, other = _statistics(a, start, count), _statistics(b, start, count)
    seen = _bottleneck(one) & _bottleneck(other)
    grouped = seen & _same(one, other)
    judged = int(np.count_nonzero(np.isfinite(one.skew) & np.isfinite(other.skew)))
    with_bottleneck, same = int(np.count_nonzero(seen)), int(np.count_nonzero(grouped))
    if not with_bottleneck:
        reason = f"in none of {plural(judged, 'interval')} do both flows see a bottleneck"
        return Rfc8382Result("cannot_tell", reason, judged, 0, 0)
    verdict: Literal["shared", "separate"] = "shared" if 2 * same > with_bottleneck else "separate"
    reason = f"grouped in {same} of {plural(with_bottleneck, 'interval')} in which both see a bottleneck"
    return Rfc8382Result(verdict, reason, judged, with_bottleneck, same)


def _bottleneck(flow: _Statistics) -> Bools:
    """Section 3.3.1, step 1, with its hysteresis."""
    result = np.zeros(len(flow.skew), dtype=bool)
    before = False
    for i, (skew, loss) in enumerate(zip(flow.skew, flow.loss, strict=True)):
        before = bool(skew < C_S or (skew < C_H and before) or loss > P_L)
        result[i] = before and bool(np.isfinite(skew))
    return result


def _same(a: _Statistics, b: _Statistics) -> Bools:
    """Section 3.3.1, steps 2 to 4: oscillation, variability, then skewness, or loss where it is high."""

    def near(x: Floats, y: Floats, part: float) -> Bools:
        result: Bools = np.abs(x - y) < part * np.maximum(x, y)
        return result

    lossy = (a.loss > P_L) | (b.loss > P_L)
    close = np.where(lossy, near(a.loss, b.loss, P_D), np.abs(a.skew - b.skew) < P_S)
    result: Bools = (np.abs(a.freq - b.freq) < P_F) & near(a.mad, b.mad, P_MAD) & close
    return result


def _statistics(flow: FlowEvents, start: int, count: int) -> _Statistics:
    index = (flow.rtt_sent_ns - start) // T_NS
    inside = (index >= 0) & (index < count)
    where, delay = index[inside], flow.rtt_ns[inside] / 1e9
    samples = np.bincount(where, minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(where, delay, minlength=count) / samples
    measured = np.isfinite(mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_delay = _last(np.where(measured, mean, 0), M) / _last(measured, M)
    below, of_skew = _against(where, delay, _before(mean_delay), count, lambda apart: -np.sign(apart))
    distance, of_mad = _against(where, delay, _before(mean), count, np.abs)
    with np.errstate(invalid="ignore", divide="ignore"):
        skew = _last(below, M) / _last(of_skew, M)
        mad = _last(distance, M) / _last(of_mad, M)
    packets_in = (flow.sent_ns - start) // T_NS
    used = (packets_in >= 0) & (packets_in < count)
    sent = np.bincount(packets_in[used], minlength=count)
    lost = np.bincount(packets_in[used], flow.lost[used].astype(np.float64), minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        loss = _last(lost, N) / _last(sent, N)
    early = np.arange(count) < 2 * M
    return _Statistics(
        np.where(early, np.nan, skew), mad, _last(_crossings(mean, mean_delay, mad), N) / N, loss
    )


def _before(values: Floats) -> Floats:
    """Each value's predecessor, skipping intervals without a value; NaN where there is none."""
    result = np.full(len(values), np.nan)
    last = np.nan
    for i, value in enumerate(values.tolist()):
        result[i] = last
        last = value if np.isfinite(value) else last
    return result


def _against(
    where: Ints, delay: Floats, level: Floats, count: int, of: Callable[[Floats], Floats]
) -> tuple[Floats, Ints]:
    """Per interval, the sum of `of(delay − level)` over delays with a known level, and their number."""
    apart = delay - level[where]
    known = np.isfinite(apart)
    return (
        np.bincount(where[known], of(apart[known]), minlength=count).astype(np.float64),
        np.bincount(where[known], minlength=count),
    )


def _last(values: Floats | Ints | Bools, intervals: int) -> Floats:
    """The sum over the latest `intervals`, fewer at the beginning."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    upto = np.arange(1, len(values) + 1)
    result: Floats = total[upto] - total[np.maximum(upto - intervals, 0)]
    return result


def _crossings(mean: Floats, mean_delay: Floats, mad: Floats) -> Bools:
    """Intervals with a significant crossing of the mean (section 3.2.4)."""
    crossed = np.zeros(len(mean), dtype=bool)
    side = 0
    for i, (value, middle, reach) in enumerate(zip(mean, mean_delay, P_V * mad, strict=True)):
        now = int(value > middle + reach) - int(value < middle - reach)
        crossed[i] = now * side < 0
        side = now or side
    return crossed
