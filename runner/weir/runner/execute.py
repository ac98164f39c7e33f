# SPDX-License-Identifier: Apache-2.0
"""The inner half of a run: sets its hosts up, runs every phase, fills the manifest.

hosts, links → switch, collector, captures → per phase: entries → flows → counters → stop all processes
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

from weir.controlplane.attach import Attachment, CollectorEndpoint
from weir.controlplane.config import COLLECTOR, ExperimentConfig, load_experiment, with_lines
from weir.controlplane.plan import make_plan
from weir.rundir.directory import RunDirectory, hold
from weir.rundir.manifest import Scheduling
from weir.rundir.manifest_file import ManifestFile
from weir.runner.host_record import host_record, receive_queue_notes
from weir.runner.phase import all_well, run_phase
from weir.runner.phase_record import phase_record, with_counters, with_read_back
from weir.runner.progress import Progress, Watcher
from weir.runner.sampling import sampled
from weir.runner.sandbox_stage import SandboxStage
from weir.runner.stage import Stage
from weir.runner.switch_control import control_of, loads_program, start_afresh
from weir.runner.switches import Activity, RunSwitch
from weir.runner.testbed_stage import TestbedStage
from weir.runner.traffic import PhaseTraffic, background_specs, flow_specs
from weir.runner.tuners import Tuners
from weir.testbed.inventory import TestbedConfig
from weir.testbed.joined import on_testbed
from weir.testbed.load import load_testbed
from weir.topo.capture import Capture
from weir.topo.stop import Interrupted, StopToken
from weir.topo.traffic import PortAllocator

NS = 1_000_000_000
# Longest wait for frames that are still in flight after the last flow has ended.
SETTLE_LIMIT_S = 15.0


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
    testbed: TestbedConfig | None = None,
) -> None:
    """Run the experiment, from building hosts, or setting up a testbed's, to reading the last counter."""
    files = RunDirectory(run_dir)
    logs = files.logs
    virtual = manifest.manifest.virtual_time is not None
    with contextlib.ExitStack() as stack:
        progress.step("building hosts and links" if testbed is None else "setting up the testbed's hosts")
        stage: Stage
        if testbed is None:
            stage = stack.enter_context(SandboxStage(experiment, virtual=virtual))
        else:
            stage = stack.enter_context(TestbedStage(experiment, testbed, stop))
        manifest.add_notes(stage.notes())
        sink = stage.sink
        endpoint = CollectorEndpoint(sink.port, sink.mac, sink.ip, experiment.telemetry.port)
        stage.hosts.set_sysctls({name: host.sysctl for name, host in experiment.hosts.items()})
        links_of_its_own = experiment.switch.target == "softswitch"
        plan = make_plan(
            experiment,
            Attachment(stage.addresses, {COLLECTOR: endpoint}),
            wired=testbed is None and not links_of_its_own,
        )
        manifest.add_notes(note for phase in plan.phases for note in phase.notes)

        progress.step("starting switch, collector and captures")
        switch = stack.enter_context(stage.switch(logs))
        collector = stage.collector(files, manifest.manifest.run_id)
        stack.enter_context(collector)
        place = manifest.manifest.testbed
        headers_only = experiment.capture.keep == "results" or bool(place and place.headers_only)
        captures = [
            stack.enter_context(
                Capture(
                    stage.hosts,
                    name,
                    files.capture(name),
                    logs,
                    snap_bytes=experiment.capture.truncate,
                    buffer_bytes=experiment.capture.buffer,
                    headers_only=headers_only,
                )
            )
            for name in experiment.hosts
        ]
        probe = stage.probe(logs)
        if probe is not None:
            stack.enter_context(probe)
        switch.wait_ready(stop)
        collector.wait_ready(stop)
        for capture in captures:
            capture.wait_ready(stop)
        sampler = stage.sampler(files.sockets, experiment.capture.sockets / NS)
        stack.enter_context(sampler)
        tuners = stack.enter_context(Tuners(experiment, stage.hosts, run_dir))

        ports = PortAllocator(stage.source_port_offset())
        async with control_of(experiment, plan, switch.address, via=switch.via) as control:
            # In virtual time each wake-up costs wall time, and a full disk is found at the end.
            guards = [] if virtual else [all_well(stage.check, collector, *captures)]
            if experiment.switch.address is not None:
                guards.append(control.session.until_lost)
            await switch.admit(control)
            manifest.add_notes(await start_afresh(control, plan, loads=loads_program(experiment)))
            manifest.add_notes(await switch.configure(control))
            for phase in plan.phases:
                progress.step(f"phase {phase.name}: configuring the switch")
                await control.apply(phase)
                meters = await control.read_meters(phase)
                flows = flow_specs(experiment, phase.name, ports, run_dir)
                specs = [spec for _, spec in flows]
                sampler.watch(specs)
                offered = PhaseTraffic(
                    stage.hosts, specs, background_specs(experiment, phase.name, ports), logs, stop
                )
                with progress.phase(phase.name, experiment.phase_duration / NS):
                    if probe is not None:
                        probe.begin(phase.name)
                    tuners.begin(specs)
                    async with sampled(control, phase, watcher):
                        traffic, events = await run_phase(control, phase, offered, guards, stop)
                    tuners.end()
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
            stage.hosts.silence()
            await settle(switch, stop)
            # A connection that closed late may have passed a policer after its phase's counters were read.
            records = zip(plan.phases, manifest.manifest.phases, strict=True)
            counted = [with_counters(record, await control.read_counters(phase)) for phase, record in records]
            reports_sent = await control.read_reports_sent()
            await switch.read(control)
        manifest.update(phases=tuple(counted))

        manifest.invalidate(stage.lost())
        clocks, counts = stage.clocks(), stage.receive_queues()
        if testbed is None:
            captured = [await asyncio.to_thread(capture.stop) for capture in captures]
        else:  # they are files of other machines
            captured = await asyncio.gather(*(asyncio.to_thread(capture.stop) for capture in captures))
        manifest.update(
            hosts=tuple(
                host_record(
                    experiment,
                    stage.addresses[found.host],
                    found,
                    run_dir,
                    clocks.get(found.host),
                    counts.get(found.host),
                )
                for found in captured
            )
        )
        manifest.add_notes(receive_queue_notes(manifest.manifest.hosts))
        sampler.stop()
        tuners.stop()
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


def run_inside(run_dir: Path, stop: StopToken, progress: Progress, watcher: Watcher | None = None) -> None:
    """Run the experiment of a prepared run directory, and record its end in the manifest.

    Call in the sandbox; a run on a testbed needs none. `watcher` receives samples of the counters while flows
    run. Raises Interrupted, or the error that made the run fail, after recording it; a stop that came before
    the manifest was read is left to the outer half.
    """
    hold(run_dir)
    # A late stop may find the directory of another run: `weir campaign` makes it anew after kill -9.
    stop.raise_if_stopped()
    manifest = ManifestFile.load(run_dir)
    try:
        files = RunDirectory(run_dir)
        experiment = with_lines(
            load_experiment(files.config), virtual=manifest.manifest.virtual_time is not None
        )
        testbed = None
        if manifest.manifest.testbed is not None:
            testbed = load_testbed(files.testbed)
            experiment = on_testbed(experiment, testbed)
        asyncio.run(execute(experiment, run_dir, manifest, stop, progress, watcher, testbed))
    except Interrupted as interruption:
        manifest.end_if_possible("interrupted", str(interruption))
        raise
    except Exception as error:
        manifest.end_if_possible("failed", f"{type(error).__name__}: {error}")
        raise
    manifest.end("complete")
