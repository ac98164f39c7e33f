# SPDX-License-Identifier: Apache-2.0
"""Joins a run's captures with its reports and classifies each directed flow: data, ACKs, control, other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from weir.analysis.tables import (
    TCP,
    FlowRow,
    Packets,
    RttSamples,
    flows_from_arrow,
    packets_from_arrow,
    rtts_from_arrow,
)
from weir.analysis.timing.moved import Step
from weir.analysis.timing.run import NO_CLOCKS, RunClocks, clocks_of_run
from weir.analysis.timing.switch import switch_steps, without_steps
from weir.rundir.collector import Collector
from weir.rundir.directory import RunDirectory
from weir.rundir.errors import RunFileError
from weir.rundir.manifest import Flow, Manifest, Phase, Policer
from weir.rundir.meeting import Header, first_met

NOT_KEPT = "`capture: {keep: results}` of an experiment and `keep: results` of a campaign keep none"

Kind = Literal["data", "acks", "control", "other", "outside"]


class Joined(Protocol):
    """The result of `weir_core.join_run`: Arrow tables, counts of unmatched packets and reports, warnings."""

    @property
    def flows(self) -> Any: ...  # noqa: D102
    @property
    def packets(self) -> Any: ...  # noqa: D102
    @property
    def rtts(self) -> Any: ...  # noqa: D102
    @property
    def records(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def unmatched(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def warnings(self) -> Sequence[str]: ...  # noqa: D102


Clocks = Sequence[Sequence[tuple[int, int, int, float]]]
"""For each capture the pieces of its clock, as `weir_core.join_run` takes them."""


class Join(Protocol):
    """Joins captures (path, addresses of the host), moved by `clocks`, with the reports in a file."""

    def __call__(  # noqa: D102
        self, captures: list[tuple[str, list[str]]], reports: str, clocks: Clocks | None = None
    ) -> Joined: ...


@dataclass(frozen=True)
class Directed:
    """One directed 5-tuple with its packets in order of sending."""

    row: FlowRow
    packets: Packets
    rtts: RttSamples
    kind: Kind
    configured: Flow | None
    """The configured flow that this is or belongs to."""
    phase: Phase | None
    policer: Policer | None
    """The policer that meters its packets."""
    src_host: str | None

    @property
    def label(self) -> str:
        """A name that is unique in the run."""
        if self.kind == "data" and self.configured is not None:
            return self.configured.id
        row = self.row
        return f"{row.src}:{row.src_port}→{row.dst}:{row.dst_port}/{row.protocol}"


@dataclass(frozen=True)
class RunData:
    """The input of the analysis."""

    manifest: Manifest
    collector: Collector
    flows: tuple[Directed, ...]
    unmatched_reports: int
    unmatched_received: int
    last_packet_ns: int
    records: tuple[int, ...]
    """Of the capture of each of the manifest's hosts, as far as its file is readable."""
    notes: tuple[str, ...] = ()
    clocks: RunClocks = NO_CLOCKS
    """Those of the hosts: all times of packets are on `clocks.reference`'s."""
    switch_steps: tuple[Step, ...] = ()
    """Of the switch's clock, taken out of its times."""


def join(run_dir: Path, manifest: Manifest, collector: Collector, joiner: Join) -> RunData:
    """Join the captures, all on one clock, with the reports; raises RunFileError for a missing file."""
    captures: list[tuple[str, list[str]]] = []
    for host in manifest.hosts:
        path = run_dir / host.pcap
        if not path.is_file():
            raise RunFileError(
                f"{path}: not found; manifest.json names it as the capture of {host.name}. {NOT_KEPT}"
            )
        captures.append((str(path), list(host.addresses)))
    reports = RunDirectory(run_dir).telemetry
    if not reports.is_file():
        raise RunFileError(f"{reports}: not found; the collector writes it when it ends")
    joined = joiner(captures, str(reports))
    clocks = clocks_of_run(
        manifest.hosts,
        manifest.phases,
        flows_from_arrow(joined.flows),
        joined.packets,
        one_machine=manifest.testbed is None,
    )
    if not clocks.one:
        # Moved as they are read, so that RTTs and inferred losses are right across a step, too.
        moves = [clocks.moves_of(host.name) for host in manifest.hosts]
        # Both tables at once would take twice the memory.
        del joined
        joined = joiner(captures, str(reports), moves)
    rows = flows_from_arrow(joined.flows)
    comparable = {
        address for host in manifest.hosts if host.name in clocks.joined for address in host.addresses
    }
    its_flows = [number for number, row in rows.items() if row.src in comparable]
    packets, steps = _on_steady_switch(packets_from_arrow(joined.packets), its_flows)
    return RunData(
        manifest=manifest,
        collector=collector,
        flows=classify(manifest, rows, packets, rtts_from_arrow(joined.rtts)),
        unmatched_reports=int(joined.unmatched.get("reports", 0)),
        unmatched_received=int(joined.unmatched.get("received", 0)),
        last_packet_ns=_last_packet_ns(packets),
        records=tuple(joined.records),
        notes=(*manifest.notes, *joined.warnings),
        clocks=clocks,
        switch_steps=steps,
    )


