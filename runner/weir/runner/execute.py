# SPDX-License-Identifier: Apache-2.0
"""The inner half of a run, in the sandbox: builds the testbed, runs every phase, fills the manifest.

hosts, links → switch, collector, captures → per phase: entries → flows → counters → stop all processes
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import Attachment, CollectorEndpoint, HostPort
from weir.controlplane.config import ExperimentConfig, HostConfig, load_experiment, queue_bytes, with_lines
from weir.controlplane.pipeline import load_for
from weir.controlplane.plan import make_plan
from weir.controlplane.targets.bmv2_queues import DEFAULT_PACKETS
from weir.rundir.directory import RunDirectory, hold
from weir.rundir.manifest import Host, Scheduling
from weir.rundir.manifest_file import ManifestFile
from weir.runner.bmv2_switch import Bmv2Switch
from weir.runner.phase import run_phase
from weir.runner.phase_record import phase_record, with_counters, with_read_back
from weir.runner.progress import Progress, Watcher
from weir.runner.sampling import sampled
from weir.runner.switch_elsewhere import SwitchElsewhere
from weir.runner.switches import Activity, EmbeddedSwitch, RunSwitch
from weir.runner.traffic import PhaseTraffic, background_specs, flow_specs
from weir.topo.capture import Capture, CaptureResult
from weir.topo.collectorproc import CollectorProcess
from weir.topo.line import Line
from weir.topo.scheduling import SchedulingProbe
from weir.topo.sockets import SocketSampler
from weir.topo.stop import Interrupted, StopToken
from weir.topo.testbed import HostSpec, Testbed
from weir.topo.traffic import PortAllocator

COLLECTOR = "collector"
NS = PPB = 1_000_000_000
# Longest wait for frames that are still in flight after the last flow has ended.
SETTLE_LIMIT_S = 15.0
# In virtual time each wake-up costs wall time, and no report is needed before the end.
VIRTUAL_GATHER_MS = 50


async def settle(switch: RunSwitch, stop: StopToken) -> None:
    """Wait until the switch holds no frames and two consecutive readings of its counters agree."""
    give_up = time.monotonic() + SETTLE_LIMIT_S
    last: Activity | None = None
    while time.monotonic() < give_up:
        stop.raise_if_stopped()
        now = await asyncio.to_thread(switch.activity)
        if last is not None and now.at_ns != last.at_ns:
            if now.idle and now.packets == last.packets:
                return
            last = now
        last = last or now
        await asyncio.sleep(switch.quiet_s)


async def execute(
    experiment: ExperimentConfig,
    run_dir: Path,
    manifest: ManifestFile,
    stop: StopToken,
    progress: Progress,
    watcher: Watcher | None = None,
) -> None:
    """Run the experiment, from creating namespaces to reading the last counter."""
    files = RunDirectory(run_dir)
    logs = files.logs
    virtual = manifest.manifest.virtual_time is not None
    with contextlib.ExitStack() as stack:
        progress.step("building hosts and links")
        hosts = [
            HostSpec(name, host.address, host.address6, _line(host))
            for name, host in experiment.hosts.items()
        ]
        hosts.append(HostSpec(COLLECTOR))
        testbed = stack.enter_context(Testbed(hosts, virtual_time=virtual))
        asked = experiment.switch
        numbers = {name: host.switch_port for name, host in testbed.hosts.items()}
        if asked.address is not None:
            numbers = {name: asked.ports[name].port for name in testbed.hosts}
        addresses = {
            name: HostPort(numbers[name], host.mac, host.address, host.address6)
            for name, host in testbed.hosts.items()
        }
        sink = addresses.pop(COLLECTOR)
        endpoint = CollectorEndpoint(sink.port, sink.mac, sink.ip, experiment.telemetry.port)
        testbed.set_sysctls({name: host.sysctl for name, host in experiment.hosts.items()})
        bmv2 = asked.target == "bmv2"
        plan = make_plan(experiment, Attachment(addresses, {COLLECTOR: endpoint}), wired=bmv2)
        manifest.add_notes(note for phase in plan.phases for note in phase.notes)

        progress.step("starting switch, collector and captures")
        if virtual:
            testbed.keep_departures()
        switch: RunSwitch
        if asked.address is not None:
            switch = stack.enter_context(SwitchElsewhere(experiment, testbed, addresses, logs))
        elif bmv2:
            switch = stack.enter_context(Bmv2Switch(experiment, testbed, addresses, logs))
        else:
            ahead = sink.port if virtual else None
            switch = stack.enter_context(EmbeddedSwitch(testbed, logs, run_ahead_except=ahead))
        collector = stack.enter_context(
            CollectorProcess(
                testbed,
                COLLECTOR,
                files.telemetry,
                files.accounting,
                logs,
                run_id=manifest.manifest.run_id,
                port=experiment.telemetry.port,
                gather_ms=VIRTUAL_GATHER_MS if virtual else 0,
            )
        )
        captures = [
            stack.enter_context(
                Capture(
                    testbed,
                    name,
                    files.capture(name),
                    logs,
                    snap_bytes=experiment.capture.truncate,
                    buffer_bytes=experiment.capture.buffer,
                )
            )
            for name in experiment.hosts
        ]
        # In virtual time nothing is late.
        probe = None if virtual else stack.enter_context(SchedulingProbe(logs))
        switch.wait_ready(stop)
        collector.wait_ready(stop)
        for capture in captures:
            capture.wait_ready(stop)
        sampler = stack.enter_context(SocketSampler(testbed, files.sockets))

        ports = PortAllocator()
        pipeline = load_for(plan.single_rate)
        async with SwitchControl(
            switch.p4runtime, asked.device_id, pipeline=pipeline, target=plan.target, via=switch.via
        ) as control:
            await switch.admit(control)
            await control.push_pipeline()
            manifest.add_notes(await switch.configure(control))
            for phase in plan.phases:
                progress.step(f"phase {phase.name}: configuring the switch")
                await control.apply(phase)
                meters = await control.read_meters(phase)
                flows = flow_specs(experiment, phase.name, ports, run_dir)
                specs = [spec for _, spec in flows]
                sampler.watch(specs)
                offered = PhaseTraffic(
                    testbed, specs, background_specs(experiment, phase.name, ports), logs, stop
                )
                with progress.phase(phase.name, experiment.phase_duration / NS):
                    if probe is not None:
                        probe.begin(phase.name)
                    async with sampled(control, phase, watcher):
                        traffic, events = await run_phase(control, phase, offered)
                    if probe is not None:
                        probe.end()
                # Fails here on a full disk, before waiting for counters that could not be written.
                manifest.write()
                progress.step(f"phase {phase.name}: waiting for the last packets")
                await settle(switch, stop)
                record = phase_record(experiment, phase, flows, traffic, events, offered.background)
                record = with_read_back(record, meters)
                record = with_counters(record, await control.read_counters(phase))
                manifest.update(phases=(*manifest.manifest.phases, record))
                manifest.add_notes(f"{phase.name}: {note}" for note in traffic.notes)
                problems = [*traffic.problems, *offered.problems, *events.problems]
                manifest.invalidate(f"{phase.name}: {problem}" for problem in problems)
                manifest.write()

            progress.step("closing captures and telemetry")
            testbed.silence()
            await settle(switch, stop)
            # A connection that closed late may have passed a policer after its phase's counters were read.
            records = zip(plan.phases, manifest.manifest.phases, strict=True)
            counted = [with_counters(record, await control.read_counters(phase)) for phase, record in records]
            reports_sent = await control.read_reports_sent()
            await switch.read(control)
        manifest.update(phases=tuple(counted))

        for name, drops in testbed.link_drops().items():
            lost = drops.to_switch + drops.from_switch
            manifest.invalidate([f"the link of {name} lost {lost} frames in the kernel"] if lost else [])
        captured = [await asyncio.to_thread(capture.stop) for capture in captures]
        manifest.update(
            hosts=tuple(_host(experiment, addresses[found.host], found, run_dir) for found in captured)
        )
        sampler.stop()
        late = None if probe is None else probe.stop()
        manifest.update(scheduling=None if late is None else Scheduling.model_validate(late))
        switch.stop()
        collector.stop()
        stats = switch.account(files.telemetry)
        manifest.invalidate(switch.problems())
        manifest.add_notes(switch.notes())
        manifest.update(
            switch=manifest.manifest.switch.model_copy(update={"stats": stats, "reports_sent": reports_sent})
        )


def _queue(experiment: ExperimentConfig, host: str) -> dict[str, int | None]:
    """Limits of the switch's queue to a host, as the manifest names them."""
    asked = experiment.hosts[host]
    if asked.rate is None:
        return {"queue_bytes": None}
    if experiment.switch.target == "bmv2":
        return {"queue_packets": asked.queue_packets or DEFAULT_PACKETS}
    packets = {} if asked.queue_packets is None else {"queue_packets": asked.queue_packets}
    return {"queue_bytes": queue_bytes(experiment, host), **packets}


