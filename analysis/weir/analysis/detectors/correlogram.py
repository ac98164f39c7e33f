# SPDX-License-Identifier: Apache-2.0
"""Do two flows share a policer? By the cross-correlogram of their packets' fates.

One bucket couples its flows at the same moment: while it is empty both lose more, and what one of them sends
the other one cannot pass. Two policers, or a trend, couple flows at other lags as well. So what happens at
lag 0 is compared with what happens at lags of `NEAR_S` to `LAGS_S`, as for the spikes of two neurons
(A. Amarasingham et al., Journal of Neurophysiology 107, 2012).

How a bucket couples packets that come some time apart follows from `chain.py`: a packet's fate is correlated
with that of a later one by ρ, and its coming raises the logarithm of the later one's odds to be dropped by α.
With y = 1 for a lost packet and p the flow's loss rate within `WINDOW_S`, e = y − p, and d the packets
above their mean there, two sums are made at each lag of one flow against the other:

- of losses, Σ ρ e_i e_j ÷ √(p_i (1 − p_i) p_j (1 − p_j)),
- of load, Σ α d_i e_j over all packets i before j, of either flow.

To first order these are the logarithm of the odds of one bucket. Jitter moves one packet against the other,
so ρ and α are those of the chain convolved with it. The bucket's rate is unknown, so they are the mean of
those of `RATES` times the rate of both flows. The flows' own patterns make both sums vary more than
independent packets would, so each sum is weighted with what one bucket adds to it, divided by its variance
over the other lags. z is the weighted sum at lag 0, in standard deviations from its mean over the other lags.

p is the tail of a normal distribution of the same sum, whose standard deviation is that over the other lags
or that over time, whichever is larger. Over time it is √Σ s², with s what `MOMENT_S` of the capture adds to
the sum: a few moments, as BBR's probing at the same time behind two policers, may make most of it. Of 520
pairs of runs behind two policers that started together (seeds 21 to 33) 3.5 to 6.5 % have a p below 0.05, and
it is uniform with jitter of 0.1, 1, 5 and 10 ms (Kolmogorov–Smirnov 0.43, 0.21, 0.18 and 0.54; 0.12, 0.05,
0.002 and 0.02 by the other lags alone). At exact times such flows meet a little more often, z is 0.1 more in
the mean, and p is not quite uniform (0.016), but no more than 5.6 % are below 0.05.

Only one policer is found: few packets meet by chance, so z near 0 is no sign of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.fft import prev_fast_len
from scipy.ndimage import maximum_filter1d
from scipy.signal import fftconvolve, oaconvolve
from scipy.stats import norm

from weir.analysis.detectors.binned import WINDOW_S, at_lags, near, shifted
from weir.analysis.detectors.chain import STEPS, coupling_at
from weir.analysis.detectors.events import (
    FlowEvents,
    after_start,
    few_after_start,
    few_losses,
    lost_after_start,
    statistics_of,
)
from weir.analysis.detectors.memory import largest_tau
from weir.analysis.detectors.nulls import rank_p
from weir.analysis.tables import Bools, Floats

BIN_NS, BINS_OF_JITTER, MOST_BINS = 50_000, 5, 1 << 20
"""Packets are counted in bins of this width, or of so many to the jitter; a longer capture has wider ones."""
NEAR_S, LAGS_S = 0.025, 0.5
WINDOW_PACKETS, MOST_WINDOW_S, PRIOR_PACKETS = 30, 1.0, 20
"""A thin flow's loss rate is that of so many packets, within at most this time, and of `PRIOR_PACKETS` more
at the loss rate of the whole flow. Within `WINDOW_S` alone such a flow has some ten packets, and a rate of
these follows each loss: the median z of CUBIC flows behind one policer of 40 and 50 Mbit/s was 1.3 then, and
is 2.1 (32 pairs of runs of seeds 16 to 19, jitter of 1 ms)."""
REACH_S = 0.03
"""Packets that are further apart tell nothing of each other."""
RATES = (1.5, 5.0, 15.0)
TIMES_JITTER = 2.0
"""Mean distance by which jitter moves packets of one flow against those of the other, in `jitter_ns`."""
SURE_Z = 3.0
"""Of 418 pairs behind two policers (200 of runs, 18 of equal flows alone, 200 simulated paths), with jitter
of 0 to 10 ms, eleven had as much at one jitter or more: three of flows in step, seven that the level or the
likelihood found to have two policers, and one of thin flows, with jitter of 10 ms."""
SCANNED_Z = 6.0
"""The same where clocks may differ, and z is the best of many lags. With clocks that differed by 7 ms and
might by 12 ms, at an RTT of 20 ms and with jitter of 1 ms, two of 80 pairs behind two policers had 4.5 and
5.0."""
CLOCK_RTTS, MAX_CLOCK_ERROR_S = 0.75, 0.2
"""After an RTT flows behind two policers do the same again; and other lags have to be left."""
MIN_LOSSES = 15
MOMENT_S = 0.1
"""Longer than jitter and than the reach of ρ and α, so that a coincidence falls into one or two of them."""
FINER = 4
"""Couplings are averaged over so many points of each bin."""
LEAST_LAGS = 4
"""The flows have to run together for so many times the longest lag, to either side."""
_TINY = 1e-12


@dataclass(frozen=True)
class CorrelogramResult:
    """The verdict; z of lag 0 among other lags, and its p.

    p is that of a normal distribution (see the module's text), but not below 1 ÷ (number of other lags + 1);
    where clocks may differ, so that z is the best of many lags, it is the rank of z.

    `expected_z` would be that of one bucket with Poisson traffic. It grows with both flows' packets.
    """

    verdict: Literal["shared", "cannot_tell"]
    reason: str
    p: float | None = None
    z: float | None = None
    expected_z: float | None = None

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return statistics_of(self)


def loss_correlogram(a: FlowEvents, b: FlowEvents) -> CorrelogramResult:
    """Do two flows share a policer? See the module's text."""
    if few := few_losses(a.lost, b.lost, MIN_LOSSES):
        return CorrelogramResult("cannot_tell", few)
    if a.behind_policer or b.behind_policer:
        return CorrelogramResult("cannot_tell", "behind the policer one host delays both flows at once")
    jitter_ns, clock_error_ns = max(a.jitter_ns, b.jitter_ns), max(a.clock_error_ns, b.clock_error_ns)
    rtt_ns = max(a.min_rtt_ns, b.min_rtt_ns)
    most_ns = int(min(CLOCK_RTTS * rtt_ns, MAX_CLOCK_ERROR_S * 1e9))
    if clock_error_ns > most_ns:
        reason = f"clocks may differ by {clock_error_ns / 1e6:.0f} ms, more than {most_ns / 1e6:.0f} ms"
        return CorrelogramResult("cannot_tell", reason)
    start_ns, end_ns = after_start(a, b)
    if end_ns - start_ns < 2 * LEAST_LAGS * LAGS_S * 1e9:
        seconds = 2 * LEAST_LAGS * LAGS_S
        return CorrelogramResult("cannot_tell", f"the flows ran together for less than {seconds:g} s")
    if few := few_after_start(a, b, MIN_LOSSES):
        return CorrelogramResult("cannot_tell", few)
    width_ns = max(BIN_NS, jitter_ns // BINS_OF_JITTER, (end_ns - start_ns) // MOST_BINS)
    count = prev_fast_len((end_ns - start_ns) // width_ns, real=True)
    one, other = (_counted(flow, start_ns, width_ns, count) for flow in (a, b))
    kernels = _kernels(
        largest_tau(a, b, start_ns, end_ns) * 1e9,
        float(np.sqrt(np.prod([lost.mean() for lost in lost_after_start(a, b)]))),
        TIMES_JITTER * jitter_ns,
        width_ns,
    )
    lags, late = round(LAGS_S * 1e9) // width_ns, -(-clock_error_ns // width_ns)
    elsewhere = np.abs(np.arange(-lags, lags + 1)) >= round(NEAR_S * 1e9) // width_ns + late
    both, at_bins, expected_of_both = np.zeros(2 * lags + 1), np.zeros(count), 0.0
    for summed, added, kernel in zip(
        (_by_loss, _by_load), (_added_by_loss, _added_by_load), kernels, strict=True
    ):
        curve, expected = summed(one, other, lags, kernel)
        weight = expected / max(float(curve[elsewhere].var()), _TINY)
        expected_of_both += expected
        both += weight * curve
        if not late:  # else p is a rank
            at_bins += weight * added(one, other, _less_elsewhere(kernel, elsewhere))
    among_lags = max(float(both[elsewhere].std()), _TINY)
    wider = max(_over_time(at_bins, round(MOMENT_S * 1e9) // width_ns) / among_lags, 1.0)
    curve = _standard(maximum_filter1d(both, 2 * late + 1), elsewhere)
    z, chance = float(curve[lags]), curve[elsewhere]
    p = rank_p(z, chance) if late else max(float(norm.sf(z / wider)), 1 / (len(chance) + 1))
    expected_z = float(np.sqrt(expected_of_both))
    said = (
        f"losses and loads at the same time, against those {NEAR_S * 1e3:g} to {LAGS_S * 1e3:g} ms apart: "
        f"z = {z:.1f} (p = {p:.4f})"
    )
    needed = SCANNED_Z if clock_error_ns else SURE_Z
    if z < needed:
        return CorrelogramResult("cannot_tell", f"{said}; z of {needed:g} is needed", p, z, expected_z)
    return CorrelogramResult("shared", said, p, z, expected_z)


@dataclass(frozen=True)
class _Counted:
    """A flow's packets in bins: their number, that above the mean nearby, e and p (1 − p)."""

    packets: Floats
    load: Floats
    excess: Floats
    variance: Floats

    @cached_property
    def standard(self) -> Floats:
        """e in standard deviations of one packet."""
        result: Floats = self.excess / np.sqrt(self.variance)
        return result


def _counted(flow: FlowEvents, start_ns: int, width_ns: int, count: int) -> _Counted:
    which = (flow.sent_ns - start_ns) // width_ns
    inside = (which >= 0) & (which < count)
    packets = np.bincount(which[inside], minlength=count).astype(np.float64)
    lost = np.bincount(which[inside & flow.lost], minlength=count)
    sent = float(packets.sum()) + 1
    window_s = float(np.clip(WINDOW_PACKETS * count * width_ns / 1e9 / sent, WINDOW_S, MOST_WINDOW_S))
    half = int(window_s * 5e8) // width_ns
    usual = (float(lost.sum()) + 0.5) / sent
    p = (near(lost, half) + PRIOR_PACKETS * usual) / (near(packets, half) + PRIOR_PACKETS)
    half = int(WINDOW_S * 5e8) // width_ns
    load = packets - near(packets, half) / near(np.ones(count), half)
    return _Counted(packets, load, lost - p * packets, p * (1 - p))


def _kernels(tau_ns: float, loss: float, jitter_ns: float, width_ns: int) -> tuple[Floats, Floats]:
    """ρ and α by bins from a packet of one flow to one of the other, −reach to reach; α for the first's load.

    A bucket with the rate of both flows gets a frame's tokens in `tau_ns`.
    """
    reach = round(REACH_S * 1e9) // width_ns
    coupled = coupling_at(loss)
    points_ns = (np.arange(FINER * reach) + 0.5) * width_ns / FINER
    kernels = []
    for by_ticks in (coupled.by_loss, coupled.by_load):
        ticks = np.arange(len(by_ticks))
        each = [np.interp(points_ns * STEPS * rate / tau_ns, ticks, by_ticks, right=0.0) for rate in RATES]
        later = np.mean(each, axis=0).reshape(reach, FINER).mean(axis=1)
        kernel = np.zeros(2 * reach + 1)
        kernel[reach : 2 * reach] = later
        kernel[reach] /= 2  # of packets in the same bin either is first
        kernels.append(kernel)
    by_loss, by_load = kernels[0] + kernels[0][::-1], kernels[1]
    if jitter_ns > 0:
        moved = np.exp(-np.abs(np.arange(-reach, reach + 1)) * width_ns / jitter_ns)
        by_loss, by_load = (fftconvolve(kernel, moved / moved.sum(), "same") for kernel in (by_loss, by_load))
    return by_loss, by_load


def _by_loss(one: _Counted, other: _Counted, lags: int, kernel: Floats) -> tuple[Floats, float]:
    """The sum of losses at each lag, and what one bucket adds to it at lag 0."""
    pairs = float(one.packets.mean() * other.packets.sum())
    return at_lags(shifted(other.standard, one.standard), kernel, lags), pairs * float(kernel @ kernel)


def _by_load(one: _Counted, other: _Counted, lags: int, kernel: Floats) -> tuple[Floats, float]:
    """The sum of load at each lag, and what one bucket adds to it at lag 0."""
    curve = at_lags(shifted(other.excess, one.load), kernel, lags)
    curve += at_lags(shifted(other.load, one.excess), kernel[::-1], lags)
    pairs = float(one.packets.mean() * (other.packets * other.variance).sum())
    pairs += float(other.packets.mean() * (one.packets * one.variance).sum())
    return curve, pairs * float(kernel @ kernel)


def _less_elsewhere(kernel: Floats, elsewhere: Bools) -> Floats:
    """The kernel less its mean over the other lags."""
    lags = len(elsewhere) // 2
    result: Floats = -fftconvolve(kernel, elsewhere / elsewhere.sum(), "full")
    result[lags : lags + len(kernel)] += kernel
    return result


def _added_by_loss(one: _Counted, other: _Counted, kernel: Floats) -> Floats:
    """The part of the sum of losses at lag 0 that each bin of the first flow contributes."""
    result: Floats = one.standard * oaconvolve(other.standard, kernel, "same")
    return result


def _added_by_load(one: _Counted, other: _Counted, kernel: Floats) -> Floats:
    """The part of the sum of load at lag 0 that each bin of the first flow contributes."""
    result: Floats = one.load * oaconvolve(other.excess, kernel[::-1], "same")
    result += one.excess * oaconvolve(other.load, kernel, "same")
    return result


def _over_time(at_bins: Floats, bins: int) -> float:
    """The standard deviation of the sum over all bins, by that over each `bins` of them."""
    starts = np.arange(0, len(at_bins), max(bins, 1))
    return float(np.sqrt(np.sum(np.add.reduceat(at_bins, starts) ** 2)))


def _standard(values: Floats, elsewhere: Bools) -> Floats:
    """In standard deviations of the values elsewhere, from their mean."""
    chance = values[elsewhere]
    result: Floats = (values - chance.mean()) / max(float(chance.std()), _TINY)
    return result
