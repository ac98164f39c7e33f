# SPDX-License-Identifier: Apache-2.0
"""When a flow probes for more bandwidth, as BBR does in one RTT of eight, and loss without these RTTs.

BBR sends 1.25 times its estimate for one RTT and 0.75 times for the next (N. Cardwell et al., "BBR:
Congestion-Based Congestion Control", ACM Queue 14, 2016). Behind a policer the losses of every flow that
probes lie in the first; flows that start together with one RTT probe together, whether or not they share
anything.
"""

from __future__ import annotations

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.tables import Bools, Floats

CYCLE_RTTS = 8
PROBES_ABOVE, DRAINS_BELOW = 1.125, 0.875
"""Half of BBR's gains of 1.25 and 0.75 away from the median of the cycle."""
MIN_PACKETS_PER_RTT = 16
"""With fewer, a gain is no more than two packets, as chance is."""


def probing(packets_per_rtt: Floats) -> Bools:
    """Which RTTs a flow probed or drained in: far from the median of the cycle round each."""
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

    Intervals in which a flow sent fewer than `min_packets` packets besides are left out.
    """
    start = max(int(a.sent_ns.min()), int(b.sent_ns.min()))
    count = max(min(int(a.sent_ns.max()), int(b.sent_ns.max())) - start, 0) // (rtts * rtt_ns)
    sent, lost = [], []
    for flow in (a, b):
        place = (flow.sent_ns - start) // rtt_ns
        inside = (place >= 0) & (place < count * rtts)
        sent.append(np.bincount(place[inside], minlength=count * rtts).astype(np.float64))
        lost.append(np.bincount(place[inside], flow.lost[inside].astype(np.float64), minlength=count * rtts))
    steady = ~(probing(sent[0]) | probing(sent[1]))
    total = [np.where(steady, s, 0).reshape(count, rtts).sum(axis=1) for s in sent]
    gone = [np.where(steady, s, 0).reshape(count, rtts).sum(axis=1) for s in lost]
    enough = (total[0] >= min_packets) & (total[1] >= min_packets)
    return gone[0][enough] / total[0][enough], gone[1][enough] / total[1][enough]
