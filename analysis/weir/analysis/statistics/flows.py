# SPDX-License-Identifier: Apache-2.0
"""Figures of merit of flows: fairness, gain of goodput, retransmissions, queueing delay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from weir.analysis.statistics.distributions import finite


@dataclass(frozen=True)
class QueueingDelay:
    """RTT above the smallest RTT, in seconds, over `n` samples."""

    n: int
    mean_s: float
    median_s: float
    p95_s: float
    maximum_s: float


def jain_index(rates: ArrayLike) -> float | None:
    """Jain's fairness index (Σ x)² ÷ (n Σ x²): 1 is fair; 1 ÷ n means that one of n flows has everything.

    R. Jain, D. Chiu, W. Hawe, DEC TR-301, 1984. None where all rates are 0. Raises ValueError for a negative
    rate.
    """
    known = finite(rates)
    if np.any(known < 0):
        raise ValueError(f"rate {known.min():g}; rates are not negative")
    if not len(known) or not known.any():
        return None
    scaled = known / known.max()  # avoids under- and overflow of the squares
    return float(scaled.sum() ** 2 / (len(scaled) * np.sum(scaled**2)))


def gp_gain_percent(goodput_bps: float, reference_bps: float) -> float | None:
    """The gain of goodput over the reference, in percent of the reference.

    GpGain of Y. Cao, A. Jain, K. Sharma, A. Balasubramanian, A. Gandhi, "When to use and when not to use
    BBR", IMC 2019 (BBR against CUBIC). None where the reference is 0.
    """
    if goodput_bps < 0 or reference_bps < 0:
        raise ValueError(f"goodputs {goodput_bps:g} and {reference_bps:g}; they are not negative")
    return 100 * (goodput_bps - reference_bps) / reference_bps if reference_bps else None


def retransmission_ratio(retransmissions: int, sent: int) -> float | None:
    """Retransmissions ÷ packets sent, which include retransmissions; None without packets."""
    if not 0 <= retransmissions <= sent:
        raise ValueError(f"{retransmissions} retransmissions of {sent} packets; valid: 0 to {sent}")
    return retransmissions / sent if sent else None


def bandwidth_share(throughput_bps: float, all_bps: ArrayLike) -> float | None:
    """One flow's part of the sum over all flows, which include it; None where the sum is 0."""
    total = float(finite(all_bps).sum())
    return throughput_bps / total if total else None


def queueing_delay(rtt_s: ArrayLike, min_rtt_s: float | None = None) -> QueueingDelay | None:
    """RTT samples above the smallest of them, or above `min_rtt_s`; None without samples.

    Raises ValueError when `min_rtt_s` is larger than a sample.
    """
    known = finite(rtt_s)
    if not len(known):
        return None
    least = float(known.min())
    if min_rtt_s is not None and min_rtt_s > least:
        raise ValueError(f"minimum RTT of {min_rtt_s:g} s, but a sample of {least:g} s")
    delay = known - (least if min_rtt_s is None else min_rtt_s)
    return QueueingDelay(
        n=len(delay),
        mean_s=float(delay.mean()),
        median_s=float(np.median(delay)),
        p95_s=float(np.percentile(delay, 95)),
        maximum_s=float(delay.max()),
    )
