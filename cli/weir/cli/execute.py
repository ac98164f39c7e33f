# SPDX-License-Identifier: Apache-2.0
"""`weir run`: the inner half, the program of the sandbox. Builds the testbed, runs every phase, records all.

hosts, links → switch, collector, captures → per phase: rules → flows → counters → everything ends
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from weir.cli.errors import report_error
from weir.cli.files import CONFIG_NAME, hold
from weir.cli.manifest import ManifestFile
from weir.cli.phase import run_phase, unlearned
from weir.cli.progress import RunProgress
from weir.cli.replays import script_of
from weir.cli.traffic import PhaseTraffic, background_specs
from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import Attachment, CollectorEndpoint, HostPort
from weir.controlplane.config import ExperimentConfig, FlowConfig, load_experiment, queue_bytes
from weir.controlplane.config.values import PROTOCOLS
from weir.controlplane.entities import MeterCell
from weir.controlplane.phase_plan import FlowKey, PhasePlan
from weir.controlplane.pipeline import load_for
from weir.controlplane.plan import make_plan, measured_pairs
from weir.topo.capture import Capture
from weir.topo.collectorproc import CollectorProcess
from weir.topo.sandbox import inside
from weir.topo.scheduling import SchedulingProbe
from weir.topo.sockets import SocketSampler
from weir.topo.stop import Interrupted, StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess
from weir.topo.testbed import HostSpec, Testbed
from weir.topo.traffic import FlowSpec, PortAllocator, TrafficResult

COLLECTOR = "collector"
NS = PPB = 1_000_000_000
# Frames may still be under way after the last flow has ended; two idle looks at the switch end the wait.
SETTLE_LIMIT_S = 15.0


def flow_specs(
    experiment: ExperimentConfig, phase: PhasePlan, ports: PortAllocator, run_dir: Path
) -> list[tuple[FlowConfig, FlowSpec]]:
    """The flows of one phase, each with ports of its own."""
    specs = []
    for flow in experiment.flows:
        source_port, destination_port = ports.next()
        spec = FlowSpec(
            id=f"{phase.name}/{flow.name}",
            source=flow.source,
            destination=flow.destination,
            ip_version=flow.ip_version,
            congestion_control=flow.congestion_control if flow.protocol == "tcp" else None,
            source_port=source_port,
            destination_port=destination_port,
            duration_s=flow.duration // NS,
            start_s=flow.start / NS,
            rate_bps=flow.rate,
            pacing_bps=flow.pacing,
            block_bytes=flow.datagram_bytes if flow.protocol == "udp" else None,
            script=script_of(flow, run_dir),
        )
        specs.append((flow, spec))
    return specs


def phase_record(
    experiment: ExperimentConfig,
    phase: PhasePlan,
    flows: list[tuple[FlowConfig, FlowSpec]],
    traffic: TrafficResult,
) -> dict[str, Any]:
    """The phase as the manifest holds it, without what the switch counted."""
    keys = {
        flow.name: FlowKey(
            flow.source,
            flow.destination,
            PROTOCOLS[flow.protocol],
            spec.source_port,
            spec.destination_port,
            ip_version=flow.ip_version,
        )
        for flow, spec in flows
    }
    hosts = phase.hosts

    def addresses(names: tuple[str, ...] | None) -> list[str] | None:
        return None if names is None else [ip for name in names for ip in hosts[name].addresses]

    def policer_name(key: FlowKey) -> str | None:
        policer = phase.policer_of(key)
        return None if policer is None else policer.name

    return {
        "name": phase.name,
        "start_ns": traffic.start_ns,
        "end_ns": traffic.end_ns,
        "policers": [
            {
                **policer.as_dict(),
                "dropped_colours": policer.config.dropped_colours,
                "plain": policer.config.plain
                and all(step.change.policer != policer.name for step in phase.steps),
                "match": [
                    {
                        "src": addresses(match.source),
                        "dst": addresses(match.destination),
                        "protocol": match.protocol,
                        "src_port": match.src_port,
                        "dst_port": match.dst_port,
                        "dscp": match.dscp,
                    }
                    for match in policer.config.match
                ],
            }
            for policer in phase.policers
        ],
        "flows": [
            {
                "id": spec.id,
                "name": flow.name,
                "src_host": flow.source,
                "dst_host": flow.destination,
                "src": hosts[flow.source].address(flow.ip_version),
                "dst": hosts[flow.destination].address(flow.ip_version),
                "src_port": spec.source_port,
                "dst_port": spec.destination_port,
                "protocol": PROTOCOLS[flow.protocol],
                "cc": spec.congestion_control,
                "measured": flow.measured,
                "policer": policer_name(keys[flow.name]),
                "start_s": spec.start_s,
                "duration_s": spec.duration_s,
                **_script_record(traffic, spec),
            }
            for flow, spec in flows
        ],
        "pairs": [
            {
                "flows": [f"{phase.name}/{one}", f"{phase.name}/{other}"],
                "truth": phase.truth(keys[one], keys[other]),
            }
            for one, other in measured_pairs(experiment)
        ],
    }


def _script_record(traffic: TrafficResult, spec: FlowSpec) -> dict[str, Any]:
    """What became of a flow's script; nothing of a flow that has none."""
    found = next(result for result in traffic.flows if result.flow.id == spec.id)
    return {} if spec.script is None or found.report is None else {"script": found.report["script"]}


