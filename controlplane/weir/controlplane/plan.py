# SPDX-License-Identifier: Apache-2.0
"""From an experiment and where its hosts are to the entities of each phase. Pure: nothing is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weir.controlplane.attach import (
    Attachment,
    CollectorEndpoint,
    HostPort,
    check_attachment,
    ip6_number,
    ip_number,
    mac_number,
)
from weir.controlplane.cells import allocate
from weir.controlplane.config import ChangeConfig, ExperimentConfig, MatchConfig, PhaseConfig, Verdict
from weir.controlplane.config.values import LEARNED_FLOWS, POLICER_CELLS
from weir.controlplane.entities import (
    CloneSession,
    Entity,
    Match,
    MulticastGroup,
    PortSettings,
    TableEntry,
)
from weir.controlplane.errors import PlanError
from weir.controlplane.links import links_of
from weir.controlplane.phase_plan import PhasePlan, Step
from weir.controlplane.policer_plan import PolicerPlan, plan_policer
from weir.controlplane.targets import Target, target_of

FLOOD_GROUP = 1  # the pipeline's default action of `forward` floods to this group
FIRST_COLLECTOR = 1  # 0 means none; the mirror session of a collector has the collector's id
NODE_ID = 1
CELL_MASK = POLICER_CELLS - 1
COLOURS: Mapping[str, int] = {"green": 0, "yellow": 1, "red": 2}
PRE_COLOURS: Mapping[str, int] = {"come_in_yellow": 2, "come_in_red": 3}
"""Drop precedence of assured forwarding (RFC 2597) by action of `pre_colour`; precedence 1 is green."""
AF_CLASSES = range(1, 5)


@dataclass(frozen=True)
class Plan:
    """The phases of an experiment on one pipeline."""

    phases: tuple[PhasePlan, ...]
    target: Target
    collectors: int = 1
    """Number of collectors, whose ids begin at FIRST_COLLECTOR."""

    def phase(self, name: str) -> PhasePlan:
        """The phase with that name. Raises :class:`PlanError` if there is none."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise PlanError(f"no phase {name!r}; valid: {', '.join(phase.name for phase in self.phases)}")

    @property
    def single_rate(self) -> bool:
        """Whether the policer meter must be of RFC 2697's type and not of RFC 2698's."""
        return any(policer.config.meter == "sr3c" for phase in self.phases for policer in phase.policers)


def measured_pairs(experiment: ExperimentConfig) -> tuple[tuple[str, str], ...]:
    """The names of all pairs of measured flows, in the order of the file."""
    return tuple(itertools.combinations((flow.name for flow in experiment.flows if flow.measured), 2))


def make_plan(experiment: ExperimentConfig, attachment: Attachment, *, wired: bool = False) -> Plan:
    """Plan every phase of ``experiment``.

    With ``wired``, the delay, jitter, loss and rate of lines are of wires beside the switch.

    Raises:
        PlanError: a host without a port, two hosts on one port or address, policers that need too many cells,
            learned policers of a phase with more flows than the switch holds.
        UnsupportedByTargetError: the experiment needs a capability that its target does not declare.
    """
    target = target_of(experiment, wired=wired)
    check_attachment(experiment, attachment)
    phases = experiment.effective_phases()
    sizes = [policer.meter_cells for phase in phases for policer in phase.policers]
    bases = iter(allocate(sizes, POLICER_CELLS))
    common = (
        *_forwarding(experiment, attachment.hosts, target),
        *_reporting(attachment.collectors, experiment.telemetry.truncate, target),
        *_port_settings(experiment, attachment),
        *_queues(experiment, attachment.hosts),
    )
    planned: list[PhasePlan] = []
    for phase in phases:
        phase_bases = [next(bases) for _ in phase.policers]
        planned.append(_phase(experiment, attachment, phase, phase_bases, common, target))
    return Plan(tuple(planned), target, len(attachment.collectors))


