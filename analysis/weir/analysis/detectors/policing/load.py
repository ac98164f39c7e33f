# SPDX-License-Identifier: Apache-2.0
"""Do a flow's losses follow what the flow itself sent?

A packet finds fewer tokens in a bucket, or less room in a queue, when the same flow has just sent more than
usual, and right after a drop there is no room for another frame. Independent random losses do not depend on
either. So this tells them from the losses of a policer or a queue that also has traffic which is not in the
capture, and which no bucket explains from this flow alone.
"""

from __future__ import annotations

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.memory import OWN, WINDOW_RTTS, excess_of, own_z
from weir.analysis.traces import FlowTrace

WINDOWS_S = (0.002, 0.005, 0.01, 0.02)
"""Load: bytes sent in such a time before a packet, of those that are at most half of an RTT, against their
mean over the time of the loss rate."""
LEAST_RTT_NS = 4_000_000
"""Loss rates over shorter times are of too few packets."""
FOLLOWS_Z = 5.0
"""Random losses had up to 3.5 in simulations (seeds below 40, up to 5 ms of jitter) and 3.5 in a real
capture; half of a policer's traffic had 6.3 and more but for one flow with 3.7, in eight real captures 17."""


def own_dependence(flow: FlowTrace) -> float:
    """By how many standard deviations losses follow the flow's load or its drops; needs losses and RTTs."""
    data = flow.payload_bytes > 0
    sent_ns = flow.time_ns[data]
    start, end = int(sent_ns.min()), int(sent_ns.max())
    rtt_ns = max(int(np.percentile(flow.rtt_ns, 10)), LEAST_RTT_NS)
    size_bytes, lost = flow.payload_bytes[data], flow.lost[data]
    found = excess_of(FlowEvents(sent_ns, size_bytes, lost, rtt_ns), start, end, rtt_ns)
    time_s, frame_bytes = found.time_s, flow.frame_bytes[data][np.argsort(sent_ns, kind="stable")]
    sent = np.concatenate([[0], np.cumsum(frame_bytes)])
    half_s = WINDOW_RTTS * rtt_ns / 1e9
    first, last = np.searchsorted(time_s, time_s - half_s), np.searchsorted(time_s, time_s + half_s)
    usual = (sent[last] - sent[first]) / (2 * half_s)
    largest = 0.0
    for window_s in WINDOWS_S:
        if window_s > rtt_ns / 2e9:
            break
        load = sent[:-1] - sent[np.searchsorted(time_s, time_s - window_s)] - usual * window_s
        variance = float(np.sum(load**2 * found.local * (1 - found.local)))
        largest = max(largest, float(np.sum(load * found.excess)) / max(variance, 1e-12) ** 0.5)
    passed = float(flow.frame_bytes[data & ~flow.lost].sum())
    frame_s = float(frame_bytes.max()) * (end - start) / 1e9 / max(passed, float(frame_bytes.max()))
    return max(largest, float(own_z(found, frame_s * np.array(OWN)).max()))
