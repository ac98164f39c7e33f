# SPDX-License-Identifier: Apache-2.0
"""Runs detectors on captures: chooses the flows and converts them to the detectors' input."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weir.analysis.captures import CaptureTraces, traces_of
from weir.analysis.detectors import NEED_EXACT_TIMES, FlowEvents, PairResult, Verdict, pair_detector
from weir.analysis.detectors.policing import POLICING_DETECTORS, FlowVerdict
from weir.analysis.errors import FlowChoiceError
from weir.analysis.tables import FlowKey, Ints, reverse_of
from weir.analysis.timestamps import Timestamps, drift_of, timestamps_of
from weir.analysis.traces import FlowTrace
from weir.analysis.vantage import COMPLETE, Vantage, missing, vantage_of

CLOCK_ERROR_NS = 2_000_000
"""Assumed bound on the difference of two captures' clocks: hosts with NTP or PTP, or one host."""
ONE_WAY = 0.5
"""Of the longer RTT: by so much one sender may be nearer to the policer than the other."""


@dataclass(frozen=True)
class Unseen:
    """The verdict on flows that their captures do not show well enough."""

    reason: str
    verdict: Verdict = "cannot_tell"

    def detail(self) -> dict[str, object]:
        """No statistics: none was computed."""
        return {"decided_by": None, "jitter_ns": None, "p": None}


@dataclass(frozen=True)
class Detection:
    """The verdict on two flows, what their captures showed, and how their clocks compare.

    `clock_error_ns` is how far the clocks were taken to be apart, `clock_drift` by how much the second one
    runs faster (its times were converted); None where nothing shows it, 0 in one capture.
    """

    result: PairResult
    flows: tuple[FlowTrace, FlowTrace]
    captured: tuple[Vantage, Vantage]
    clock_error_ns: int
    clock_drift: float | None
    warnings: tuple[str, ...]


def policing(name: str, path: Path) -> tuple[CaptureTraces, list[FlowVerdict]]:
    """Judge every flow of a capture by a detector of policing; raises the errors of `traces_of`."""
    capture = traces_of(path)
    whole = [flow for flow in capture.flows if flow.complete >= COMPLETE]
    judged = iter(POLICING_DETECTORS[name](whole))
    return capture, [next(judged) if flow.complete >= COMPLETE else _unseen(flow) for flow in capture.flows]


def _unseen(flow: FlowTrace) -> FlowVerdict:
    detail: dict[str, object] = {"complete": flow.complete}
    return FlowVerdict(flow.name, "cannot_tell", missing(flow.name, flow.complete), detail=detail)


def choose_flow(capture: CaptureTraces, wanted: str | None = None) -> FlowTrace:
    """The flow named `SRC:PORT-DST:PORT`, else the one that sent the most payload; raises FlowChoiceError."""
    if wanted is not None:
        for flow in capture.flows:
            if wanted == flow.name:
                return flow
        valid = ", ".join(flow.name for flow in capture.flows[:10]) or "none has data"
        raise FlowChoiceError(f"{capture.path}: no flow {wanted!r} with data; there are: {valid}")
    if not capture.flows:
        raise FlowChoiceError(_too_few(capture))
    return capture.flows[0]


