# SPDX-License-Identifier: Apache-2.0
"""Analyses a run directory: reads captures, reports and manifest, writes `result.json` and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weir.analysis import conservation
from weir.analysis.clock_results import clock_result, host_clocks
from weir.analysis.clocks import AlignedClock, ClockFit, align
from weir.analysis.confusion import compare
from weir.analysis.conservation import Account, LostReports
from weir.analysis.detectors import RUN_DETECTORS
from weir.analysis.features import features_of_run
from weir.analysis.lateness import switch_lateness
from weir.analysis.models import (
    CauseResult,
    FalseInferenceResult,
    FlowResult,
    Law,
    LinkResult,
    OtherFlow,
    PairResult,
    PhaseResult,
    PolicerResult,
    Result,
    TelemetryResult,
)
from weir.analysis.pairs import pair_results
from weir.analysis.policers import policer_result
from weir.analysis.reports import join_run, read_run
from weir.analysis.run_data import Directed, Join, RunData
from weir.analysis.series import series_table
from weir.analysis.tables import TCP, Bools
from weir.analysis.validity import headline, invalid_reasons, notes, same_clock
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest import Manifest, Phase
from weir.rundir.whole_files import replacing, write_whole

MAX_LISTED = 1000
"""False inferences listed per flow; the counts are always complete."""


def analyse(run_dir: Path, joiner: Join = join_run) -> Result:
    """Analyse a run directory; writes `result.json` and Parquet files of flows, series and features.

    `joiner` replaces `join_run`. Raises RunFileError for missing or malformed files of the run and
    `weir_core.CaptureError` for captures that cannot be read.
    """
    files, data = RunDirectory(run_dir), read_run(run_dir, joiner)
    result, series = evaluate(data)
    write_whole(files.result, result.model_dump_json(indent=1).encode())
    _write_table(files.flows, flows_table(result))
    _write_table(files.series, series)
    connections = {
        (flow.src, flow.dst, flow.src_port, flow.dst_port): flow.id
        for phase in data.manifest.phases
        for flow in phase.flows
    }
    _write_table(files.features, features_of_run(run_dir, connections))
    return result


def evaluate(data: RunData) -> tuple[Result, Any]:
    """The result of a joined run, and the table of its series; pure."""
    manifest = data.manifest
    inside = [flow for flow in data.flows if flow.kind != "outside"]
    own = pinned_clocks(inside)
    fits = {host: clock.fit for host, clock in own.items()}
    aligned = same_clock(own, {flow.src_host for flow in inside if flow.src_host}, data.clocks)
    flying = _flying(inside, data)
    lost = _lost_reports(data, inside)
    accounts = conservation.attribute(
        {flow.label: conservation.count(flow.packets, flying[flow.label]) for flow in inside},
        {flow.label: _policer_key(flow) for flow in inside},
        lost,
        manifest.switch.stats.unreported_losses if manifest.switch.stats else 0,
    )
    bounds = [(phase, *_bounds(phase, inside)) for phase in manifest.phases]
    by_id = {flow.label: flow for flow in inside if flow.kind == "data"}
    # In the order of the configuration, not of the first packets.
    ids = [flow.id for phase in manifest.phases for flow in phase.flows if flow.id in by_id]
    flows = [_flow_result(by_id[name], accounts[name], flying[name], fits) for name in ids]
    policers = [
        policer_result(inside, phase, policer, accounts, aligned)
        for phase in manifest.phases
        for policer in phase.policers
    ]
    detectors = RUN_DETECTORS if manifest.detectors is None else manifest.detectors
    pairs: list[PairResult] = []
    for phase in manifest.phases:
        for pair in phase.pairs:
            pairs.extend(pair_results(phase, pair, by_id, aligned, detectors))
    reasons = invalid_reasons(data, fits)
    whole = conservation.total(list(accounts.values()))
    result = Result(
        name=manifest.name,
        run_id=manifest.run_id,
        weir_version=manifest.weir_version,
        commit=manifest.commit,
        kernel=_kernel(manifest),
        target=manifest.target,
        state=manifest.state,
        complete=manifest.complete,
        valid=not reasons,
        invalid_reasons=tuple(reasons),
        explained=_explained(accounts, policers, data),
        headline=headline(whole, accounts, policers, data, bool(reasons)),
        law=Law.of(whole),
        outside_packets=sum(len(flow.packets) for flow in data.flows if flow.kind == "outside"),
        phases=tuple(
            PhaseResult(
                name=phase.name,
                start_ns=start,
                duration_s=(end - start) / 1e9,
                law=Law.of(conservation.total([accounts[f.label] for f in inside if f.phase is phase])),
            )
            for phase, start, end in bounds
        ),
        flows=tuple(flows),
        other_flows=tuple(_other(flow, accounts[flow.label]) for flow in inside if flow.kind != "data"),
        policers=tuple(policers),
        pairs=tuple(pairs),
        links=tuple(
            LinkResult(
                host=host.name,
                delay_s=host.delay_s,
                rate_bps=host.rate_bps,
                queue_bytes=host.queue_bytes,
                loss=host.loss,
                queue_packets=host.queue_packets,
            )
            for host in manifest.hosts
        ),
        clocks=tuple(clock_result(host, fit, data.clocks) for host, fit in sorted(fits.items())),
        host_clocks=host_clocks(data, fits),
        telemetry=_telemetry(data, lost),
        switch_lateness=switch_lateness(manifest, inside, one_clock=data.clocks.one),
        notes=tuple(notes(data)),
    )
    return result, series_table(bounds, inside, aligned)


def pinned_clocks(flows: Sequence[Directed]) -> dict[str, AlignedClock]:
    """Align each sending host's clock with the switch's, by the packets that the switch reported."""
    sent: dict[str, list[Any]] = {}
    for flow in flows:
        packets = flow.packets
        for which, switch_ns in (
            (packets.dropped, packets.ingress_ns),
            (packets.passed_ns > 0, packets.passed_ns),
        ):
            if flow.src_host is not None and which.any():
                stamps = np.stack([packets.sent_ns[which], switch_ns[which]])
                sent.setdefault(flow.src_host, []).append(stamps)
    return {host: align(*np.concatenate(stamps, axis=1)) for host, stamps in sent.items()}


def _policer_key(flow: Directed) -> str | None:
    """A key with the phase, as policers of two phases may have the same name."""
    if flow.phase is None or flow.policer is None:
        return None
    return f"{flow.phase.name}/{flow.policer.name}"


def _flying(flows: Sequence[Directed], data: RunData) -> dict[str, Bools]:
    """Mark the packets of each flow, by label, that were in flight when the captures ended."""
    ends = [phase.end_ns for phase in data.manifest.phases if phase.end_ns is not None]
    end_ns = max([data.last_packet_ns, *ends])
    round_trips = [f.row.min_rtt_ns for f in data.flows if f.row.min_rtt_ns is not None]
    longest_ns = max(round_trips, default=1_000_000_000)
    found = {}
    for flow in flows:
        path_ns = conservation.path_time_ns(flow.packets, flow.row.min_rtt_ns or longest_ns)
        found[flow.label] = conservation.in_flight(flow.packets, end_ns, path_ns)
    return found


def _lost_reports(data: RunData, flows: Sequence[Directed]) -> LostReports:
    red: dict[str, int] = {}
    reported: dict[str, int] = {}
    for phase in data.manifest.phases:
        for policer in phase.policers:
            name = f"{phase.name}/{policer.name}"  # as in _policer_key
            if policer.counters is not None:
                red[name] = policer.counters.red.packets
            reported[name] = sum(
                int(f.packets.dropped.sum()) for f in flows if f.phase is phase and f.policer is policer
            )
    return conservation.lost_reports(
        received=data.collector.received,
        duplicates=data.collector.duplicates,
        gaps=data.collector.lost,
        sent_by_switch=data.manifest.switch.reports_sent,
        red_by_policer=red,
        reported_by_policer=reported,
    )


def _bounds(phase: Phase, flows: Sequence[Directed]) -> tuple[int, int]:
    """Start and end of a phase by the manifest, else by its flows' first and last packets."""
    its = [flow.packets.sent_ns for flow in flows if flow.phase is phase]
    first = min((int(sent[0]) for sent in its), default=0)
    last = max((int(sent[-1]) for sent in its), default=first)
    start = phase.start_ns if phase.start_ns is not None else first
    end = phase.end_ns if phase.end_ns is not None else last + 1
    return start, max(end, start + 1)


