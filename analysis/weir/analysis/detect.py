# SPDX-License-Identifier: Apache-2.0
"""Runs detectors on captures: chooses the flows and converts them to the detectors' input."""

from __future__ import annotations

from pathlib import Path

from weir.analysis.detectors import FlowEvents, PairResult, pair_detector
from weir.analysis.detectors.policing import POLICING_DETECTORS, FlowVerdict
from weir.analysis.errors import FlowChoiceError
from weir.analysis.jitter import jitter_of
from weir.analysis.traces import CaptureTraces, FlowTrace, traces_of

CLOCK_ERROR_NS = 2_000_000
"""Assumed bound on the difference of two captures' clocks: hosts with NTP or PTP, or one host."""
ONE_WAY = 0.5
"""Of the longer RTT: by so much one sender may be nearer to the policer than the other."""


def policing(name: str, path: Path) -> tuple[CaptureTraces, list[FlowVerdict]]:
    """Judge every flow of a capture by a detector of policing; raises the errors of `traces_of`."""
    capture = traces_of(path)
    return capture, POLICING_DETECTORS[name](capture.flows)


def choose_flow(capture: CaptureTraces, wanted: str | None = None) -> FlowTrace:
    """The flow named `SRC:PORT-DST:PORT`, else the one that sent the most payload; raises FlowChoiceError."""
    if wanted is not None:
        for flow in capture.flows:
            if wanted == flow.name:
                return flow
        valid = ", ".join(flow.name for flow in capture.flows[:10]) or "none has data"
        raise FlowChoiceError(f"{capture.path}: no flow {wanted!r} with data; there are: {valid}")
    if not capture.flows:
        raise FlowChoiceError(f"{capture.path}: no flow with data, so there is nothing to compare")
    return capture.flows[0]


def detect(
    name: str, first: Path, second: Path | None = None, flows: tuple[str | None, str | None] = (None, None)
) -> tuple[PairResult, tuple[FlowTrace, FlowTrace]]:
    """Judge two flows by a detector of pairs: both from one capture, or one from each of two.

    Unless `flows` names them, these are the flow with the most data of each capture, or the two with the most
    data of a single one. Clocks are not aligned, as two senders' captures have no packet in common, and
    nothing tells how far from the policer each was made. Raises
    UnknownDetectorError, FlowChoiceError and the errors of `traces_of`.
    """
    judge = pair_detector(name)
    captures = [traces_of(first)]
    captures.append(captures[0] if second in (None, first) else traces_of(second or first))
    if second is None and flows == (None, None):
        if len(captures[0].flows) < 2:
            raise FlowChoiceError(f"{first}: fewer than two flows with data; valid: a second capture")
        one, other = captures[0].flows[:2]
    else:
        one, other = (choose_flow(capture, flow) for capture, flow in zip(captures, flows, strict=True))
    if one is other:
        raise FlowChoiceError(f"{first}: the same flow twice ({one.name}); name two flows")
    error_ns = 0
    if captures[0] is not captures[1]:
        longer_ns = max((int(flow.rtt_ns.min()) for flow in (one, other) if len(flow.rtt_ns)), default=0)
        error_ns = CLOCK_ERROR_NS + int(ONE_WAY * longer_ns)
    return judge(events_of(one, error_ns), events_of(other, error_ns)), (one, other)


def events_of(flow: FlowTrace, clock_error_ns: int = 0) -> FlowEvents:
    """The input of a detector of pairs from a flow's trace; raises FlowChoiceError without an RTT sample."""
    if not len(flow.rtt_ns):
        raise FlowChoiceError(f"{flow.name} has no RTT sample; the capture must hold its ACKs too")
    data = flow.payload_bytes > 0
    return FlowEvents(
        sent_ns=flow.time_ns[data],
        size_bytes=flow.payload_bytes[data],
        lost=flow.lost[data],
        min_rtt_ns=int(flow.rtt_ns.min()),
        clock_error_ns=clock_error_ns,
        jitter_ns=jitter_of(flow.rtt_sent_ns, flow.rtt_ns),
        rtt_sent_ns=flow.rtt_sent_ns,
        rtt_ns=flow.rtt_ns,
    )