def detect(
    name: str,
    first: Path,
    second: Path | None = None,
    flows: tuple[str | None, str | None] = (None, None),
    *,
    jitter_ns: int | None = None,
    clock_error_ns: int | None = None,
) -> Detection:
    """Judge two flows by a detector of pairs: both from one capture, or one from each of two.

    Unless `flows` names them, these are the flow with the most data of each capture, or the two with the most
    data of a single one. `jitter_ns` is how much the delay between capture and policer varies; without it, it
    is taken from the capture. `clock_error_ns` bounds the difference of two captures' clocks together with
    that of the senders' distances to the policer: these captures have no packet in common that would show it.
    Whether one clock runs faster, the timestamps of a host show that both flows have in common.

    Raises UnknownDetectorError, FlowChoiceError and the errors of `traces_of`.
    """
    judge = pair_detector(name)
    paths = (first, second or first)
    captures = [traces_of(first)]
    captures.append(captures[0] if second in (None, first) else traces_of(paths[1]))
    if second is None and flows == (None, None):
        if len(captures[0].flows) < 2:
            raise FlowChoiceError(_too_few(captures[0]))
        one, other = captures[0].flows[:2]
    else:
        one, other = (choose_flow(capture, flow) for capture, flow in zip(captures, flows, strict=True))
    if one is other:
        raise FlowChoiceError(f"{first}: the same flow twice ({one.name}); name two flows")
    two_clocks = captures[0] is not captures[1]
    stamps = _timestamps(paths, (one, other), two_clocks)
    seen = (vantage_of(one, stamps[0], jitter_ns), vantage_of(other, stamps[1], jitter_ns))
    obstacles = [vantage.obstacle(times_matter=name in NEED_EXACT_TIMES) for vantage in seen]
    error_ns = 0
    drift: float | None = 0.0
    if two_clocks:
        drift = _drift(stamps, (one.key, other.key))
        longer_ns = max(vantage.min_rtt_ns or 0 for vantage in seen)
        error_ns = CLOCK_ERROR_NS + int(ONE_WAY * longer_ns) if clock_error_ns is None else clock_error_ns
    found: PairResult
    if any(obstacles):
        found = Unseen("; ".join(obstacle for obstacle in obstacles if obstacle))
    else:
        found = judge(events_of(one, seen[0], error_ns), events_of(other, seen[1], error_ns, drift or 0.0))
    warnings = dict.fromkeys(warning for capture in captures for warning in capture.warnings)
    return Detection(found, (one, other), seen, error_ns, drift, tuple(warnings))


def _too_few(capture: CaptureTraces) -> str:
    if not capture.flows:
        nothing = f"{capture.path}: no flow with data, so there is nothing to compare"
        return ". ".join([nothing, *capture.warnings])
    return (
        f"{capture.path}: only {capture.flows[0].name} has data; a pair needs a second flow, in this or in "
        "another capture (weir detect policing judges a single flow)"
    )


Stamps = dict[FlowKey, Timestamps]


def _timestamps(
    paths: tuple[Path, Path], flows: tuple[FlowTrace, FlowTrace], two_clocks: bool
) -> tuple[Stamps, Stamps]:
    """The timestamps of both directions of each flow that needs them; each file is read once."""
    wanted = [
        [key for key in (flow.key, reverse_of(flow.key)) if two_clocks or flow.view != "sent"]
        for flow in flows
    ]
    if two_clocks:
        return timestamps_of(paths[0], wanted[0]), timestamps_of(paths[1], wanted[1])
    found = timestamps_of(paths[0], [*wanted[0], *wanted[1]])
    return found, found


def _drift(stamps: tuple[Stamps, Stamps], keys: tuple[FlowKey, FlowKey]) -> float | None:
    """By how much the second capture's clock runs faster than the first's, by a host that is in both."""
    if keys[0][1] == keys[1][1]:
        sent = [reverse_of(key) for key in keys]
    elif keys[0][0] == keys[1][0]:
        sent = list(keys)
    else:
        return None
    none = Timestamps.none()
    return drift_of(*(found.get(key, none) for found, key in zip(stamps, sent, strict=True)))


def events_of(flow: FlowTrace, seen: Vantage, clock_error_ns: int = 0, drift: float = 0.0) -> FlowEvents:
    """The input of a detector of pairs from a flow's trace.

    `seen` is what its capture shows of it, with an RTT. Times of a clock that runs faster by `drift` are
    converted; the middle of the flow is kept.
    """
    data = flow.payload_bytes > 0
    middle_ns = int(flow.time_ns[0] + flow.time_ns[-1]) // 2

    def converted(time_ns: Ints) -> Ints:
        ahead_ns = np.rint((time_ns - middle_ns) * (drift / (1 + drift)))
        return np.asarray(time_ns - ahead_ns.astype(np.int64))

    return FlowEvents(
        sent_ns=converted(flow.time_ns[data]),
        size_bytes=flow.payload_bytes[data],
        lost=flow.lost[data],
        min_rtt_ns=seen.min_rtt_ns or 0,
        clock_error_ns=clock_error_ns,
        jitter_ns=seen.jitter_ns or 0,
        behind_policer=flow.view != "sent",
        rtt_sent_ns=converted(flow.rtt_sent_ns),
        rtt_ns=flow.rtt_ns,
    )