def _queue_bytes(experiment: ExperimentConfig, host: str) -> int | None:
    """What may wait in front of a host; None where nothing can."""
    return None if experiment.hosts[host].rate is None else queue_bytes(experiment, host)


async def settle(switch: SwitchProcess, stop: StopToken) -> None:
    """Wait until the switch has nothing under way and two looks at its counters agree."""
    give_up = time.monotonic() + SETTLE_LIMIT_S
    last: tuple[int, int] | None = None
    while time.monotonic() < give_up:
        stop.raise_if_stopped()
        stats = await asyncio.to_thread(switch.stats)
        now = (stats["uptime_ns"], sum(port["rx_packets"] for port in stats["ports"]))
        idle = all(port["in_flight"] == 0 for port in stats["ports"])
        if last is not None and now[0] != last[0]:
            if idle and now[1] == last[1]:
                return
            last = now
        last = last or now
        await asyncio.sleep(0.1)


def read_back(cell: MeterCell, policer: Mapping[str, Any]) -> dict[str, int]:
    """What the switch answered for the buckets that a policer's record has."""
    peak_rate, peak_burst = cell.peak
    answers = {
        "rate_bps": cell.rate_bytes_per_s * 8,
        "burst_bytes": cell.burst_bytes,
        "peak_rate_bps": peak_rate * 8,
        "peak_burst_bytes": peak_burst,
        "excess_burst_bytes": cell.excess_burst_bytes,
    }
    return {f"read_back_{name}": value for name, value in answers.items() if name in policer}


async def record_counters(control: SwitchControl, phase: PhasePlan, record: dict[str, Any]) -> None:
    """Put what the switch counted for each policer into the phase's record."""
    counters = await control.read_counters(phase)
    for policer in record["policers"]:
        policer.update(counters[policer["name"]])


