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

of which about half is seen (0.46 in the median of 60 simulated flows, seeds 0 to 59; 0.05 to 1.6), as a
bucket is not always empty. Where z is small, it means nothing that the losses do not follow the load.
"""

from __future__ import annotations

from dataclasses import dataclass

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


LEAST_Z_OF_HALF = 30.0
"""Flows that their application limits, in a policer with a third to a half that is not captured, had 6 to 30
in 27 of 33 cases in which losses did not follow the load; flows with random losses in 4 of 51 (seeds 0 to
59)."""


@dataclass(frozen=True)
class Dependence:
    """By how many standard deviations losses follow the flow's load or its drops (`z`).

    `z_of_half` is what the load of half of a policer's traffic would show at most.
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
        return not self.found and self.z_of_half >= LEAST_Z_OF_HALF


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
    for window_s in WINDOWS_S:
        if window_s > rtt_ns / 2e9:
            break
        load = sent[:-1] - sent[np.searchsorted(time_s, time_s - window_s)] - usual * window_s
        deviation = max(float(np.sum(load**2 * found.local * (1 - found.local))), 1e-12) ** 0.5
        largest = max(largest, float(np.sum(load * found.excess)) / deviation)
        frames = np.maximum(usual * window_s / frame, 1.0)
        z_of_half = float(np.sum(load**2 / (2 * frame * frames))) / deviation  # of the longest
    passed = float(flow.frame_bytes[data & ~flow.lost].sum())
    frame_s = frame * (end - start) / 1e9 / max(passed, frame)
    return Dependence(max(largest, float(own_z(found, frame_s * np.array(OWN)).max())), z_of_half)
