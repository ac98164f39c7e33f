# SPDX-License-Identifier: Apache-2.0
"""Do a flow's losses follow what the flow itself sent?

A packet finds fewer tokens in a bucket, or less room in a queue, when the same flow has just sent more than
usual, and right after a drop there is no room for another frame. Independent random losses do not depend on
either. So this tells them from the losses of a policer or a queue that also has traffic which is not in the
capture, and which no bucket explains from this flow alone.

A flow that sends evenly shows nothing: it never sends more than usual. With w the length of the window, x the
bytes above the usual ones in it, u the usual frames in it and F a frame's bytes, the losses of a flow that is
half of a policer's traffic would rise by x ÷ (2 F u) for each of its packets there, if what is sent too much
was dropped at once. That is an excess with

    z = Σ x² ÷ (2 F u) ÷ √(Σ x² p (1 − p))

with p the loss rate. As much is seen: 1.2 of it in the median of 60 simulated flows (seeds 0 to 59; 0.13 to
2.6), through jitter of 5 ms 0.7. Where z is small, it means nothing that the losses do not follow the load.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.memory import OWN, WINDOW_RTTS, excess_of, own_z
from weir.analysis.traces import FlowTrace

WINDOWS_S = (0.002, 0.005, 0.01, 0.02)
"""Load: bytes sent in such a time before a packet, of those that are at most half of an RTT, against their
mean over the packets of the loss rate."""
LEAST_RTT_NS = 4_000_000
"""Loss rates over shorter times are of too few packets."""
FOLLOWS_Z = 5.0
"""Random losses had up to 3.7 in simulations, but for one of 108 with 5.7 (seeds below 40, up to 5 ms of
jitter), and 4.5 in a real capture; half of a policer's traffic had 8.2 and more, in eight captures 19."""


@dataclass(frozen=True)
class Dependence:
    """By how many standard deviations losses follow the flow's load or its drops (`z`).

    `z_of_half` is what the load of half of a policer's traffic would show.
    """

    z: float
    z_of_half: float

    @property
    def found(self) -> bool:
        """Whether the losses follow what the flow sent."""
        return self.z > FOLLOWS_Z

    @property
    def excluded(self) -> bool:
        """Whether they do not, though they would if the flow were half of a policer's traffic."""
        return not self.found and self.z_of_half >= FOLLOWS_Z


def own_dependence(flow: FlowTrace) -> Dependence:
    """How losses follow the flow's load and its drops; needs losses and RTTs."""
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
    largest, z_of_half, frame = 0.0, 0.0, float(frame_bytes.max())
    rate = float(np.mean(lost))
    for window_s in WINDOWS_S:
        if window_s > rtt_ns / 2e9:
            break
        load = sent[:-1] - sent[np.searchsorted(time_s, time_s - window_s)]
        total = np.concatenate([[0], np.cumsum(load)])
        load = load - (total[last] - total[first]) / (last - first)
        deviation = max(float(np.sum(load**2 * found.local * (1 - found.local))), 1e-12) ** 0.5
        largest = max(largest, float(np.sum(load * found.excess)) / deviation)
        frames = np.maximum(usual * window_s / frame, 1.0)
        usual_deviation = max(float(np.sum(load**2)) * rate * (1 - rate), 1e-12) ** 0.5
        z_of_half = float(np.sum(load**2 / (2 * frame * frames))) / usual_deviation  # of the longest
    passed = float(flow.frame_bytes[data & ~flow.lost].sum())
    frame_s = frame * (end - start) / 1e9 / max(passed, frame)
    return Dependence(max(largest, float(own_z(found, frame_s * np.array(OWN)).max())), z_of_half)