def _flow_result(flow: Directed, account: Account, flying: Bools, fits: Mapping[str, ClockFit]) -> FlowResult:
    if flow.configured is None or flow.phase is None:
        raise ValueError(f"{flow.label} is not a configured flow of a phase")
    known, row, packets = flow.configured, flow.row, flow.packets
    clock = fits.get(flow.src_host or "")
    found = compare(packets, flying, acknowledged=known.protocol == TCP, clock=clock)
    duration_s = float(packets.sent_ns[-1] - packets.sent_ns[0]) / 1e9
    received_bytes = int(packets.wire_length[packets.received].sum())
    received_payload = int(packets.payload_length[packets.received].sum())
    mean_delay_s = None
    if row.mean_rtt_ns is not None and row.min_rtt_ns is not None:
        mean_delay_s = (row.mean_rtt_ns - row.min_rtt_ns) / 1e9
    return FlowResult(
        id=known.id,
        phase=flow.phase.name,
        name=known.name,
        src=known.src,
        dst=known.dst,
        src_host=known.src_host,
        dst_host=known.dst_host,
        src_port=known.src_port,
        dst_port=known.dst_port,
        protocol=known.protocol,
        cc=known.cc,
        policer=known.policer,
        measured=known.measured,
        sent=account.sent,
        received=account.received,
        reported_drops=account.reported_drops,
        reports_lost=account.reports_lost,
        emulated_losses=account.emulated_losses,
        in_flight=account.in_flight,
        unexplained=account.unexplained,
        contradictions=account.contradictions,
        inferred_lost=found.inferred_lost,
        true_positive=found.true_positive,
        false_positive=found.false_positive,
        false_negative=found.false_negative,
        uninferable_losses=found.uninferable_losses,
        precision=found.precision,
        recall=found.recall,
        detection_delay_median_s=found.detection_delay_median_s,
        detection_delay_p95_s=found.detection_delay_p95_s,
        time_error_median_s=found.time_error_median_s,
        time_error_p95_s=found.time_error_p95_s,
        causes=tuple(
            CauseResult(precision=one.precision, recall=one.recall, **asdict(one)) for one in found.causes
        ),
        false_inferences=tuple(
            FalseInferenceResult.model_validate(asdict(f)) for f in found.false_inferences[:MAX_LISTED]
        ),
        retransmissions=row.retransmissions,
        spurious_retransmissions=row.spurious,
        loss_ratio=account.reported_drops / account.sent if account.sent else None,
        throughput_bps=received_bytes * 8 / duration_s if duration_s > 0 else None,
        goodput_bps=received_payload * 8 / duration_s if duration_s > 0 else None,
        duration_s=duration_s,
        min_rtt_s=None if row.min_rtt_ns is None else row.min_rtt_ns / 1e9,
        mean_delay_s=mean_delay_s,
    )


