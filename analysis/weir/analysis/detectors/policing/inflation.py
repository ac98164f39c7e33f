# SPDX-License-Identifier: Apache-2.0
"""Are RTTs longer than usual at losses, or nearly always, as a queue makes them?"""

from __future__ import annotations

import numpy as np

from weir.analysis.detectors.policing.queue import MIN_SAMPLES
from weir.analysis.detectors.policing.verdict import MIN_LOSSES
from weir.analysis.tables import Ints
from weir.analysis.traces import FlowTrace

INFLATED = 1.3
INFLATED_S = 0.005
"""A queue made an RTT long that exceeds a short one by this factor and by this time."""
MIN_EVENTS, MOST_LONGER = 8, 0.2
"""Losses of a queue, of several flows: half of 8 or more events met RTTs that a fifth of the samples exceed.
At simulated policers with other traffic 24 % and more exceeded them (seeds below 60)."""
CHANCE = 0.25
"""As likely as this, or more, losses elsewhere would all meet RTTs as long, by chance. The one loss at a real
shaper met an RTT that a fifth of the samples reached."""


def behind_queue(flow: FlowTrace) -> float | None:
    """The least RTT at a loss, seconds, where each loss met an RTT that a queue had made long."""
    if len(flow.rtt_ns) < 2 * MIN_LOSSES:
        return None
    at_loss = _rtt_at(flow, flow.time_ns[flow.lost])
    usual = float(np.percentile(flow.rtt_ns, 10))
    # Losses within an RTT are one event: they meet one queue, or none.
    events = 1 + int(np.count_nonzero(np.diff(flow.time_ns[flow.lost]) > usual))
    chance = float(np.mean(flow.rtt_ns >= at_loss.min())) ** events
    return float(at_loss.min()) / 1e9 if np.all(at_loss > _long_ns(usual)) and chance < CHANCE else None


def mostly_behind_queue(flow: FlowTrace) -> str | None:
    """The RTTs that most losses met, where these were long, as they are when a queue overflows."""
    if not len(flow.rtt_ns):
        return None
    usual = float(np.median(flow.rtt_ns))
    lost_ns = flow.time_ns[flow.lost]
    events = lost_ns[np.diff(lost_ns, prepend=-np.inf) > usual]
    if len(events) < MIN_EVENTS:
        return None
    met = float(np.median(_rtt_at(flow, events)))
    if met < usual + INFLATED_S * 1e9 or np.mean(flow.rtt_ns > met) > MOST_LONGER:
        return None
    return f"{met / 1e6:.0f} ms and more, where the median is {usual / 1e6:.0f} ms"


def standing_queue(flow: FlowTrace) -> str | None:
    """The RTTs, where nearly all are longer than the shortest: a queue was hardly ever empty.

    Such a queue delays all packets alike, so that RTTs do not follow its backlog.
    """
    if len(flow.rtt_ns) < MIN_SAMPLES:
        return None
    least, usual = float(flow.rtt_ns.min()), float(np.percentile(flow.rtt_ns, 10))
    if usual <= _long_ns(least):
        return None
    return f"nine of ten RTTs are {usual / 1e6:.0f} ms and more, but the shortest is {least / 1e6:.0f} ms"


def _long_ns(short_ns: float) -> float:
    return max(INFLATED * short_ns, short_ns + INFLATED_S * 1e9)


def _rtt_at(flow: FlowTrace, time_ns: Ints) -> Ints:
    """The RTT of the last packet with one before each time."""
    order = np.argsort(flow.rtt_sent_ns)
    before = np.searchsorted(flow.rtt_sent_ns[order], time_ns, side="right") - 1
    return flow.rtt_ns[order][np.maximum(before, 0)]
