# SPDX-License-Identifier: Apache-2.0
"""Synthetic run directories for tests: all runs of a campaign, without running them.

The structure of the results is that of one analysed simulation; the goodputs come from `goodput_mbps`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from weir.analysis.features import NAMES, SCHEMA
from weir.analysis.result import analyse
from weir.campaign.identity import identity_of
from weir.campaign.load import Campaign, PlannedRun
from weir.campaign.outcome import Outcome, read_outcome
from weir.controlplane.config import FlowConfig
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest import Flow, Host, LinkChange, Phase, Policer, Scheduling, Software
from weir.rundir.manifest_file import ManifestFile
from weir.runner.prepare import prepare
from weir.runner.tuners import SCHEMA as DECISIONS
from weir.topo.sockets import SCHEMA as SOCKETS
from weir_tests.analysis.synthetic_run import write_run
from weir_tests.campaign.textbook_bbr import TEXTBOOK, samples

Goodput = Callable[[PlannedRun, FlowConfig], float]
MIN_RTT_S, MEAN_DELAY_S = 0.05, 0.03
START_NS = 1_000_000_000
SOFTWARE = Software(weir_version="0", commit="commit", programs={})


def by_weight(run: PlannedRun, flow: FlowConfig) -> float:
    """Mbit/s: a share of 95 % of the bottleneck, double for BBR, less with random loss."""
    host = run.experiment.hosts[flow.destination]
    weights = {each.name: 2 if each.congestion_control == "bbr" else 1 for each in run.experiment.flows}
    kept = 1 - host.loss / 1e9 * (5 if flow.congestion_control == "cubic" else 2)
    rate_bps = host.rate or 100_000_000
    return max(kept, 0.01) * 0.95 * rate_bps / 1e6 * weights[flow.name] / sum(weights.values())


def simulated(folder: Path) -> dict[str, Any]:
    """The result of one analysed simulation."""
    analyse(folder, write_run(folder, seconds=8))
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def made_up(
    campaign: Campaign, folder: Path, shape: dict[str, Any], goodput_mbps: Goodput = by_weight
) -> list[Outcome]:
    """Write a complete run to `folder` for each planned one; returns the outcomes read back."""
    return [_write(run, folder / run.key, shape, campaign, goodput_mbps) for run in campaign.runs]


def _write(
    run: PlannedRun, path: Path, shape: dict[str, Any], campaign: Campaign, goodput_mbps: Goodput
) -> Outcome:
    path.mkdir()
    RunDirectory(path).report.touch()
    truth = {"common": "shared", "non-common": "separate"}.get(run.cell.get("policer", ""))
    flows = [_flow(shape["flows"][0], run, flow, goodput_mbps(run, flow)) for flow in run.experiment.flows]
    pairs = [pair for pair in shape["pairs"] if pair["truth"] == truth]
    lateness = {"frames": 1000} | {f"{name}_s": 1e-5 for name in ("p50", "p99", "p999", "max")}
    result = shape | {"flows": flows, "pairs": pairs, "run_id": run.key, "switch_lateness": lateness}
    (path / "result.json").write_text(
        json.dumps(result | {"policers": [], "invalid_reasons": [], "valid": True})
    )
    hosts = tuple(
        Host(name=name, addresses=(), pcap=f"pcap/{name}.pcap", delay_s=host.delay / 1e9, rate_bps=host.rate)
        for name, host in run.experiment.hosts.items()
    )
    prepare(path, run.experiment, run.text.encode(), run.inputs, campaign=identity_of(run, SOFTWARE))
    file = ManifestFile.load(path)
    file.update(scheduling=Scheduling(p99_s=1e-4), hosts=hosts)
    if campaign.study == "bbr-test-cases":
        file.update(phases=(_textbook(run, path),))
    file.end("complete")
    samples = [
        {"flow": "main/bbr", "time_ns": at} | dict.fromkeys(NAMES, 8000 + 1000 * at) for at in range(3)
    ]
    pq.write_table(pa.Table.from_pylist(samples, schema=SCHEMA), RunDirectory(path).features)
    decisions = [
        row for name, host in run.experiment.hosts.items() if host.tuner for row in _decisions(run, name)
    ]
    if decisions:
        pq.write_table(pa.Table.from_pylist(decisions, schema=DECISIONS), RunDirectory(path).tuning)
    return read_outcome(path, campaign.limits)


def _textbook(run: PlannedRun, path: Path) -> Phase:
    """The phase of a run whose flow is a textbook's BBR, with the samples of its socket."""
    (phase,) = run.experiment.effective_phases()
    (flow,) = run.experiment.flows
    ends: dict[str, Any] = {"src": "10.0.0.1", "dst": "10.0.0.2", "src_port": 1000, "dst_port": 5000}
    rows = [dict.fromkeys(SOCKETS.names, 0) | ends | row for row in samples(*TEXTBOOK, start_ns=START_NS)]
    texts = {"host": flow.source, "state": "ESTABLISHED", "congestion_control": flow.congestion_control}
    table = pa.Table.from_pylist([row | texts for row in rows], schema=SOCKETS)
    pq.write_table(table, RunDirectory(path).sockets)
    return Phase(
        name=phase.name,
        start_ns=START_NS,
        flows=(Flow(id="main/bbr", name="bbr", src_host=flow.source, dst_host=flow.destination, **ends),),
        policers=tuple(
            Policer(name=its.name, index=1, rate_bps=its.rate, burst_bytes=10_000) for its in phase.policers
        ),
        link_changes=tuple(
            LinkChange(at_s=its.at / 1e9, host=its.host, rate_bps=its.rate)
            for its in phase.changes
            if its.host
        ),
    )


def _decisions(run: PlannedRun, host: str) -> list[dict[str, Any]]:
    """Three that name the buffer of the run, then one that names the smallest of all."""
    tuner = run.experiment.hosts[host].tuner
    assert tuner is not None
    named = [run.cell["buffer"]] * 3 + [min(tuner.values, key=lambda label: float(label.split()[0]))]
    fixed = {
        "host": host,
        "flow": f"main/{tuner.flow}",
        "samples": 10,
        "inference_ns": 1000,
        "sysctl": tuner.sysctl,
    }
    return [
        fixed | {"time_ns": at, "predicted": label, "value": tuner.values[label]}
        for at, label in enumerate(named)
    ]


def _flow(shape: dict[str, Any], run: PlannedRun, flow: FlowConfig, rate_mbps: float) -> dict[str, Any]:
    return shape | {
        "id": f"main/{flow.name}",
        "name": flow.name,
        "src_host": flow.source,
        "dst_host": flow.destination,
        "cc": flow.congestion_control,
        "measured": flow.measured,
        "policer": None,
        "goodput_bps": rate_mbps * 1e6,
        "throughput_bps": rate_mbps * 1.05e6,
        "false_inferences": [],
        "retransmissions": 400 if flow.congestion_control == "bbr" else 3,
        "min_rtt_s": MIN_RTT_S,
        "mean_delay_s": MEAN_DELAY_S,
    }
