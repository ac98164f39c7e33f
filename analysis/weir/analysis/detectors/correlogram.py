# SPDX-License-Identifier: Apache-2.0
"""Do two flows share a policer? By the cross-correlogram of their losses.

One bucket couples its flows at the same moment: while it is empty both lose more, and what one of them sends
the other one cannot pass. Two policers, or a trend, couple flows at other lags as well. So what happens at
lag 0 is compared with what happens at lags of `NEAR_S` to `LAGS_S`, as for the spikes of two neurons
(A. Amarasingham et al., Journal of Neurophysiology 107, 2012). `binned.py` counts both flows in bins of
`BIN_NS`; with load d and residual losses e of the flows i and j, two sums are made at each lag:

- of losses, Σ e_i e_j: the bucket is empty for milliseconds,
- of load, Σ d_i e_j + Σ d_j e_i: a packet takes a frame's tokens at once, and jitter spreads that.

Each is smoothed over lags with weights exp(−|lag| ÷ s), where s is `LOSS_S`, at most `LOSS_RTTS` of an RTT,
for losses, and `LOAD_S` and the jitter for load. Each is divided by the square root of its variance if
losses were independent. z is the sum of both, in standard deviations from its mean over the other lags.

Only one policer is found: few packets meet by chance, so z near 0 is no sign of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.ndimage import maximum_filter1d

from weir.analysis.detectors.binned import BinnedFlow, binned, shifted
from weir.analysis.detectors.events import FlowEvents, few_losses, statistics_of
from weir.analysis.detectors.nulls import rank_p
from weir.analysis.tables import Bools, Floats

BIN_NS = 500_000
NEAR_S, LAGS_S = 0.025, 0.5
REACH_S = 0.03
"""Smoothing ends at this distance."""
LOSS_S, LOSS_RTTS, LOAD_S = 0.012, 0.6, 0.5e-3
SURE_Z = 2.7
"""Of 117 pairs behind two policers (80 of runs, 37 of simulated paths), at exact times and with jitter of 1,
5 and 10 ms, one had more: 2.9, where one bucket was less likely than two."""
CLOCK_RTTS, MAX_CLOCK_ERROR_S = 0.75, 0.2
"""After an RTT flows behind two policers do the same again; and other lags have to be left. With clocks that
differed by 7 ms and might by 12 ms, at an RTT of 20 ms, it found 16 of 50 pairs behind one policer that the
level had not, and none of the 76 behind two that the level had not decided."""
SLOW_START_S = 1.0
MIN_LOSSES = 15
FAST = 1024
"""The number of bins is a multiple of this, for the Fourier transforms of `shifted`."""
LEAST_LAGS = 4
"""The flows have to run together for so many times the longest lag, to either side."""
_TINY = 1e-12


@dataclass(frozen=True)
class CorrelogramResult:
    """The verdict; z of lag 0 among other lags, p its rank among these."""

    verdict: Literal["shared", "cannot_tell"]
    reason: str
    p: float | None = None
    z: float | None = None

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
    start_ns, end_ns = max(a.sent_ns.min(), b.sent_ns.min()), min(a.sent_ns.max(), b.sent_ns.max())
    start_ns += min(int(SLOW_START_S * 1e9), max(end_ns - start_ns, 0) // 10)
    lags, count = _bins(LAGS_S), int(end_ns - start_ns) // BIN_NS // FAST * FAST
    if count < 2 * LEAST_LAGS * lags:
        seconds = 2 * LEAST_LAGS * LAGS_S
        return CorrelogramResult("cannot_tell", f"the flows ran together for less than {seconds:g} s")
    of_one, of_other = (flow.lost[(flow.sent_ns >= start_ns) & (flow.sent_ns <= end_ns)] for flow in (a, b))
    if few := few_losses(of_one, of_other, MIN_LOSSES):
        return CorrelogramResult("cannot_tell", f"while both flows ran, {few}")
    one, other = (binned(flow, int(start_ns), BIN_NS, count, odds=True) for flow in (a, b))
    late = -(-clock_error_ns // BIN_NS)
    elsewhere = np.abs(np.arange(-lags, lags + 1)) >= _bins(NEAR_S) + late
    loss_s, load_s = min(LOSS_S, LOSS_RTTS * rtt_ns / 1e9), LOAD_S + jitter_ns / 1e9
    both = _standard(_losses(one, other, lags, loss_s), elsewhere)
    both += _standard(_loads(one, other, lags, load_s), elsewhere)
    curve = _standard(maximum_filter1d(both, 2 * late + 1), elsewhere)
    z, p = float(curve[lags]), rank_p(float(curve[lags]), curve[elsewhere])
    said = (
        f"losses and loads at the same time, against those {NEAR_S * 1e3:g} to {LAGS_S * 1e3:g} ms apart: "
        f"z = {z:.1f} (p = {p:.4f})"
    )
    if z < SURE_Z:
        return CorrelogramResult("cannot_tell", f"{said}; z of {SURE_Z:g} is needed", p, z)
    return CorrelogramResult("shared", said, p, z)


def _losses(one: BinnedFlow, other: BinnedFlow, lags: int, smooth_s: float) -> Floats:
    """Σ e_i e_j at each lag, smoothed, in standard deviations if losses were independent."""
    sums = shifted(_excess(one), _excess(other))
    return _smoothed(sums, shifted(one.slope**2, other.slope**2), lags, smooth_s)


def _loads(one: BinnedFlow, other: BinnedFlow, lags: int, smooth_s: float) -> Floats:
    """Σ d_i e_j + Σ d_j e_i at each lag, smoothed, likewise; each load in its standard deviations."""
    loads = [flow.load / max(float(flow.load.std()), _TINY) for flow in (one, other)]
    sums = shifted(_excess(one), loads[1]) + shifted(loads[0], _excess(other))
    variance = shifted(one.slope**2, loads[1] ** 2) + shifted(loads[0] ** 2, other.slope**2)
    return _smoothed(sums, variance, lags, smooth_s)


def _excess(flow: BinnedFlow) -> Floats:
    """Losses in each bin above what the flow itself explains."""
    return flow.residual * flow.slope


def _smoothed(sums: Floats, variance: Floats, lags: int, smooth_s: float) -> Floats:
    """Sums at all circular shifts, smoothed over shifts by at most `lags` either way, ÷ √variance."""
    reach = _bins(REACH_S)
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) * BIN_NS / 1e9 / smooth_s)
    near = np.arange(-lags - reach, lags + reach + 1)
    value, square = (np.convolve(each[near], weights, "valid") for each in (sums, variance))
    result: Floats = value / np.sqrt(np.maximum(square, _TINY))
    return result


def _standard(values: Floats, elsewhere: Bools) -> Floats:
    """In standard deviations of the values elsewhere, from their mean."""
    chance = values[elsewhere]
    result: Floats = (values - chance.mean()) / max(float(chance.std()), _TINY)
    return result


def _bins(seconds: float) -> int:
    return round(seconds * 1e9) // BIN_NS
