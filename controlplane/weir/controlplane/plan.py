# SPDX-License-Identifier: Apache-2.0
"""From an experiment and where its hosts are to the entities of each phase. Pure: nothing is read."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from weir.controlplane.cells import allocate, hashed_cell
from weir.controlplane.config import ExperimentConfig, MatchConfig, PhaseConfig, PolicerConfig
from weir.controlplane.config.model import POLICER_CELLS
from weir.controlplane.entities import CloneSession, Entity, Match, MeterCell, MulticastGroup, TableEntry
from weir.controlplane.errors import PlanError
from weir.controlplane.target import Target, target_of
from weir.controlplane.units import format_rate, format_size

FLOOD_GROUP = 1  # the default action of `forward` in the pipeline floods to this group
REPORT_SESSION = 1
COLLECTOR_ID = 1
NODE_ID = 1
CELL_MASK = POLICER_CELLS - 1
COLOURS: Mapping[str, int] = {"green": 0, "yellow": 1, "red": 2}
TCP = 6

Truth = Literal["shared", "separate"]


@dataclass(frozen=True, slots=True)
class HostPort:
    """Where a host is: its switch port, and the addresses of its interface."""

    port: int
    mac: str
    ip: str


@dataclass(frozen=True, slots=True)
class CollectorEndpoint:
    """Where reports go, and what the switch calls itself in them."""

    port: int
    mac: str
    ip: str
    udp_port: int
    switch_mac: str
    switch_ip: str


@dataclass(frozen=True, slots=True)
class FlowKey:
    """A flow by its hosts' names; ports None are not known yet."""

    source: str
    destination: str
    protocol: int = TCP
    src_port: int | None = None
    dst_port: int | None = None
    dscp: int = 0


@dataclass(frozen=True, slots=True)
class PolicerPlan:
    """A policer's cells and what the switch is told, beside what the experiment asked for."""

    name: str
    index: int
    cells: int
    rate_bps: int
    burst_bytes: int
    rate_bytes_per_s: int
    effective_rate_bps: int
    effective_burst_bytes: int
    config: PolicerConfig

    @property
    def notes(self) -> tuple[str, ...]:
        """What was rounded, for the reader."""
        notes = []
        written_bps = self.rate_bytes_per_s * 8
        if written_bps != self.rate_bps:
            notes.append(
                f"policer {self.name}: {format_rate(self.rate_bps)} is set as {format_rate(written_bps)}: "
                "P4Runtime counts whole bytes per second"
            )
        if self.effective_rate_bps != written_bps:
            effective = format_rate(self.effective_rate_bps)
            notes.append(f"policer {self.name}: the switch polices at {effective}, its nearest rate")
        if self.effective_burst_bytes != self.burst_bytes:
            effective = format_size(self.effective_burst_bytes)
            notes.append(f"policer {self.name}: the switch gives a burst of {effective}, its nearest burst")
        return tuple(notes)


@dataclass(frozen=True)
class PhasePlan:
    """Everything that is on the switch during one phase."""

    name: str
    policers: tuple[PolicerPlan, ...]
    entities: tuple[Entity, ...]
    hosts: Mapping[str, HostPort]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was rounded in this phase, for the reader."""
        return tuple(note for policer in self.policers for note in policer.notes)

    def policer_of(self, flow: FlowKey) -> PolicerPlan | None:
        """The policer that the flow's packets meet: the first that matches, or none.

        Raises:
            PlanError: a match names ports, and the flow's are not known.
        """
        for policer in self.policers:
            if any(_meets(flow, match) for match in policer.config.match):
                return policer
        return None

    def cell_of(self, flow: FlowKey) -> int | None:
        """The meter cell that the flow's packets meet, or none. Raises as ``policer_of`` does."""
        policer = self.policer_of(flow)
        if policer is None or policer.config.mode == "shared":
            return None if policer is None else policer.index
        if flow.src_port is None or flow.dst_port is None:
            raise PlanError(
                f"which cell of {policer.name} {flow.source} → {flow.destination} meets depends on its ports"
            )
        return hashed_cell(
            policer.index,
            policer.cells,
            self.hosts[flow.source].ip,
            self.hosts[flow.destination].ip,
            flow.protocol,
            flow.src_port,
            flow.dst_port,
        )

    def truth(self, one: FlowKey, other: FlowKey) -> Truth:
        """Whether two flows are behind the same bucket: the answer that detectors are held against."""
        cell = self.cell_of(one)
        return "shared" if cell is not None and cell == self.cell_of(other) else "separate"


