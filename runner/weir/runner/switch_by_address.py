# SPDX-License-Identifier: Apache-2.0
"""A switch that others have started, known by its address: admitted, and accounted for.

What it lost is told by comparing its program's counters with those of the network cards at the other ends of
its cables, which subclasses read.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import HostPort
from weir.controlplane.config import ExperimentConfig
from weir.controlplane.config.values import bfruntime_endpoint
from weir.controlplane.errors import PipelineError
from weir.controlplane.links_service import PortState
from weir.rundir.manifest import PortStats, SwitchStats
from weir.rundir.plural import plural
from weir.runner.bmv2_queueing import Bmv2Queueing
from weir.runner.switch_account import PortMet, extra_frames, port_stats
from weir.runner.switch_control import loads_program
from weir.runner.switches import Activity
from weir.topo.interfaces import InterfaceCounters
from weir.topo.wiring import WireCounters

_LEAST_QUIET_S = 0.25
_MOST_READINGS = 20
_FRAMES_OF_A_LINK = 2 * 1514 * 8
_NS = 1_000_000_000
_LOAD = "`weir apply --load-pipeline`"
_LOAD_COMPILED = "`weir apply --compiled DIR --load-pipeline`"


class SwitchByAddress(ABC):
    """The switch at `switch.address`; it runs on after the run."""

    def __init__(
        self,
        experiment: ExperimentConfig,
        hosts: Mapping[str, HostPort],
        cards: Mapping[int, str],
        *,
        network: int | None = None,
    ) -> None:
        """`hosts` are the experiment's, `cards` the ends of the switch's cables by its ports.

        `network` is that of :class:`Bmv2Queueing`.
        """
        address = experiment.switch.address
        assert address is not None  # checked before the run
        self._loads = loads_program(experiment)
        self._address: str = bfruntime_endpoint(address) or address
        self._cards = cards
        self._host_ports = {host.port for host in hosts.values()}
        self._queueing: Bmv2Queueing | None = None
        thrift_port = experiment.switch.thrift_port
        if thrift_port is not None:
            self._queueing = Bmv2Queueing(experiment, hosts, cards, thrift_port, network=network)
        self.quiet_s = _quiet_s(experiment)
        self._notes: list[str] = []

    @property
    def address(self) -> str:
        """The address of its P4Runtime service, or of its bf_switchd."""
        return self._address

    async def admit(self, control: SwitchControl) -> None:
        """Raise PipelineError if the switch runs another program than weir's, which a run would replace.

        On a Tofino also if it runs none: loading one takes the ports of hosts and other programs down.
        """
        try:
            runs = await control.runs_pipeline()
        except PipelineError as error:
            raise PipelineError(
                f"the switch at {self._address} runs another program, which a run does not replace; valid: "
                f"a switch {'without a program or ' if self._loads else ''}with weir's, such as after "
                f"{_LOAD if self._loads else _LOAD_COMPILED}"
            ) from error
        if not runs and not self._loads:
            raise PipelineError(
                f"the switch at {self._address} runs no program, and a run loads none on a Tofino, as "
                "that takes all ports down; valid: a switch with weir's program, such as after "
                f"{_LOAD_COMPILED}"
            )

    async def configure(self, control: SwitchControl) -> list[str]:
        """Set the queues of a bmv2; from now on the cards' counters are compared with the program's."""
        notes = [] if self._queueing is None else await asyncio.to_thread(self._queueing.set)
        self._before = await self._at_rest(control)
        self._links_before = await control.read_links()
        return [
            f"the switch at {self._address} was started by others and runs on; hosts are plugged in at "
            + ", ".join(f"port {port} ({card})" for port, card in sorted(self._cards.items())),
            *notes,
        ]

    def activity(self) -> Activity:
        """By the cards' counters."""
        found = self._card_counters()
        packets = sum(one.rx_packets + one.tx_packets for one in found.values())
        return Activity(time.monotonic_ns(), packets, idle=True)

    async def read(self, control: SwitchControl) -> None:
        """Read the counters of program, links, cards, and queues of a bmv2."""
        # A frame between the readings of program and cards would pass for one that the switch lost.
        after = await self._at_rest(control)
        self._met = {port: met.since(self._before[port]) for port, met in after.items()}
        self._links = await control.read_links()
        if self._queueing is not None:
            await asyncio.to_thread(self._queueing.read)

    def account(self, telemetry: Path) -> SwitchStats:
        """Counters of each used port; what is not known of the switch is not set."""
        drops = {} if self._queueing is None else self._queueing.drops(telemetry)
        wires = self._wire_counters()
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
                    f"{plural(extra, 'frame')} on the cable of port {port} came from neither "
                    "a host nor the program"
                )
            ports.append(port_stats(port, met, wires.get(port), queue_drops, link_lost, strangers=True))
        dataplane = {"deflected": deflected} if self._links else {}
        return SwitchStats(schema=1, ports=tuple(ports), dataplane=dataplane)

    def notes(self) -> list[str]:
        """A line for each cable with frames of others."""
        return self._notes

    @abstractmethod
    def _card_counters(self) -> Mapping[int, InterfaceCounters]:
        """The counters of the cards by switch port, as the cards count."""

    def _wire_counters(self) -> Mapping[int, WireCounters]:
        """The counters of emulated wires between hosts and cards, by switch port; known once it has ended."""
        return {}

    async def _at_rest(self, control: SwitchControl) -> dict[int, PortMet]:
        """The counters of both sides once two readings agree, so that no frame came between the two sides."""
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
        cards = await asyncio.to_thread(self._card_counters)
        return {
            port: PortMet(
                card,
                cards[port].mirrored(),
                counted[port],
                reports=0 if port in self._host_ports else reports,
            )
            for port, card in self._cards.items()
        }


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