def _phase(
    experiment: ExperimentConfig,
    attachment: Attachment,
    phase: PhaseConfig,
    bases: Sequence[int],
    common: tuple[Entity, ...],
    target: Target,
) -> PhasePlan:
    _check_learned_flows(phase)
    hosts = attachment.hosts
    collectors = {name: number for number, name in enumerate(attachment.collectors, FIRST_COLLECTOR)}
    queued = frozenset(name for name, host in experiment.hosts.items() if host.rate is not None)
    has_links = target.capabilities.links_service

    def planned(policers: Sequence[PolicerPlan], made: Sequence[ChangeConfig]) -> PhasePlan:
        links = links_of(experiment, attachment, made) if has_links else ()
        policing = _policing(policers, hosts, collectors)
        entities = (*common, *links, *policing)
        per_pipe = target.capabilities.ports_per_pipe
        return PhasePlan(phase.name, tuple(policers), entities, dict(hosts), queued, ports_per_pipe=per_pipe)

    policers = [
        plan_policer(policer, base, target) for policer, base in zip(phase.policers, bases, strict=True)
    ]
    start, steps = planned(policers, ()), []
    for number, change in enumerate(phase.changes, start=1):
        policers = [
            plan_policer(change.applied_to(policer.config), policer.index, target)
            if policer.name == change.policer
            else policer
            for policer in policers
        ]
        steps.append(Step(change.at, change, planned(policers, phase.changes[:number])))
    return replace(start, steps=tuple(steps))


def _check_learned_flows(phase: PhaseConfig) -> None:
    asked = {policer.name: policer.flows for policer in phase.policers if policer.flows is not None}
    if sum(asked.values()) > LEARNED_FLOWS:
        raise PlanError(
            f"phase {phase.name}: flows of {', '.join(asked)}: {sum(asked.values())} in sum, more than the "
            f"switch's table of learned flows holds; valid: at most {LEARNED_FLOWS}"
        )


def _forwarding(
    experiment: ExperimentConfig, hosts: Mapping[str, HostPort], target: Target
) -> Iterator[Entity]:
    yield MulticastGroup(FLOOD_GROUP, tuple(sorted(host.port for host in hosts.values())))
    for name, host in hosts.items():
        # Without deflection, packets for a queue are numbered, so that gaps show how many it dropped.
        queue = experiment.hosts[name].rate is not None
        numbered = queue and not target.capabilities.queue_drops_reported
        action = "set_numbered_egress" if numbered else "set_egress"
        yield TableEntry("forward", (Match("dst", mac_number(host.mac)),), action, (("port", host.port),))


def _port_settings(experiment: ExperimentConfig, attachment: Attachment) -> Iterator[Entity]:
    ports = {name: host.port for name, host in attachment.hosts.items()}
    ports |= {name: collector.port for name, collector in attachment.collectors.items()}
    for name, asked in experiment.switch.port_settings.items():
        yield PortSettings(ports[name], asked.speed, asked.fec, asked.autonegotiation)


def _reporting(
    collectors: Mapping[str, CollectorEndpoint], inner_bytes: int, target: Target
) -> Iterator[Entity]:
    header_bytes = target.capabilities.mirror_header_bytes
    for number, collector in enumerate(collectors.values(), FIRST_COLLECTOR):
        yield CloneSession(number, (collector.port,), inner_bytes + header_bytes if header_bytes else 0)
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
        key = (Match("collector", number),)
        yield TableEntry("collector", key, "set_collector", tuple(sorted(args.items())))


def _queues(experiment: ExperimentConfig, hosts: Mapping[str, HostPort]) -> Iterator[Entity]:
    """Report the packets that full queues drop to the first collector."""
    args = (("collector", FIRST_COLLECTOR), ("session", FIRST_COLLECTOR))
    for name, host in experiment.hosts.items():
        if host.rate is not None:
            yield TableEntry("report_queue", (Match("port", hosts[name].port),), "report_queue_drops", args)