@dataclass(frozen=True)
class Plan:
    """The phases of an experiment on one pipeline."""

    phases: tuple[PhasePlan, ...]

    def phase(self, name: str) -> PhasePlan:
        """The phase of that name. Raises :class:`PlanError` when there is none."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise PlanError(f"no phase {name!r}; valid: {', '.join(phase.name for phase in self.phases)}")


def measured_pairs(experiment: ExperimentConfig) -> tuple[tuple[str, str], ...]:
    """Names of every two measured flows, in the order of the file."""
    return tuple(itertools.combinations((flow.name for flow in experiment.flows if flow.measured), 2))


def make_plan(
    experiment: ExperimentConfig, hosts: Mapping[str, HostPort], collector: CollectorEndpoint
) -> Plan:
    """Plan every phase of ``experiment``.

    Raises:
        PlanError: a host without a port, two hosts on one port or address, policers that need too many cells.
        UnsupportedByTargetError: the experiment asks for what its target does not declare.
    """
    target = target_of(experiment)
    _check_hosts(experiment, hosts, collector)
    phases = experiment.effective_phases()
    bases = iter(
        allocate([policer.cells or 1 for phase in phases for policer in phase.policers], POLICER_CELLS)
    )
    common = (*_forwarding(hosts), *_reporting(collector, experiment.telemetry.truncate))
    planned: list[PhasePlan] = []
    for phase in phases:
        policers = tuple(_policer(policer, next(bases), target) for policer in phase.policers)
        entities = (*common, *_policing(phase, policers, hosts))
        planned.append(PhasePlan(phase.name, policers, entities, dict(hosts)))
    return Plan(tuple(planned))


def _check_hosts(
    experiment: ExperimentConfig, hosts: Mapping[str, HostPort], collector: CollectorEndpoint
) -> None:
    missing = [name for name in experiment.hosts if name not in hosts]
    if missing:
        raise PlanError(
            f"no switch port for host {', '.join(missing)}; valid: a port for each host of the experiment"
        )
    for what in ("port", "mac", "ip"):
        users: dict[object, str] = {getattr(collector, what): "collector"}
        for name, host in hosts.items():
            value = getattr(host, what)
            if value in users:
                raise PlanError(f"hosts {users[value]} and {name} both have {what} {value}; valid: one each")
            users[value] = name


def _policer(config: PolicerConfig, base: int, target: Target) -> PolicerPlan:
    rate_bytes_per_s, burst_bytes = (config.rate + 4) // 8, config.burst.bytes_at(config.rate)
    return PolicerPlan(
        name=config.name,
        index=base,
        cells=config.cells or 1,
        rate_bps=config.rate,
        burst_bytes=burst_bytes,
        rate_bytes_per_s=rate_bytes_per_s,
        effective_rate_bps=target.effective_rate_bytes_per_s(rate_bytes_per_s) * 8,
        effective_burst_bytes=target.effective_burst_bytes(burst_bytes),
        config=config,
    )


def _forwarding(hosts: Mapping[str, HostPort]) -> Iterator[Entity]:
    yield MulticastGroup(FLOOD_GROUP, tuple(sorted(host.port for host in hosts.values())))
    for host in hosts.values():
        yield TableEntry(
            "forward", (Match("dst", mac_number(host.mac)),), "set_egress", (("port", host.port),)
        )


def _reporting(collector: CollectorEndpoint, inner_bytes: int) -> Iterator[Entity]:
    yield CloneSession(REPORT_SESSION, (collector.port,))
    args = {
        "src_mac": mac_number(collector.switch_mac),
        "dst_mac": mac_number(collector.mac),
        "src": ip_number(collector.switch_ip),
        "dst": ip_number(collector.ip),
        "src_port": collector.udp_port,
        "dst_port": collector.udp_port,
        "node_id": NODE_ID,
        "inner_bytes": inner_bytes,
    }
    yield TableEntry(
        "collector", (Match("collector", COLLECTOR_ID),), "set_collector", tuple(sorted(args.items()))
    )


def _policing(
    phase: PhaseConfig, policers: tuple[PolicerPlan, ...], hosts: Mapping[str, HostPort]
) -> Iterator[Entity]:
    for order, policer in enumerate(policers):
        for cell in range(policer.index, policer.index + policer.cells):
            yield MeterCell("policer", cell, policer.rate_bytes_per_s, policer.burst_bytes)
        mask = None if policer.cells == 1 else CELL_MASK ^ (policer.cells - 1)
        cells = Match("cell", policer.index, mask)
        yield TableEntry("verdict", (cells, Match("colour", COLOURS["red"])), "drop_packet", priority=1)
        yield TableEntry(
            "report",
            (cells,),
            "report_drops",
            (("collector", COLLECTOR_ID), ("session", REPORT_SESSION)),
            priority=1,
        )
        if policer.config.mode == "shared":
            action = "police_shared"
            args: tuple[tuple[str, int], ...] = (("cell", policer.index), ("watched", 0))
        else:
            action = "police_hashed"
            args = (("base", policer.index), ("mask", policer.cells - 1), ("watched", 0))
        priority = len(phase.policers) - order  # P4Runtime: the larger number wins
        keys = (key for match in policer.config.match for key in _match_keys(match, hosts))
        for key in dict.fromkeys(keys):
            yield TableEntry("classify", key, action, args, priority)


def _match_keys(match: MatchConfig, hosts: Mapping[str, HostPort]) -> Iterator[tuple[Match, ...]]:
    single = {
        "protocol": match.protocol,
        "src_port": match.src_port,
        "dst_port": match.dst_port,
        "dscp": match.dscp,
        # Without this, a later fragment, which has no ports, would be taken for one of port 0.
        "has_ports": 1 if match.src_port is not None or match.dst_port is not None else None,
    }
    rest = [Match(field, value) for field, value in single.items() if value is not None]
    sources = [[Match("src", ip_number(hosts[name].ip))] for name in match.source or ()] or [[]]
    destinations = [[Match("dst", ip_number(hosts[name].ip))] for name in match.destination or ()] or [[]]
    for source, destination in itertools.product(sources, destinations):
        yield tuple(sorted([*source, *destination, *rest], key=lambda item: item.field))


def _meets(flow: FlowKey, match: MatchConfig) -> bool:
    if match.source is not None and flow.source not in match.source:
        return False
    if match.destination is not None and flow.destination not in match.destination:
        return False
    if match.protocol is not None and flow.protocol != match.protocol:
        return False
    if match.dscp is not None and flow.dscp != match.dscp:
        return False
    for wanted, port in ((match.src_port, flow.src_port), (match.dst_port, flow.dst_port)):
        if wanted is not None and port is None:
            raise PlanError(f"which policer {flow.source} → {flow.destination} meets depends on its ports")
        if wanted is not None and wanted != port:
            return False
    return True


def mac_number(mac: str) -> int:
    """A MAC address as the 48-bit number that tables match. Raises :class:`PlanError`."""
    parts = mac.split(":")
    try:
        octets = bytes(int(part, 16) for part in parts)
    except ValueError as error:
        raise PlanError(f"{mac!r} is not a MAC address; valid: such as 02:00:00:00:00:01") from error
    if len(octets) != 6:
        raise PlanError(f"{mac!r} is not a MAC address; valid: such as 02:00:00:00:00:01")
    return int.from_bytes(octets, "big")


def ip_number(address: str) -> int:
    """An IPv4 address as the 32-bit number that tables match. Raises :class:`PlanError`."""
    try:
        return int(ipaddress.IPv4Address(address))
    except ValueError as error:
        raise PlanError(f"{address!r} is not an IPv4 address; valid: such as 10.0.0.1") from error
