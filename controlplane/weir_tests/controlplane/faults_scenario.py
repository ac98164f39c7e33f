# SPDX-License-Identifier: Apache-2.0
"""The program that `faults_test.py` runs in a sandbox: each write of an apply to a real switch fails in turn.

    controller ── proxy that makes one write fail ── weir-switch, or bmv2

The error messages and the resulting state of the switch go to `result.json` in the folder given as argument.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import attachment_of
from weir.controlplane.config import parse_experiment
from weir.controlplane.connection import Part
from weir.controlplane.errors import MaybeLoadedError, PartlyAppliedError, PipelineError
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.pipeline import Pipeline, load_pipeline
from weir.controlplane.plan import make_plan
from weir.controlplane.targets import Target
from weir.topo.bmv2proc import Bmv2Process, bmv2_problem
from weir.topo.process import run_tool
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess
from weir_tests.controlplane.faulty_proxy import Fault, FaultyProxy, Kind
from weir_tests.controlplane.scenario import wire

# Between the first and the second there are entries to insert, to modify and to delete.
EXPERIMENT = """\
name: faults
switch: {{target: {target}}}
hosts: {{a: {{{link}}}, b: {{{link}}}, c: {{}}}}
flows: [{{name: f, from: a, to: b, duration: 1 s}}]
policers: [{policers}]
"""
FIRST = "{name: one, rate: 8 kbit/s, burst: 20 kB, match: [{from: a, to: b}, {from: a, to: c}]}"
SECOND = (
    "{name: two, rate: 16 kbit/s, burst: 20 kB, match: [{from: a, to: b}, {from: b, to: c}]}, "
    "{name: more, rate: 24 kbit/s, burst: 20 kB, match: [{from: c, dst_port: 80}]}"
)
LINK = {"softswitch": "delay: 1 ms", "bmv2": ""}
PORTS = (1, 2, 3, 4)  # a, b, c and the collector


@dataclass(frozen=True)
class Switch:
    """A running switch, and two plans for it."""

    address: str
    pipeline: Pipeline
    target: Target
    first: PhasePlan
    second: PhasePlan

    def control(self, address: str | None = None, part: Part = "primary") -> SwitchControl:
        """A controller of the switch, by default at its own address; not yet entered."""
        return SwitchControl(address or self.address, pipeline=self.pipeline, target=self.target, part=part)

    async def apply(self, phase: PhasePlan) -> int:
        """Apply without a fault; returns the number of updates."""
        async with self.control() as control:
            return len(await control.apply(phase))


def plans(target: str) -> tuple[Target, PhasePlan, PhasePlan]:
    """The target, the plan that is on the switch, and the plan to apply."""
    texts = (
        EXPERIMENT.format(target=target, link="", policers=FIRST),
        EXPERIMENT.format(target=target, link=LINK[target], policers=SECOND),
    )
    experiments = [parse_experiment(text) for text in texts]
    first, second = (make_plan(experiment, attachment_of(experiment)) for experiment in experiments)
    return first.target, first.phase("main"), second.phase("main")


async def failing(switch: Switch, reader: SwitchControl, fault: Fault) -> dict[str, Any]:
    """Apply the second plan over the first with one fault, then without; ``reader`` observes the switch."""

    async def left(phase: PhasePlan) -> int:
        return len(await reader.difference(phase))

    await switch.apply(switch.first)
    total, said, cause, applied = await left(switch.second), "", "", -1
    async with FaultyProxy(switch.address, fault) as proxy:
        try:
            async with switch.control(proxy.address) as control:
                await control.apply(switch.second)
        except PartlyAppliedError as error:
            said, cause, applied = str(error), type(error.cause).__name__, error.applied
    return {
        "kind": fault.kind,
        "total": total,
        "said": said,
        "cause": cause,
        "applied": applied,
        "left": await left(switch.second),
        "unchanged": await left(switch.first) == 0,
        "again": await switch.apply(switch.second),
        "left_then": await left(switch.second),
    }


async def pushing(switch: Switch, reader: SwitchControl, kind: Kind) -> dict[str, Any]:
    """Load the pipeline over a plan with one fault, then apply without."""
    await switch.apply(switch.first)
    said = ""
    async with FaultyProxy(switch.address, Fault(kind, 0)) as proxy:
        try:
            async with switch.control(proxy.address) as control:
                await control.push_pipeline()
        except (MaybeLoadedError, PipelineError) as error:
            said = str(error)
    return {
        "said": said,
        "calls": proxy.calls,
        "unchanged": len(await reader.difference(switch.first)) == 0,
        "again": await switch.apply(switch.second),
        "left_then": len(await reader.difference(switch.second)),
    }


async def faults(target: str, address: str) -> dict[str, Any]:
    """Inject every fault into an apply and into loading the pipeline."""
    switch = Switch(address, load_pipeline(), *plans(target))
    async with switch.control() as control:
        await control.push_pipeline()
    for phase in (switch.second, switch.first):
        await switch.apply(phase)
    async with FaultyProxy(address) as proxy, switch.control(proxy.address) as control:
        await control.apply(switch.second)
    kinds: dict[Kind, int] = {
        "refuse": len(proxy.calls),
        "spoil": proxy.updates,
        "cut before": len(proxy.calls),
        "cut after": len(proxy.calls),
    }
    every = [Fault(kind, nth) for kind, count in kinds.items() for nth in range(count)]
    async with switch.control(part="reader") as reader:
        return {
            "calls": proxy.calls,
            "updates": proxy.updates,
            "applies": [await failing(switch, reader, fault) for fault in every],
            "pushes": {kind: await pushing(switch, reader, kind) for kind in kinds if kind != "spoil"},
        }


def main(_stop: StopToken) -> int:
    """Run the scenario on weir-switch, and on bmv2 if it is installed."""
    folder, result = Path(sys.argv[1]), {}
    run_tool("ip", "link", "set", "lo", "up")
    ends = [wire(port) for port in PORTS]
    wires = [SwitchPort(port, f"far{port}") for port in PORTS]
    with SwitchProcess(wires, folder) as softswitch:
        softswitch.wait_ready()
        result["softswitch"] = asyncio.run(faults("softswitch", softswitch.p4runtime))
    if bmv2_problem() is None:
        with Bmv2Process({port.number: port.interface for port in wires}, folder) as bmv2:
            bmv2.wait_ready()
            result["bmv2"] = asyncio.run(faults("bmv2", bmv2.p4runtime))
    for end in ends:
        end.close()
    (folder / "result.json").write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    inside(main)
