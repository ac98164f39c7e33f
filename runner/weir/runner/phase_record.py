# SPDX-License-Identifier: Apache-2.0
"""Builds the manifest's record of a phase: policers, flows, the truth about pairs, the switch's counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weir.controlplane.config import ExperimentConfig, FlowConfig
from weir.controlplane.config.values import PROTOCOLS
from weir.controlplane.entities import MeterCell
from weir.controlplane.phase_plan import FlowKey, PhasePlan
from weir.controlplane.plan import measured_pairs
from weir.controlplane.policer_plan import PolicerPlan
from weir.rundir.manifest import Background, ColourCounters, Flow, Pair, Phase, PlayedScript, Policer
from weir.runner.phase import PhaseEvents
from weir.runner.traffic import flow_key
from weir.topo.traffic import FlowSpec, TrafficResult


def phase_record(
    experiment: ExperimentConfig,
    phase: PhasePlan,
    flows: Sequence[tuple[FlowConfig, FlowSpec]],
    traffic: TrafficResult,
    events: PhaseEvents,
    background: Sequence[Mapping[str, Any]],
) -> Phase:
    """The record of a phase, without the switch's counters."""
    keys = {flow.name: flow_key(flow, spec.source_port, spec.destination_port) for flow, spec in flows}
    return Phase(
        name=phase.name,
        start_ns=traffic.start_ns,
        end_ns=traffic.end_ns,
        policers=tuple(_policer(phase, policer) for policer in phase.policers),
        flows=tuple(_flow(phase, flow, spec, keys[flow.name], traffic) for flow, spec in flows),
        pairs=tuple(
            Pair(
                flows=(f"{phase.name}/{one}", f"{phase.name}/{other}"),
                truth=phase.truth(keys[one], keys[other]),
            )
            for one, other in measured_pairs(experiment)
        ),
        changes=events.changes,
        link_changes=events.link_changes,
        learned=dict(events.learned),
        background=tuple(Background.model_validate(record) for record in background),
    )


def with_read_back(record: Phase, meters: Mapping[int, MeterCell]) -> Phase:
    """The record with each policer's buckets as the switch reads them back."""
    policers = tuple(
        policer.model_copy(update=read_back(meters[policer.index], policer)) for policer in record.policers
    )
    return record.model_copy(update={"policers": policers})


def with_counters(record: Phase, counters: Mapping[str, Mapping[str, Any]]) -> Phase:
    """The record with each policer's counters, by its name, as `SwitchControl.read_counters` returns them."""
    policers = tuple(
        policer.model_copy(
            update={
                "counters": ColourCounters.model_validate(counters[policer.name]["counters"]),
                "packets_met": counters[policer.name]["packets_met"],
            }
        )
        for policer in record.policers
    )
    return record.model_copy(update={"policers": policers})


def read_back(cell: MeterCell, policer: Policer) -> dict[str, int]:
    """The read-back rates and bursts of the buckets that a policer has, by field name of its record."""
    peak_rate, peak_burst = cell.peak
    answers = {
        "rate_bps": cell.rate_bytes_per_s * 8,
        "burst_bytes": cell.burst_bytes,
        "peak_rate_bps": peak_rate * 8,
        "peak_burst_bytes": peak_burst,
        "excess_burst_bytes": cell.excess_burst_bytes,
    }
    has = policer.model_fields_set
    return {f"read_back_{name}": value for name, value in answers.items() if name in has}


def _policer(phase: PhasePlan, policer: PolicerPlan) -> Policer:
    changed = any(step.change.policer == policer.name for step in phase.steps)
    return Policer(
        **policer.as_dict(),
        dropped_colours=policer.config.dropped_colours,
        plain=policer.config.plain and not changed,
        match=phase.matches(policer),
    )


def _flow(phase: PhasePlan, flow: FlowConfig, spec: FlowSpec, key: FlowKey, traffic: TrafficResult) -> Flow:
    policer = phase.policer_of(key)
    return Flow(
        id=spec.id,
        name=flow.name,
        src_host=flow.source,
        dst_host=flow.destination,
        src=phase.hosts[flow.source].address(flow.ip_version),
        dst=phase.hosts[flow.destination].address(flow.ip_version),
        src_port=spec.source_port,
        dst_port=spec.destination_port,
        protocol=PROTOCOLS[flow.protocol],
        cc=spec.congestion_control,
        measured=flow.measured,
        policer=None if policer is None else policer.name,
        start_s=spec.start_s,
        duration_s=spec.duration_s,
        **_script(traffic, spec),
    )


def _script(traffic: TrafficResult, spec: FlowSpec) -> dict[str, Any]:
    """How a flow's script was played; the field is not set for a flow without one."""
    found = next(result for result in traffic.flows if result.flow.id == spec.id)
    if spec.script is None or found.report is None:
        return {}
    return {"script": PlayedScript.model_validate(found.report["script"])}