def _policing(
    policers: Sequence[PolicerPlan], hosts: Mapping[str, HostPort], collectors: Mapping[str, int]
) -> Iterator[Entity]:
    for order, policer in enumerate(policers):
        for cell in range(policer.index, policer.index + policer.cells):
            yield policer.meter_cell(cell)
        mask = None if policer.cells == 1 else CELL_MASK ^ (policer.cells - 1)
        cells = Match("cell", policer.index, mask)
        for colour, number in COLOURS.items():
            verdict = _verdict(getattr(policer.config.verdict, colour))
            if verdict is not None:
                yield TableEntry("verdict", (cells, Match("colour", number)), *verdict, priority=1)
        if policer.config.colour_aware:
            yield from _pre_colours(cells)
        yield from _reports(policer, cells, collectors)
        action, args = _classify_action(policer)
        priority = len(policers) - order  # in P4Runtime the larger number wins
        ipv4 = {name: ip_number(host.ip) for name, host in hosts.items()}
        ipv6 = {name: ip6_number(host.ip6) for name, host in hosts.items() if host.ip6 is not None}
        for table, addresses in (("classify", ipv4), ("classify_ipv6", ipv6)):
            keys = (key for match in policer.config.match for key in _match_keys(match, addresses))
            for key in dict.fromkeys(keys):
                yield TableEntry(table, key, action, args, priority)


def _pre_colours(cells: Match) -> Iterator[TableEntry]:
    """AFcp is codepoint 8c + 2p (RFC 2597, section 6); no other DSCP has a drop precedence."""
    for action, precedence in PRE_COLOURS.items():
        for af_class in AF_CLASSES:
            dscp = Match("dscp", af_class << 3 | precedence << 1)
            yield TableEntry("pre_colour", (cells, dscp), action, priority=1)


def _verdict(verdict: Verdict) -> tuple[str, tuple[tuple[str, int], ...]] | None:
    """Action and arguments; None for pass, which needs no entry."""
    match verdict.kind:
        case "pass":
            return None
        case "drop":
            return "drop_packet", ()
        case "remark_dscp":
            return "remark_dscp", (("dscp", verdict.dscp or 0),)
        case "mark_ce" | "mark_ce_or_drop":
            return "mark_ce", (("drop_not_ect", int(verdict.kind == "mark_ce_or_drop")),)


def _reports(policer: PolicerPlan, cells: Match, collectors: Mapping[str, int]) -> Iterator[Entity]:
    reports = policer.config.reports
    number = FIRST_COLLECTOR if reports.collector is None else collectors[reports.collector]
    collector = (("collector", number), ("session", number))
    if reports.drops:
        yield TableEntry("report", (cells,), "report_drops", collector, priority=1)
    if reports.enqueues is not None:
        args = (*collector, ("every", reports.enqueues), ("congested_at", reports.congested_at))
        yield TableEntry("report_enqueues", (cells,), "report_enqueued", tuple(sorted(args)), priority=1)


def _classify_action(policer: PolicerPlan) -> tuple[str, tuple[tuple[str, int], ...]]:
    watched = ("watched", int(policer.config.reports.enqueues is not None))
    if policer.config.mode == "shared":
        return "police_shared", (("cell", policer.index), watched)
    action = "police_hashed" if policer.config.mode == "per_flow_hashed" else "police_learned"
    return action, (("base", policer.index), ("mask", policer.config.hash_cells - 1), watched)


def _match_keys(match: MatchConfig, addresses: Mapping[str, int]) -> Iterator[tuple[Match, ...]]:
    """The keys of a match in the table for ``addresses``; hosts without an address there are left out."""
    single = {
        "protocol": match.protocol,
        "src_port": match.src_port,
        "dst_port": match.dst_port,
        "dscp": match.dscp,
        # Later fragments have no ports, and would match port 0 otherwise.
        "has_ports": 1 if match.src_port is not None or match.dst_port is not None else None,
    }
    rest = [Match(field, value) for field, value in single.items() if value is not None]

    def of(field: str, names: Sequence[str] | None) -> list[list[Match]]:
        if names is None:
            return [[]]
        return [[Match(field, addresses[name])] for name in names if name in addresses]

    for source, destination in itertools.product(of("src", match.source), of("dst", match.destination)):
        yield tuple(sorted([*source, *destination, *rest], key=lambda item: item.field))
