# SPDX-License-Identifier: Apache-2.0
"""Do two flows share a policer? By the level of the bucket, over milliseconds.

The memory of one frame (`memory.py`) needs the times at the policer to some microseconds. But a bucket
couples its flows for longer: its level is the same for all, and falls with what each of them sends. Behind
one bucket a flow therefore loses more while the other one sends more than usual, and both lose more at the
same moments, also because of flows that nobody sees. Jitter shorter than the bins in which packets are
counted does not hide this.

In each bin and for each flow, with n packets sent, l lost, p the local loss rate and d the bytes sent above
the local mean (both over `WINDOW_S`):

    e = l − p n,    var e = n p (1 − p)

e ÷ √var is regressed on what the flow itself did: d and max(d, 0) in this bin and the two before, and e in
the three before. Two policers of flows in step, as CUBIC's after a common start, would otherwise look like
one. What is left of e is compared with the other flow's d, and with what is left of its e. Each of the three
sums is divided by its standard deviation under circular shifts of one flow by at least `SHIFT_S`, which keep
what each flow does by itself; z is their weighted mean, the largest of all bins, and p its rank among shifts.

Bins longer than a quarter of an RTT are not used: over RTTs, flows behind two policers lose in step, too. A
small z is no evidence of two policers: flows that probe at the same moments hide one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.analysis.detectors.events import FlowEvents, statistics_of
from weir.analysis.detectors.nulls import rank_p
from weir.analysis.tables import Bools, Floats, Ints

BINS_NS = (2_000_000, 5_000_000, 10_000_000)
"""Each divides the largest, so that shifts by it are shifts of all."""
WINDOW_S, SHIFT_S = 0.25, 2.0
LAGS = 3
CLIP = 4.0
"""Residuals and loads beyond so many standard deviations count as that: no single bin decides."""
ALPHA, MIN_Z = 0.01, 4.5
"""Behind two policers z reached 3.9 in 64 trials: CUBIC flows in step, at their exact times."""
MIN_LOSSES = 15
_TINY = 1e-12


@dataclass(frozen=True)
class LevelResult:
    """The verdict, never `separate`: z at `bin_ms`, where it is largest, and its rank p among shifts."""

    verdict: Literal["shared", "insufficient_loss"]
    reason: str
    p: float | None = None
    z: float | None = None
    bin_ms: float | None = None
    pairs: int = 0
    """Packets of one and of the other flow in the same shortest bin: of many, one bucket would be seen."""

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return statistics_of(self)


@dataclass(frozen=True)
class _Binned:
    """One flow: packets, load above the mean in its standard deviations, residual and how it depends on p."""

    packets: Ints
    load: Floats
    residual: Floats
    slope: Floats


def bucket_level(a: FlowEvents, b: FlowEvents) -> LevelResult:
    """Do two flows share a bucket? See the module's text."""
    losses = min(int(np.count_nonzero(a.lost)), int(np.count_nonzero(b.lost)))
    if losses < MIN_LOSSES:
        return LevelResult(
            "insufficient_loss", f"{losses} losses in one of the flows; {MIN_LOSSES} are needed"
        )
    start_ns = max(int(a.sent_ns.min()), int(b.sent_ns.min()))
    longest = BINS_NS[-1]
    count = (min(int(a.sent_ns.max()), int(b.sent_ns.max())) - start_ns) // longest
    least = int(SHIFT_S * 1e9) // longest
    if count < 4 * least:
        return LevelResult("insufficient_loss", f"the flows ran together for less than {4 * SHIFT_S:g} s")
    blurred_ns = max(a.jitter_ns, b.jitter_ns, a.clock_error_ns, b.clock_error_ns)
    widest_ns = max(a.min_rtt_ns, b.min_rtt_ns) // 4
    usable = [width for width in BINS_NS if blurred_ns <= width <= widest_ns]
    if not usable:
        return LevelResult(
            "insufficient_loss",
            f"times are wrong by about {blurred_ns / 1e6:.1f} ms, and a quarter of an RTT is "
            f"{widest_ns / 1e6:.1f} ms: no bin is longer than the one and shorter than the other",
        )
    curves, pairs = [], []
    for width in usable:
        one, other = (_binned(flow, start_ns, width, count * (longest // width)) for flow in (a, b))
        pairs.append(int(np.sum(one.packets * other.packets)))
        curves.append(_z(one, other, least * (longest // width))[:: longest // width])
    z = np.array(curves)
    best = int(np.argmax(z[:, 0]))
    largest = z.max(axis=0)
    p = rank_p(float(largest[0]), largest[least : len(largest) - least + 1])
    found = float(z[best, 0])
    bin_ms = usable[best] / 1e6
    said = (
        f"over {bin_ms:g} ms, loss follows the other flow's load and loss with z = {found:.1f} (p = {p:.3f})"
    )
    if p < ALPHA and found >= MIN_Z:
        return LevelResult("shared", said, p, found, bin_ms, pairs[0])
    why = f"z of at least {MIN_Z:g} is needed: "
    return LevelResult("insufficient_loss", why + said, p, found, bin_ms, pairs[0])


def _binned(flow: FlowEvents, start_ns: int, width_ns: int, count: int) -> _Binned:
    which = (flow.sent_ns - start_ns) // width_ns
    inside = (which >= 0) & (which < count)
    which = which[inside]
    packets = np.bincount(which, minlength=count)
    size_bytes = np.bincount(which, flow.size_bytes[inside], minlength=count)
    lost = np.bincount(which[flow.lost[inside]], minlength=count)
    half = max(int(WINDOW_S * 5e8) // width_ns, 2)
    # Half a loss and a packet more: a flow that lost nothing nearby is not certain to lose nothing.
    p = (_near(lost, half) + 0.5) / (_near(packets, half) + 1)
    excess = lost - p * packets
    load = size_bytes - _near(size_bytes, half) / _near(np.ones(count), half)
    load = load / max(float(load.std()), _TINY)
    slope = np.sqrt(packets / (p * (1 - p)))
    return _Binned(packets, np.clip(load, -CLIP, CLIP), _residual(packets, excess, load, slope, p), slope)


def _near(values: Ints | Floats, half: int) -> Floats:
    """The sum over each bin and `half` bins on either side, fewer at the ends."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    here = np.arange(len(values))
    result: Floats = total[np.minimum(here + half + 1, len(values))] - total[np.maximum(here - half, 0)]
    return result


def _residual(packets: Ints, excess: Floats, load: Floats, slope: Floats, p: Floats) -> Floats:
    """Each excess in standard deviations, less what the flow's own load and past explain."""
    sent: Bools = packets > 0
    own = [_later(load, lag) for lag in range(LAGS)]
    own += [np.maximum(each, 0.0) for each in own] + [_later(excess, lag) for lag in range(1, LAGS + 1)]
    terms = (np.array(own) * slope)[:, sent].T
    value = excess[sent] / np.sqrt(packets[sent] * p[sent] * (1 - p[sent]))
    value = value - terms @ np.linalg.lstsq(terms, value, rcond=None)[0]
    result = np.zeros(len(packets))
    result[sent] = np.clip(value / max(float(value.std()), _TINY), -CLIP, CLIP)
    return result


def _later(values: Floats, lag: int) -> Floats:
    return np.concatenate([np.zeros(lag), values[: len(values) - lag]])


def _z(one: _Binned, other: _Binned, least: int) -> Floats:
    """z for each circular shift of `one` against `other`; those by fewer than `least` bins are no chance."""
    answer = [flow.residual * flow.slope for flow in (one, other)]
    slopes = [flow.slope**2 for flow in (one, other)]
    both = _shifted(answer[0] ** 2, slopes[1]) + _shifted(slopes[0], answer[1] ** 2)
    sums = [
        (_shifted(one.load, answer[1]), _shifted(one.load**2, slopes[1]), 1.0),
        (_shifted(answer[0], other.load), _shifted(slopes[0], other.load**2), 1.0),
        (_shifted(*answer), both / 2, np.sqrt(2.0)),
    ]
    z = np.zeros(len(one.load))
    for value, square, weight in sums:
        z += weight * _standard(value / np.sqrt(np.maximum(square, _TINY)), least)
    return _standard(z, least)


def _shifted(one: Floats, other: Floats) -> Floats:
    """Σ one[k + s] other[k] over k, for each circular shift s."""
    count = len(one)
    result: Floats = np.fft.irfft(np.fft.rfft(one) * np.conj(np.fft.rfft(other)), count)
    return result


def _standard(values: Floats, least: int) -> Floats:
    """In standard deviations of those at shifts by at least `least`, from their mean."""
    chance = values[least : len(values) - least + 1]
    result: Floats = (values - chance.mean()) / max(float(chance.std()), _TINY)
    return result
