# SPDX-License-Identifier: Apache-2.0
"""A switch that runs already as the switch of a run: known by its address, cabled to cards of this machine.

    host's namespace ── wire ── network card ══ cable ══ port of the switch
    control          ── relay ── the machine's network ── P4Runtime of the switch

The sandbox takes the cards for the run, and reaches the switch through the machine's network. What the switch
lost is told by comparing its program's counters with those of the cards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import HostPort
from weir.controlplane.config import CableConfig, ExperimentConfig, HostConfig
from weir.controlplane.errors import PipelineError, SwitchUnreachableError
from weir.controlplane.links_service import PortState
from weir.rundir.manifest import PortStats, SwitchStats
from weir.runner.bmv2_queueing import Bmv2Queueing
from weir.runner.switch_account import PortMet, extra_frames, port_stats
from weir.runner.switches import Activity
from weir.topo.cards import Cards
from weir.topo.hosts import HostPort as Port
from weir.topo.interfaces import read_interfaces
from weir.topo.relay import Relay
from weir.topo.sandbox import origin
from weir.topo.stop import StopToken
from weir.topo.testbed import Testbed
from weir.topo.wiring import WireSpec, Wiring

_LEAST_QUIET_S = 0.25
_MOST_READINGS = 20
_FRAMES_OF_A_LINK = 2 * 1514 * 8
_NS = 1_000_000_000


class SwitchElsewhere:
    """The switch at `switch.address`, as long as the context; it runs on afterwards."""

    def __init__(
        self, experiment: ExperimentConfig, testbed: Testbed, hosts: Mapping[str, HostPort], logs: Path
    ) -> None:
        """Take the cards and wire the hosts to them; `hosts` are the experiment's.

        Raises SandboxError, TestbedError, ToolMissingError or ProcessError.
        """
        asked = experiment.switch
        assert asked.address is not None  # checked before the run
        self._address = asked.address
        self._wires = [
            _wire(end, asked.ports[name], experiment.hosts.get(name), asked.target)
            for name, end in testbed.hosts.items()
        ]
        self._cards = {wire.port: wire.switch_interface for wire in self._wires}
        self._host_ports = {host.port for host in hosts.values()}
        self._queueing: Bmv2Queueing | None = None
        if asked.thrift_port is not None:
            self._queueing = Bmv2Queueing(experiment, hosts, self._cards, asked.thrift_port, network=origin())
        self.quiet_s = _quiet_s(experiment)
        self._notes: list[str] = []
        self._stack = ExitStack()
        try:
            self._relay = self._stack.enter_context(Relay(self._address, origin()))
            self._stack.enter_context(Cards(list(self._cards.values()), origin()))
            self._wiring = self._stack.enter_context(Wiring(self._wires, logs, seed=experiment.seed))
        except BaseException:
            self._stack.close()
            raise

    @property
    def p4runtime(self) -> str:
        """The address of its P4Runtime service."""
        return self._address

    @property
    def via(self) -> str:
        """The address in the sandbox that relays to it."""
        return self._relay.address

    def wait_ready(self, stop: StopToken) -> None:
        """Wait until the wires forward. Raises SwitchUnreachableError if nothing listens at the address."""
        self._wiring.wait_ready(stop)
        try:
            self._relay.check()
        except OSError as error:
            raise SwitchUnreachableError(
                f"switch.address: no switch answers at {self._address}: {error.strerror or error}"
            ) from error

    async def admit(self, control: SwitchControl) -> None:
        """Raise PipelineError if the switch runs another program than weir's, which a run would replace."""
        try:
            await control.runs_pipeline()
        except PipelineError as error:
            raise PipelineError(
                f"the switch at {self._address} runs another program, which a run does not replace; valid: "
                "a switch without a program or with weir's, such as after `weir apply --load-pipeline`"
            ) from error

    async def configure(self, control: SwitchControl) -> list[str]:
        """Set the queues of a bmv2; from now on the cards' counters are compared with the program's."""
        notes = [] if self._queueing is None else await asyncio.to_thread(self._queueing.set)
        self._before = await self._at_rest(control)
        self._links_before = await control.read_links()
        return [
            f"the switch at {self._address} was started by others and runs on; hosts are plugged in at "
            + ", ".join(f"port {port} ({card})" for port, card in self._cards.items()),
            *notes,
        ]

    async def _at_rest(self, control: SwitchControl) -> dict[int, PortMet]:
        """The counters of both sides once two readings agree: older frames may still be under way."""
        last = await self._counted(control)
        for _ in range(_MOST_READINGS):
            await asyncio.sleep(self.quiet_s)
            now = await self._counted(control)
            if now == last:
                break
            last = now
        return last

    async def _counted(self, control: SwitchControl) -> dict[int, PortMet]:
        """What each cable carried, as the switch sees it: it receives what the card has sent."""
        reports = await control.read_reports_sent()
        counted = await control.read_ports(list(self._cards))
        cards = read_interfaces(self._cards.values())
        return {
            port: PortMet(
                card,
                cards[card].mirrored(),
                counted[port],
                reports=0 if port in self._host_ports else reports,
            )
            for port, card in self._cards.items()
        }

    def activity(self) -> Activity:
        """By the cards' counters, and what the wires hold."""
        found = read_interfaces(self._cards.values())
        at_ns, wires = self._wiring.counters()
        packets = sum(one.rx_packets + one.tx_packets for one in found.values())
        return Activity(at_ns, packets, idle=all(wire.in_flight == 0 for wire in wires.values()))

    async def read(self, control: SwitchControl) -> None:
        """Read the counters of program, links and cards."""
        after = await self._counted(control)
        self._met = {port: met.since(self._before[port]) for port, met in after.items()}
        self._links = await control.read_links()
        if self._queueing is not None:
            await asyncio.to_thread(self._queueing.read)

    def stop(self) -> None:
        """End the wires and give the cards back; the switch runs on."""
        self._wire_counters = self._wiring.stop()
        self._kernel_drops = self._wiring.kernel_drops()
        self._stack.close()

    def account(self, telemetry: Path) -> SwitchStats:
        """Counters of each used port; what is not known of the switch is not set."""
        drops = {} if self._queueing is None else self._queueing.drops(telemetry)
        deflected = 0
        ports: list[PortStats] = []
        for port, met in sorted(self._met.items()):
            queue_drops, link_lost = drops.get(port), None
            if port in self._links:
                queue_drops, of_them_deflected, link_lost = _since(self._links_before, self._links, port)
                deflected += of_them_deflected
            extra = extra_frames(met, link_lost or 0)
            if extra:
                self._notes.append(
                    f"{extra} frames on the cable of port {port} were neither a host's nor the program's"
                )
            ports.append(
                port_stats(port, met, self._wire_counters[port], queue_drops, link_lost, strangers=True)
            )
        dataplane = {"deflected": deflected} if self._links else {}
        return SwitchStats(schema=1, ports=tuple(ports), dataplane=dataplane)

    def notes(self) -> list[str]:
        """A line for each cable with frames of others."""
        return self._notes

    def problems(self) -> list[str]:
        """A line for each card of which the kernel lost frames."""
        return [
            f"the kernel lost {count} frames of {self._cards[port]}, the card to switch port {port}"
            for port, count in self._kernel_drops.items()
        ]

    def __enter__(self) -> Self:
        """Nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give back what is still taken."""
        self._stack.close()