async def execute(
    experiment: ExperimentConfig,
    run_dir: Path,
    manifest: ManifestFile,
    stop: StopToken,
    progress: RunProgress,
) -> None:
    """Run the experiment from the first namespace to the last counter."""
    logs = run_dir / "logs"
    with contextlib.ExitStack() as stack:
        progress.step("building hosts and links")
        hosts = [HostSpec(name, host.address, host.address6) for name, host in experiment.hosts.items()]
        hosts.append(HostSpec(COLLECTOR))
        testbed = stack.enter_context(Testbed(hosts))
        addresses = {
            name: HostPort(host.switch_port, host.mac, host.address, host.address6)
            for name, host in testbed.hosts.items()
        }
        sink = addresses.pop(COLLECTOR)
        endpoint = CollectorEndpoint(sink.port, sink.mac, sink.ip, experiment.telemetry.port)
        plan = make_plan(experiment, Attachment(addresses, {COLLECTOR: endpoint}))
        manifest.data["notes"] += [note for phase in plan.phases for note in phase.notes]

        progress.step("starting switch, collector and captures")
        # Bare: the links are the plan's, as the tables are, and are read back with them.
        wires = [SwitchPort(host.switch_port, host.switch_interface) for host in testbed.hosts.values()]
        switch = stack.enter_context(SwitchProcess(wires, logs))
        collector = stack.enter_context(
            CollectorProcess(
                testbed,
                COLLECTOR,
                run_dir / "telemetry.parquet",
                run_dir / "collector.json",
                logs,
                run_id=manifest.data["run_id"],
                port=experiment.telemetry.port,
            )
        )
        captures = [
            stack.enter_context(
                Capture(
                    testbed,
                    name,
                    run_dir / "pcap" / f"{name}.pcap",
                    logs,
                    snap_bytes=experiment.capture.truncate,
                    buffer_bytes=experiment.capture.buffer,
                )
            )
            for name in experiment.hosts
        ]
        probe = stack.enter_context(SchedulingProbe(logs))
        switch.wait_ready(stop)
        collector.wait_ready(stop)
        for capture in captures:
            capture.wait_ready(stop)
        sampler = stack.enter_context(SocketSampler(testbed, run_dir / "sockets.parquet"))

        ports = PortAllocator()
        pipeline = load_for(plan.single_rate)
        async with SwitchControl(switch.p4runtime, pipeline=pipeline, target=plan.target) as control:
            await control.push_pipeline()
            for phase in plan.phases:
                progress.step(f"phase {phase.name}: configuring the switch")
                await control.apply(phase)
                meters = await control.read_meters(phase)
                flows = flow_specs(experiment, phase, ports, run_dir)
                specs = [spec for _, spec in flows]
                sampler.watch(specs)
                offered = PhaseTraffic(
                    testbed, specs, background_specs(experiment, phase.name, ports), logs, stop
                )
                with progress.phase(phase.name, experiment.phase_duration / NS):
                    probe.begin(phase.name)
                    traffic, happened = await run_phase(control, phase, offered)
                    probe.end()
                # A full disk shows here, before anything waits for counters that cannot be written either.
                manifest.write()
                progress.step(f"phase {phase.name}: waiting for the last packets")
                await settle(switch, stop)
                record = phase_record(experiment, phase, flows, traffic) | happened
                record["background"] = offered.background
                manifest.data["phases"].append(record)
                for policer in record["policers"]:
                    cell = meters[policer["index"]]
                    policer.update(read_back(cell, policer))
                await record_counters(control, phase, record)
                manifest.data["notes"] += [f"{phase.name}: {note}" for note in traffic.notes]
                problems = [*traffic.problems, *offered.problems, *unlearned(happened["learned"])]
                manifest.invalidate([f"{phase.name}: {problem}" for problem in problems])
                manifest.write()

            progress.step("closing captures and telemetry")
            testbed.silence()
            await settle(switch, stop)
            # A connection that closed late may have met a policer after its phase was counted.
            for phase, record in zip(plan.phases, manifest.data["phases"], strict=True):
                await record_counters(control, phase, record)
            manifest.data["switch"]["reports_sent"] = await control.read_reports_sent()

        for name, drops in testbed.link_drops().items():
            lost = drops.to_switch + drops.from_switch
            manifest.invalidate([f"the link of {name} lost {lost} frames in the kernel"] if lost else [])
        for capture in captures:
            captured = await asyncio.to_thread(capture.stop)
            manifest.data["hosts"].append(
                {
                    "name": capture.host,
                    "addresses": list(addresses[capture.host].addresses),
                    "pcap": str(capture.path.relative_to(run_dir)),
                    "delay_s": experiment.hosts[capture.host].delay / NS,
                    "jitter_s": experiment.hosts[capture.host].jitter / NS,
                    "rate_bps": experiment.hosts[capture.host].rate,
                    "queue_bytes": _queue_bytes(experiment, capture.host),
                    "loss": experiment.hosts[capture.host].loss / PPB,
                    "capture_received": captured.captured,
                    "capture_drops": captured.lost,
                }
            )
        sampler.stop()
        manifest.data["scheduling"] = probe.stop()
        manifest.data["switch"]["stats"] = switch.stop()
        collector.stop()


def main(stop: StopToken) -> int:
    """Run the experiment of the run directory named on the command line."""
    run_dir = Path(sys.argv[1])
    hold(run_dir)
    manifest = ManifestFile.load(run_dir)
    progress = RunProgress(Console(stderr=True))
    try:
        experiment = load_experiment(run_dir / CONFIG_NAME)
        with progress:
            asyncio.run(execute(experiment, run_dir, manifest, stop, progress))
    except Interrupted as interruption:
        manifest.end_if_possible("interrupted", str(interruption))
        raise
    except Exception as error:
        manifest.end_if_possible("failed", f"{type(error).__name__}: {error}")
        return report_error(error)
    manifest.end("complete")
    return 0


if __name__ == "__main__":
    inside(main)
