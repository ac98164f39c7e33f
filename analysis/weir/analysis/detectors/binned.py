# SPDX-License-Identifier: Apache-2.0
"""A flow's load and losses, counted in bins of some milliseconds and compared with what is usual nearby.

In each bin, with n packets sent, l lost, p the local loss rate and d the bytes sent above the local mean
(both over `WINDOW_S`):

    e = l − p n,    var e = n p (1 − p)

What the flow itself did explains a part of e ÷ √var: d and max(d, 0) in this bin and the three before, and e
in the three before. Two policers of flows in step, as CUBIC's after a common start, would otherwise look
like one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import fft
from scipy.signal import fftconvolve

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.tables import Floats, Ints

WINDOW_S = 0.25
LAGS = 4
"""This bin and the three before it."""
CLIP = 4.0
"""Residuals and loads beyond so many standard deviations count as that: no single bin decides."""
SMOOTH_S = 0.005
_TINY = 1e-12


@dataclass(frozen=True)
class BinnedFlow:
    """One flow: arrays with a value per bin, then two with a value per lag.

    `load` is d in bytes; `residual` is what is left of e ÷ √var; `slope` is what a unit of risk adds to it.
    `response` is the risk that a byte of the flow's own load adds in its bin and in those after it, with the
    variance of each.
    """

    packets: Ints
    load: Floats
    residual: Floats
    slope: Floats
    response: Floats
    response_variance: Floats


def binned(flow: FlowEvents, start_ns: int, width_ns: int, count: int, odds: bool = False) -> BinnedFlow:
    """`count` bins of `width_ns` from `start_ns` on.

    Risk is a flow's probability of loss, or with `odds` the logarithm of its odds, of which a unit changes e
    by var e. The former finds more where losses are rare, the latter is the same for flows with different
    loss.
    """
    which = (flow.sent_ns - start_ns) // width_ns
    inside = (which >= 0) & (which < count)
    which = which[inside]
    packets = np.bincount(which, minlength=count)
    size_bytes = np.bincount(which, flow.size_bytes[inside], minlength=count)
    lost = np.bincount(which[flow.lost[inside]], minlength=count)
    half = max(int(WINDOW_S * 5e8) // width_ns, 2)
    # Half a loss and a packet more: a flow that lost nothing nearby is not certain to lose nothing.
    p = (near(lost, half) + 0.5) / (near(packets, half) + 1)
    excess = lost - p * packets
    load = size_bytes - near(size_bytes, half) / near(np.ones(count), half)
    scale = max(float(load.std()), _TINY)
    load = np.clip(load / scale, -CLIP, CLIP)
    slope = np.sqrt(packets * p * (1 - p)) if odds else np.sqrt(packets / (p * (1 - p)))
    sent = packets > 0
    value = excess[sent] / np.sqrt(packets[sent] * p[sent] * (1 - p[sent]))
    own = [later(load, lag) for lag in range(LAGS)]
    terms = (np.array(own) * slope)[:, sent].T
    response, left = _regressed(terms, value)
    variance = np.diag(np.linalg.pinv(terms.T @ terms)) * float(np.var(left))
    own += [np.maximum(each, 0.0) for each in own]
    if not odds:  # the response is compared with the other flow's, which has no such terms
        own += [later(excess, lag) for lag in range(1, LAGS)]
    value = _regressed((np.array(own) * slope)[:, sent].T, value)[1]
    limit = CLIP * max(float(value.std()), _TINY)
    residual = np.zeros(count)
    residual[sent] = np.clip(value, -limit, limit)
    return BinnedFlow(packets, load * scale, residual, slope, response / scale, variance / scale**2)


def _regressed(terms: Floats, value: Floats) -> tuple[Floats, Floats]:
    """The coefficients by least squares, and what is left of the value."""
    found: Floats = np.asarray(np.linalg.lstsq(terms, value, rcond=None)[0], dtype=np.float64)
    return found, value - terms @ found


def smoothness(flow: FlowEvents) -> float:
    """Bins of 5 ms that have packets ÷ those that would have if packets came independently of each other.

    About 1 for a paced flow, less for one that sends a window at a time.
    """
    if not len(flow.sent_ns):
        return 0.0
    width_ns, window_ns = int(SMOOTH_S * 1e9), int(WINDOW_S * 1e9)
    sent_ns = flow.sent_ns - flow.sent_ns.min()
    bins = window_ns // width_ns
    each = np.bincount(sent_ns // window_ns) / bins
    expected = bins * float(np.sum(-np.expm1(-each)))
    return len(np.unique(sent_ns // width_ns)) / expected


def near(values: Ints | Floats, half: int) -> Floats:
    """The sum over each bin and `half` bins on either side, fewer at the ends."""
    total = np.pad(np.cumsum(values, dtype=np.float64), (1, 0))
    padded, count = np.pad(total, half, mode="edge"), len(values)
    result: Floats = padded[2 * half + 1 : 2 * half + 1 + count] - padded[:count]
    return result


def later(values: Floats, lag: int) -> Floats:
    """Each value `lag` bins later, zeros before."""
    return np.concatenate([np.zeros(lag), values[: len(values) - lag]])


def shifted(one: Floats, other: Floats) -> Floats:
    """Σ one[k + s] other[k] over k, for each circular shift s."""
    result: Floats = fft.irfft(fft.rfft(one) * np.conj(fft.rfft(other)), len(one))
    return result


def at_lags(sums: Floats, kernel: Floats, lags: int) -> Floats:
    """Sums at circular shifts, as of `shifted`, weighted with the kernel around each of −lags to lags."""
    reach = len(kernel) // 2
    around = sums[np.arange(-lags - reach, lags + reach + 1)]
    result: Floats = fftconvolve(around, kernel[::-1], "valid")
    return result