def _other(flow: Directed, account: Account) -> OtherFlow:
    if flow.kind not in ("acks", "control"):
        flow = replace(flow, kind="other")
    return OtherFlow.model_validate(
        {
            "kind": flow.kind,
            "of": flow.configured.id if flow.configured else None,
            "phase": flow.phase.name if flow.phase else None,
            "policer": flow.policer.name if flow.policer else None,
            "src": flow.row.src,
            "dst": flow.row.dst,
            "src_port": flow.row.src_port,
            "dst_port": flow.row.dst_port,
            "protocol": flow.row.protocol,
            "law": Law.of(account),
        }
    )


def _telemetry(data: RunData, lost: LostReports) -> TelemetryResult:
    collector = data.collector
    return TelemetryResult(
        sent_by_switch=data.manifest.switch.reports_sent,
        received=collector.received,
        lost_in_gaps=lost.gaps,
        lost_in_tail=lost.tail,
        duplicates=collector.duplicates,
        malformed=collector.malformed,
        kernel_drops=collector.kernel_drops,
        unmatched_reports=data.unmatched_reports,
        unmatched_received=data.unmatched_received,
    )


def _kernel(manifest: Manifest) -> str | None:
    if manifest.virtual_time is None:
        return None
    kernel = manifest.virtual_time.kernel
    return f"{kernel.name or 'without a name'} ({kernel.version})"


def _explained(accounts: Mapping[str, Account], policers: Sequence[PolicerResult], data: RunData) -> bool:
    return (
        all(a.unexplained == 0 and a.contradictions == 0 for a in accounts.values())
        and not any(policer.disagreements for policer in policers)
        and data.unmatched_reports == 0
        and data.unmatched_received == 0
    )


def flows_table(result: Result) -> Any:
    """`flows.parquet`: one row per directed 5-tuple, configured flows first."""
    rows: list[dict[str, Any]] = []
    for flow in result.flows:
        row = flow.model_dump(exclude={"false_inferences", "causes"})
        rows.append({"kind": "data", "of": None, **row})
    for other in result.other_flows:
        law = other.law.model_dump(exclude={"missing", "explained"})
        rows.append({**other.model_dump(exclude={"law"}), **law})
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def _write_table(path: Path, table: Any) -> None:
    with replacing(path) as part:
        pq.write_table(table, part)
