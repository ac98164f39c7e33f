# SPDX-License-Identifier: Apache-2.0
"""A switch that runs already as the switch of a run: known by its address, cabled to cards of this machine.

    host's namespace ── wire ── network card ══ cable ══ port of the switch
    control          ── relay ── the machine's network ── P4Runtime or BfRuntime of the switch

The sandbox takes the cards for the run, and reaches the switch through the machine's network.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from weir.controlplane.attach import HostPort
from weir.controlplane.config import CableConfig, ExperimentConfig, HostConfig
from weir.controlplane.errors import SwitchUnreachableError
from weir.rundir.plural import plural
from weir.runner.switch_by_address import SwitchByAddress
from weir.runner.switches import Activity
from weir.topo.cards import Cards
from weir.topo.hosts import HostPort as Port
from weir.topo.interfaces import InterfaceCounters, read_interfaces
from weir.topo.relay import Relay
from weir.topo.sandbox import origin
from weir.topo.stop import StopToken
from weir.topo.testbed import Testbed
from weir.topo.wiring import WireCounters, WireSpec, Wiring


class SwitchElsewhere(SwitchByAddress):
    """The switch at `switch.address`, as long as the context; it runs on afterwards."""

    def __init__(
        self, experiment: ExperimentConfig, testbed: Testbed, hosts: Mapping[str, HostPort], logs: Path
    ) -> None:
        """Take the cards and wire the hosts to them; `hosts` are the experiment's.

        Raises SandboxError, TestbedError, ToolMissingError or ProcessError.
        """
        asked = experiment.switch
        self._wires = [
            _wire(end, asked.ports[name], experiment.hosts.get(name), asked.target)
            for name, end in testbed.hosts.items()
        ]
        cards = {wire.port: wire.switch_interface for wire in self._wires}
        super().__init__(experiment, hosts, cards, network=origin())
        self._stack = ExitStack()
        try:
            self._relay = self._stack.enter_context(Relay(self._address, origin()))
            self._stack.enter_context(Cards(list(cards.values()), origin()))
            self._wiring = self._stack.enter_context(Wiring(self._wires, logs, seed=experiment.seed))
        except BaseException:
            self._stack.close()
            raise

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

    def activity(self) -> Activity:
        """By the cards' counters, and what the wires hold."""
        at_ns, wires = self._wiring.counters()
        idle = all(wire.in_flight == 0 for wire in wires.values())
        return Activity(at_ns, super().activity().packets, idle=idle)

    def stop(self) -> None:
        """End the wires and give the cards back; the switch runs on."""
        self._wires_ended = self._wiring.stop()
        self._kernel_drops = self._wiring.kernel_drops()
        self._stack.close()

    def problems(self) -> list[str]:
        """A line for each card of which the kernel lost frames."""
        return [
            f"the kernel lost {plural(count, 'frame')} of {self._cards[port]}, the card to switch port {port}"
            for port, count in self._kernel_drops.items()
        ]

    def _card_counters(self) -> Mapping[int, InterfaceCounters]:
        found = read_interfaces(self._cards.values())
        return {port: found[card] for port, card in self._cards.items()}

    def _wire_counters(self) -> Mapping[int, WireCounters]:
        return self._wires_ended

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
