# SPDX-License-Identifier: Apache-2.0
"""Evaluates detectors of policing on the captures of finished runs; the switch's configuration is the truth.

A detector gets all TCP flows of a phase at once, as in `weir detect policing`, so that flows that share a
policer are explained together. The switch's reports are used only to align the senders' clocks where these
differ.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from weir.analysis.clocks import AlignedClock
from weir.analysis.detectors.policing import POLICING_DETECTORS
from weir.analysis.evaluate_policing import PolicingTrial, policing_trial
from weir.analysis.policers import NOT_PLAIN
from weir.analysis.reports import join_run, read_run
from weir.analysis.result import pinned_clocks
from weir.analysis.run_data import Directed, Join
from weir.analysis.tables import TCP, Ints, reverse_of
from weir.analysis.traces import FlowTrace, as_sent
from weir.analysis.validity import one_clock, same_clock
from weir.rundir.manifest import Flow, Policer


@dataclass(frozen=True)
class LeftOut:
    """A measured flow that cannot be judged, with the reason."""

    run: str
    flow: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """Ready for JSON."""
        return asdict(self)


def policing_trials_of_runs(
    directories: Iterable[Path], detectors: Sequence[str], joiner: Join = join_run
) -> tuple[list[PolicingTrial], list[LeftOut]]:
    """Judge each measured flow of each run; the second list names those that cannot be judged.

    `joiner` replaces `join_run`. Raises KeyError for an unknown detector, RunFileError for
    a directory that is no run or lacks its captures or reports, and `weir_core.CaptureError`.
    """
    judges = {name: POLICING_DETECTORS[name] for name in detectors}
    trials: list[PolicingTrial] = []
    left_out: list[LeftOut] = []
    for directory in directories:
        data = read_run(directory, joiner)
        manifest = data.manifest
        inside = [flow for flow in data.flows if flow.kind != "outside"]
        own = pinned_clocks(inside)
        clocks = None
        if not one_clock(own):
            clocks = same_clock(own, {flow.src_host for flow in inside if flow.src_host}, data.clocks)
        for phase in manifest.phases:
            traces = _traces([flow for flow in inside if flow.phase is phase], clocks)
            truths: dict[str, tuple[float, float] | None] = {}
            for flow in phase.flows:
                if not flow.measured:
                    continue
                policer = next((p for p in phase.policers if p.name == flow.policer), None)
                reason = _why_not(flow, policer, traces, clocks)
                if reason is not None:
                    left_out.append(LeftOut(manifest.name, flow.id, reason))
                    continue
                truths[flow.id] = (
                    None if policer is None else (policer.applied_rate_bps, policer.applied_burst_bytes)
                )
            if not truths:
                continue
            for name, judge in judges.items():
                begun = time.process_time()
                verdicts = dict(zip(traces, judge(list(traces.values())), strict=True))
                cost = (time.process_time() - begun) / len(truths)
                trials += [
                    policing_trial(name, manifest.name, label, verdicts[label], bucket, cost)
                    for label, bucket in truths.items()
                ]
    return trials, left_out


def _why_not(
    flow: Flow,
    policer: Policer | None,
    traces: Mapping[str, FlowTrace],
    clocks: Mapping[str, AlignedClock] | None,
) -> str | None:
    """The reason why a flow cannot be judged or compared with its policer; None where it can."""
    if flow.protocol != TCP:
        return "no TCP: its capture does not show what was lost"
    if flow.policer is not None and policer is None:
        return f"its policer {flow.policer} is not among those of the phase"
    if policer is not None and policer.cells > 1:
        return f"policer {policer.name}: hashed or learned, so the flow's bucket is not in the configuration"
    if policer is not None and not policer.plain:
        return f"policer {policer.name}: {NOT_PLAIN}"
    if clocks is not None and flow.src_host not in clocks:
        return f"the clock of {flow.src_host} could not be pinned to the switch's"
    if flow.id not in traces:
        return "no data packet of it in the captures"
    return None


def _traces(flows: Sequence[Directed], clocks: Mapping[str, AlignedClock] | None) -> dict[str, FlowTrace]:
    """The TCP flows with data by label, largest first; with `clocks`, those on the switch's clock only."""
    usable = [
        flow
        for flow in flows
        if flow.row.protocol == TCP
        and np.any(flow.packets.payload_length > 0)
        and (clocks is None or (flow.src_host or "") in clocks)
    ]

    def aligned(flow: Directed, at_ns: Ints) -> Ints:
        return at_ns if clocks is None else clocks[flow.src_host or ""].to_target(at_ns)

    data_ns = {f.row.key: aligned(f, f.packets.sent_ns[f.packets.payload_length > 0]) for f in usable}
    traces: dict[str, FlowTrace] = {}
    for flow in usable:
        row = flow.row
        trace = as_sent(row, flow.packets, flow.rtts)
        back = data_ns.get(reverse_of(row.key), trace.request_ns)
        traces[flow.label] = replace(
            trace,
            time_ns=aligned(flow, trace.time_ns),
            rtt_sent_ns=aligned(flow, trace.rtt_sent_ns),
            request_ns=back,
        )
    return dict(sorted(traces.items(), key=lambda item: -int(item[1].payload_bytes.sum())))
