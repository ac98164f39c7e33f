# SPDX-License-Identifier: Apache-2.0
"""Finds the RTTs in which a flow probes for bandwidth, as BBR does in one of eight, and loss outside them.

BBR sends at 1.25 times its estimate for one RTT and at 0.75 times for the next (N. Cardwell et al., "BBR:
Congestion-Based Congestion Control", ACM Queue 14, 2016). With a policer, the losses of a BBR flow lie in the
first of these. Flows that start together with equal RTTs probe together, whether or not they share a policer.
"""

from __future__ import annotations

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.tables import Bools, Floats

CYCLE_RTTS = 8
PROBES_ABOVE, DRAINS_BELOW = 1.125, 0.875
"""Thresholds relative to the median of a cycle: half way to BBR's gains of 1.25 and 0.75."""
MIN_PACKETS_PER_RTT = 16
"""With fewer packets a gain is less than chance."""


def probing(packets_per_rtt: Floats) -> Bools:
    """Mark the RTTs in which a flow probed or drained: far from the median of the cycle around them."""
    half = CYCLE_RTTS // 2
    if len(packets_per_rtt) <= half:
        return np.zeros(len(packets_per_rtt), dtype=bool)
    padded = np.pad(packets_per_rtt.astype(np.float64), half, mode="reflect")
    usual = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)
    apart = (packets_per_rtt > PROBES_ABOVE * usual) | (packets_per_rtt < DRAINS_BELOW * usual)
    result: Bools = apart & (usual >= MIN_PACKETS_PER_RTT)
    return result


def steady_loss(
    a: FlowEvents, b: FlowEvents, rtt_ns: int, rtts: int, min_packets: int
) -> tuple[Floats, Floats]:
    """Loss ratios of both flows over intervals of `rtts` RTTs, without the RTTs in which either probed.

    Intervals in which a flow sent fewer than `min_packets` other packets are left out.
    """
    start = max(int(a.sent_ns.min()), int(b.sent_ns.min()))
    count = max(min(int(a.sent_ns.max()), int(b.sent_ns.max())) - start, 0) // (rtts * rtt_ns)
    sent, lost = [], []
    for flow in (a, b):
        index = (flow.sent_ns - start) // rtt_ns
        inside = (index >= 0) & (index < count * rtts)
        sent.append(np.bincount(index[inside], minlength=count * rtts).astype(np.float64))
        lost.append(np.bincount(index[inside], flow.lost[inside].astype(np.float64), minlength=count * rtts))
    steady = ~(probing(sent[0]) | probing(sent[1]))
    total = [np.where(steady, s, 0).reshape(count, rtts).sum(axis=1) for s in sent]
    gone = [np.where(steady, s, 0).reshape(count, rtts).sum(axis=1) for s in lost]
    enough = (total[0] >= min_packets) & (total[1] >= min_packets)
    return gone[0][enough] / total[0][enough], gone[1][enough] / total[1][enough]
