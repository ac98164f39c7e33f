# SPDX-License-Identifier: Apache-2.0
"""Detectors on anyone's captures: which flows they look at, and what they are given of them."""

from __future__ import annotations

from pathlib import Path

from weir.analysis.detectors import FlowEvents, PairResult, pair_detector
from weir.analysis.detectors.policing import POLICING_DETECTORS, FlowVerdict
from weir.analysis.errors import FlowChoiceError
from weir.analysis.traces import CaptureTraces, FlowTrace, traces_of

CLOCK_ERROR_NS = 2_000_000
"""Clocks of two captures are taken to agree within this: hosts that keep time, or one host."""


def policing(name: str, path: Path) -> tuple[CaptureTraces, list[FlowVerdict]]:
    """Judge every flow of a capture by a detector of policing; raises what `traces_of` raises."""
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
    """Judge two flows by a detector of pairs: of one capture that holds both, or of one each.

    The flow with the most data of each file is taken, or the two with the most of the one, unless `flows`
    names them. The captures' clocks are taken as they are: without a switch or the receiver's capture
    nothing pins one to the other. Raises UnknownDetectorError, FlowChoiceError and what `traces_of` raises.
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
    error_ns = 0 if captures[0] is captures[1] else CLOCK_ERROR_NS
    return judge(events_of(one, error_ns), events_of(other, error_ns)), (one, other)


def events_of(flow: FlowTrace, clock_error_ns: int = 0) -> FlowEvents:
    """What a detector of pairs sees of a flow; raises FlowChoiceError without an RTT sample."""
    if not len(flow.rtt_ns):
        raise FlowChoiceError(f"{flow.name} has no RTT sample; the capture must hold its ACKs too")
    data = flow.payload_bytes > 0
    return FlowEvents(
        sent_ns=flow.time_ns[data],
        size_bytes=flow.payload_bytes[data],
        lost=flow.lost[data],
        min_rtt_ns=int(flow.rtt_ns.min()),
        clock_error_ns=clock_error_ns,
        rtt_sent_ns=flow.rtt_sent_ns,
        rtt_ns=flow.rtt_ns,
    )
