# SPDX-License-Identifier: Apache-2.0
"""bmv2 as the switch of a run: wires beside it emulate links, and its losses are told from counters.

    sent by the hosts → interface (kernel) → ingress (program) → queue → egress (program) → interface (kernel)
                               └ not taken in: a slow switch     └ gaps in numbers         └ not sent

bmv2 says nothing of what it loses. What the kernel counted on an interface and the program did not meet is
lost before the switch read it. A queue's drops are gaps in the numbers of its packets, which reports tell,
and at the end the difference of the numbers before and after the queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import HostPort
from weir.controlplane.config import ExperimentConfig
from weir.rundir.manifest import SwitchStats
from weir.rundir.plural import plural
from weir.runner.bmv2_queueing import Bmv2Queueing
from weir.runner.switch_account import PortMet, port_stats
from weir.runner.switches import Activity
from weir.topo.bmv2proc import THRIFT_PORT, Bmv2Process, bmv2_version
from weir.topo.interfaces import read_interfaces
from weir.topo.stop import StopToken
from weir.topo.testbed import Testbed
from weir.topo.wiring import WireSpec, Wiring

_LEAST_QUIET_S = 0.25
"""Longer than bmv2 holds a packet whose queue has no rate, and than the wires take to write counters."""


class Bmv2Switch:
    """simple_switch_grpc with its wires."""

    def __init__(
        self,
        experiment: ExperimentConfig,
        testbed: Testbed,
        hosts: Mapping[str, HostPort],
        logs: Path,
    ) -> None:
        """Start wires and switch. `hosts` are the experiment's; the testbed has the collector too.

        Raises ToolMissingError or ProcessError.
        """
        self._version = bmv2_version()
        self._host_ports = {host.port for host in hosts.values()}
        self._wires = {spec.port: spec for spec in _wires(experiment, testbed)}
        self._ports = {port: spec.switch_interface for port, spec in self._wires.items()}
        self._queueing = Bmv2Queueing(experiment, hosts, self._ports, THRIFT_PORT)
        slowest = self._queueing.slowest_packets_per_s
        self.quiet_s = _LEAST_QUIET_S if slowest is None else max(_LEAST_QUIET_S, 2 / slowest)
        self._stack = ExitStack()
        try:
            self._wiring: Wiring | None = None
            if not all(spec.is_plain for spec in self._wires.values()):
                wiring = Wiring(list(self._wires.values()), logs, seed=experiment.seed)
                self._wiring = self._stack.enter_context(wiring)
            self._process = self._stack.enter_context(Bmv2Process(self._ports, logs))
        except BaseException:
            self._stack.close()
            raise

    @property
    def address(self) -> str:
        """The address of its P4Runtime service."""
        return self._process.p4runtime

    @property
    def via(self) -> None:
        """It needs no relay."""

    async def admit(self, control: SwitchControl) -> None:
        """Nothing: it runs no program yet."""

    def wait_ready(self, stop: StopToken) -> None:
        """Wait until the wires forward and the switch serves P4Runtime."""
        if self._wiring is not None:
            self._wiring.wait_ready(stop)
        self._process.wait_ready(stop)

    async def configure(self, control: SwitchControl) -> list[str]:
        """Set its queues; from now on the kernel's counters are compared with the program's."""
        notes = await asyncio.to_thread(self._queueing.set)
        self._before = read_interfaces(self._ports.values())
        return [f"the switch is bmv2 {self._version}", *notes]

    def activity(self) -> Activity:
        """By the kernel's counters of its interfaces, and what the wires hold."""
        self._process.check_running()
        counters = read_interfaces(self._ports.values())
        packets = sum(found.rx_packets + found.tx_packets for found in counters.values())
        if self._wiring is None:
            return Activity(time.monotonic_ns(), packets, idle=True)
        at_ns, wires = self._wiring.counters()
        return Activity(at_ns, packets, idle=all(wire.in_flight == 0 for wire in wires.values()))

    async def read(self, control: SwitchControl) -> None:
        """Read the counters of program and kernel, and the queues' numbers."""
        reports = await control.read_reports_sent()
        counted = await control.read_ports(list(self._ports))
        after = read_interfaces(self._ports.values())
        await asyncio.to_thread(self._queueing.read)
        self._met = {
            port: PortMet(
                name,
                after[name].since(self._before[name]),
                counted[port],
                # Beside flooded packets, only reports go to the collector's port.
                reports=0 if port in self._host_ports else reports,
            )
            for port, name in self._ports.items()
        }

    def stop(self) -> None:
        """End switch and wires."""
        self._process.stop()
        self._wire_counters = {} if self._wiring is None else self._wiring.stop()
        self._kernel_drops = {} if self._wiring is None else self._wiring.kernel_drops()

    def account(self, telemetry: Path) -> SwitchStats:
        """Counters of each port; what bmv2 does not tell is not set."""
        drops = self._queueing.drops(telemetry)
        return SwitchStats(
            schema=1,
            ports=tuple(
                port_stats(port, met, self._wire_counters.get(port), drops.get(port))
                for port, met in sorted(self._met.items())
            ),
        )

    def notes(self) -> list[str]:
        """None."""
        return []

    def problems(self) -> list[str]:
        """A line for each wire of which the kernel lost frames."""
        return [
            f"the wire to switch port {port} lost {plural(count, 'frame')} in the kernel"
            for port, count in self._kernel_drops.items()
        ]

    def __enter__(self) -> Self:
        """Nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs."""
        self._stack.close()


def _wires(experiment: ExperimentConfig, testbed: Testbed) -> Sequence[WireSpec]:
    """The wire to each host and to the collector, whose link is plain."""
    specs = []
    for name, end in testbed.hosts.items():
        host = experiment.hosts.get(name)
        if host is None:
            specs.append(WireSpec(end.switch_port, end.switch_interface))
            continue
        specs.append(
            WireSpec(
                end.switch_port,
                end.switch_interface,
                delay_ns=host.delay,
                jitter_ns=host.jitter,
                loss_ppb=host.loss,
                line_rate_bps=host.line_rate or None,
            )
        )
    return specs