def _on_steady_switch(packets: Packets, flows: Sequence[int]) -> tuple[Packets, tuple[Step, ...]]:
    """The packets with the switch's times as if its clock had not been set, and when it was.

    Only times of sending of these flows are comparable.
    """
    dropped, passed = packets.dropped & (packets.ingress_ns > 0), packets.passed_ns > 0
    known = np.isin(packets.flow, flows)
    steps = switch_steps(
        np.concatenate([packets.sent_ns[dropped & known], packets.sent_ns[passed & known]]),
        np.concatenate([packets.ingress_ns[dropped & known], packets.passed_ns[passed & known]]),
    )
    if not steps:
        return packets, steps
    found = {}
    for name, its in (("ingress_ns", dropped), ("passed_ns", passed)):
        found[name] = getattr(packets, name).copy()
        found[name][its] = without_steps(steps, packets.sent_ns[its], found[name][its])
    return replace(packets, **found), steps


def _last_packet_ns(packets: Packets) -> int:
    if not len(packets):
        return 0
    return max(int(packets.sent_ns.max()), int(packets.received_ns.max()))


def classify(
    manifest: Manifest, rows: Mapping[int, FlowRow], packets: Packets, rtts: RttSamples
) -> tuple[Directed, ...]:
    """Determine each directed flow's kind, phase and policer."""
    hosts = {address: host.name for host in manifest.hosts for address in host.addresses}
    configured = {
        (flow.src, flow.dst, flow.src_port, flow.dst_port, flow.protocol): (phase, flow)
        for phase in manifest.phases
        for flow in phase.flows
    }
    order = np.argsort(rtts.flow, kind="stable")
    by_flow = rtts.flow[order]
    result = []
    for number, its_packets in packets.by_flow():
        row = rows[number]
        low, high = np.searchsorted(by_flow, [number, number + 1])
        of_flow = order[low:high]
        kind, phase, flow = _identify(row, configured, hosts)
        if phase is None:
            phase = _phase_at(manifest.phases, int(its_packets.sent_ns[0]))
        result.append(
            Directed(
                row=row,
                packets=its_packets,
                rtts=RttSamples(rtts.flow[of_flow], rtts.time_ns[of_flow], rtts.rtt_ns[of_flow]),
                kind=kind,
                configured=flow,
                phase=phase,
                policer=_policer(row, its_packets, phase, kind, flow),
                src_host=hosts.get(row.src),
            )
        )
    return tuple(result)


def _identify(
    row: FlowRow,
    configured: Mapping[tuple[str, str, int, int, int], tuple[Phase, Flow]],
    hosts: Mapping[str, str],
) -> tuple[Kind, Phase | None, Flow | None]:
    if row.dst not in hosts:
        return "outside", None, None
    if row.key in configured:
        return "data", *configured[row.key]
    back = (row.dst, row.src, row.dst_port, row.src_port, row.protocol)
    if back in configured:
        return "acks", *configured[back]
    # A traffic generator's control connection goes to the same server port between the same hosts.
    for phase, flow in configured.values():
        here = (flow.src, flow.dst)
        if row.protocol == TCP and (
            ((row.src, row.dst) == here and flow.dst_port == row.dst_port)
            or ((row.dst, row.src) == here and flow.dst_port == row.src_port)
            or ((row.src, row.dst) == here and flow.src_port == row.src_port)
            or ((row.dst, row.src) == here and flow.src_port == row.dst_port)
        ):
            return "control", phase, flow
    return "other", None, None


def _phase_at(phases: Sequence[Phase], time_ns: int) -> Phase | None:
    """The last phase that had started at that time; before all phases, the first."""
    if not phases:
        return None
    started = [phase for phase in phases if phase.start_ns is not None and phase.start_ns <= time_ns]
    return started[-1] if started else phases[0]


def _policer(
    row: FlowRow, packets: Packets, phase: Phase | None, kind: Kind, flow: Flow | None
) -> Policer | None:
    """The policer of a flow: by drop reports, else by the configuration, else by the policers' matches."""
    if phase is None:
        return None
    cells = packets.policer[packets.dropped]
    for policer in phase.policers:
        if len(cells) and policer.index <= int(cells[0]) < policer.index + policer.cells:
            return policer
    if kind == "data" and flow is not None:
        return next((p for p in phase.policers if p.name == flow.policer), None)
    header = Header(row.src, row.dst, row.protocol, row.src_port, row.dst_port)
    met = first_met(((policer, policer.match or ()) for policer in phase.policers), header)
    if met is not None:
        return met
    without_match = all(policer.match is None for policer in phase.policers)
    if without_match and kind == "control" and flow is not None and row.src == flow.src:
        # In a manifest without matches policers apply to hosts, so to a flow's control connection too.
        return next((p for p in phase.policers if p.name == flow.policer), None)
    return None