def _line(host: HostConfig) -> Line | None:
    return Line(host.line_rate, host.packet_cost) if host.line_rate else None


def _host(experiment: ExperimentConfig, port: HostPort, captured: CaptureResult, run_dir: Path) -> Host:
    host = experiment.hosts[captured.host]
    return Host(
        name=captured.host,
        addresses=port.addresses,
        pcap=str(captured.path.relative_to(run_dir)),
        delay_s=host.delay / NS,
        jitter_s=host.jitter / NS,
        rate_bps=host.rate,
        **_queue(experiment, captured.host),
        loss=host.loss / PPB,
        line_rate_bps=host.line_rate or None,
        packet_cost_s=host.packet_cost / NS,
        capture_received=captured.captured,
        capture_drops=captured.lost,
    )


def run_inside(run_dir: Path, stop: StopToken, progress: Progress, watcher: Watcher | None = None) -> None:
    """Run the experiment of a prepared run directory, and record its end in the manifest.

    Call in the sandbox. `watcher` receives samples of the counters while flows run. Raises Interrupted, or
    the error that made the run fail, after recording it.
    """
    hold(run_dir)
    manifest = ManifestFile.load(run_dir)
    try:
        experiment = with_lines(
            load_experiment(RunDirectory(run_dir).config), virtual=manifest.manifest.virtual_time is not None
        )
        asyncio.run(execute(experiment, run_dir, manifest, stop, progress, watcher))
    except Interrupted as interruption:
        manifest.end_if_possible("interrupted", str(interruption))
        raise
    except Exception as error:
        manifest.end_if_possible("failed", f"{type(error).__name__}: {error}")
        raise
    manifest.end("complete")