def _wire(end: Port, cable: CableConfig, host: HostConfig | None, target: str) -> WireSpec:
    """The wire from a host, or from the collector, to the card of its cable."""
    if host is None or target == "softswitch":  # weir-switch emulates the links itself
        return WireSpec(cable.port, end.switch_interface, card=cable.interface)
    return WireSpec(
        cable.port,
        end.switch_interface,
        delay_ns=host.delay,
        jitter_ns=host.jitter,
        loss_ppb=host.loss,
        line_rate_bps=host.line_rate or None,
        card=cable.interface,
    )


def _since(
    before: Mapping[int, PortState], after: Mapping[int, PortState], port: int
) -> tuple[int, int, int]:
    """Drops of a port's queue, those of them that were deflected, and losses of its link, since `before`."""
    old, new = before[port], after[port]
    return (
        new.queue_drops - old.queue_drops,
        new.queue_deflected - old.queue_deflected,
        new.link_lost - old.link_lost,
    )


def _quiet_s(experiment: ExperimentConfig) -> float:
    """Longer than a packet is under way to a host without being counted, and than two frames of a queue."""
    hosts = experiment.hosts.values()
    links = [2 * (host.delay + host.jitter) / _NS for host in hosts]
    queues = [_FRAMES_OF_A_LINK / host.rate for host in hosts if host.rate]
    return max(_LEAST_QUIET_S, *links, *queues)
