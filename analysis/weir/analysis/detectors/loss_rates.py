# SPDX-License-Identifier: Apache-2.0
"""Do the loss rates of two flows rise and fall together within tens of milliseconds?

TCP sends in bursts, so the traffic that nobody captured keeps a bucket empty for longer than packets that
come independently of each other do, from which the correlogram's weights follow (`chain.py`). Behind one
policer of 40 or 50 Mbit/s (48 pairs of CUBIC flows in runs) the fates of two packets, one of each flow, are
correlated by 0.09 if they come 4 to 8 ms apart, by 0.07 from 8 to 16 ms, by 0.04 from 16 to 32 ms and by 0.02
from 32 to 64 ms; those of BBR flows by 0.04, 0.03, 0.02 and 0.02. Jitter of 10 ms leaves most of that.

With e the losses in a bin above those expected from the flow's loss rate within `WINDOW_S`, z is that of

    Σ e_i e_j exp(−|t_i − t_j| ÷ COUPLED_S)

among its values with one flow `NEAR_S` to `LAGS_S` later, in standard deviations. Flows behind two policers
have a mean z near 0 and a standard deviation of 1.3 to 1.5, as loss rates vary over seconds as well; so
z alone decides nothing, and is weighed with the other tests (`weigh.py`).
"""

from __future__ import annotations

import numpy as np
from scipy.fft import prev_fast_len

from weir.analysis.detectors.binned import at_lags, near, shifted
from weir.analysis.detectors.events import FlowEvents, after_start
from weir.analysis.tables import Floats

BIN_S = 0.005
WINDOW_S, PRIOR_PACKETS = 2.0, 20
"""A flow's loss rate is that of its packets in this window, and of so many more at the loss rate of all."""
COUPLED_S, REACHES = 0.08, 5
"""Weights fall by e within the first; packets more than `REACHES` times that apart do not count."""
NEAR_S, LAGS_S = 0.25, 1.0
_TINY = 1e-12


def loss_rates_z(a: FlowEvents, b: FlowEvents) -> float | None:
    """z of two flows' losses within tens of milliseconds; None if they ran together for less than 4 s."""
    bins = common_bins(a, b)
    if bins is None:
        return None
    return coupling_z(excess_losses(a, *bins), excess_losses(b, *bins), COUPLED_S)


def common_bins(a: FlowEvents, b: FlowEvents) -> tuple[int, int] | None:
    """When the bins begin, ns, and how many there are while both flows ran; None for less than 4 s."""
    start_ns, end_ns = after_start(a, b)
    bins = int((end_ns - start_ns) / (BIN_S * 1e9))
    return (start_ns, prev_fast_len(bins, real=True)) if bins >= 4 * round(LAGS_S / BIN_S) else None


def coupling_z(one: Floats, other: Floats, coupled_s: float) -> float:
    """z of Σ one_i other_j exp(−|t_i − t_j| ÷ coupled_s) of two series of bins; see the module's text."""
    lags, reach = round(LAGS_S / BIN_S), round(REACHES * coupled_s / BIN_S)
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) * BIN_S / coupled_s)
    curve = at_lags(shifted(other, one), weights, lags)
    chance = curve[np.abs(np.arange(-lags, lags + 1)) >= round(NEAR_S / BIN_S)]
    return float((curve[lags] - chance.mean()) / max(float(chance.std()), _TINY))


def excess_losses(flow: FlowEvents, start_ns: int, count: int) -> Floats:
    """Losses in each of `count` bins, less those expected."""
    which = (flow.sent_ns - start_ns) // int(BIN_S * 1e9)
    inside = (which >= 0) & (which < count)
    packets = np.bincount(which[inside], minlength=count)
    lost = np.bincount(which[inside & flow.lost], minlength=count)
    half = round(WINDOW_S / 2 / BIN_S)
    usual = float(lost.sum()) / max(float(packets.sum()), 1.0)
    p = (near(lost, half) + PRIOR_PACKETS * usual) / (near(packets, half) + PRIOR_PACKETS)
    result: Floats = lost - p * packets
    return result
