# SPDX-License-Identifier: Apache-2.0
"""The entities on the switch during a phase and after each of its changes, and the policer of each flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from weir.controlplane.attach import HostPort
from weir.controlplane.cells import hashed_cell
from weir.controlplane.config import ChangeConfig
from weir.controlplane.entities import Entity, Link
from weir.controlplane.errors import PlanError
from weir.controlplane.policer_plan import PolicerPlan
from weir.rundir.manifest import Truth
from weir.rundir.meeting import Header, Match, UnknownPortError, first_met

TCP = 6


@dataclass(frozen=True, slots=True)
class FlowKey:
    """A flow between two hosts, by their names; a port that is not known yet is None."""

    source: str
    destination: str
    protocol: int = TCP
    src_port: int | None = None
    dst_port: int | None = None
    dscp: int = 0
    ip_version: int = 4


@dataclass(frozen=True)
class PhasePlan:
    """The entities on the switch from the start of a phase, or from one of its changes, on."""

    name: str
    policers: tuple[PolicerPlan, ...]
    entities: tuple[Entity, ...]
    hosts: Mapping[str, HostPort]
    queued: frozenset[str] = frozenset()
    """Hosts whose switch port has a shaped queue."""
    steps: tuple[Step, ...] = ()
    """Changes later in the phase, in order of time."""
    ports_per_pipe: int = 0
    """Ports of the switch that share the state of a meter; 0: all do."""

    @property
    def notes(self) -> tuple[str, ...]:
        """A note for each rounded value here, and for each shared policer that several pipes have."""
        plans = (self, *(step.plan for step in self.steps))
        notes = (
            note
            for plan in plans
            for policer in plan.policers
            for note in (*policer.notes, *plan._notes_of_pipes(policer))
        )
        return tuple(dict.fromkeys(notes))

    def pipe_of(self, host: str) -> int:
        """The pipe through which a host's packets come in."""
        return self.hosts[host].port // self.ports_per_pipe if self.ports_per_pipe else 0

    def _notes_of_pipes(self, policer: PolicerPlan) -> Iterator[str]:
        """A warning if packets of a shared policer come in through several pipes."""
        if policer.config.mode != "shared":
            return
        names: set[str] = set()
        for match in policer.config.match:
            # A host that is the only destination sends nothing to itself.
            itself = set(match.destination or ()) if len(match.destination or ()) == 1 else set()
            names |= set(match.source or self.hosts) - itself
        pipes = sorted({self.pipe_of(name) for name in names})
        if len(pipes) > 1:
            yield (
                f"warning: policer {policer.name}: its packets come in through ports of pipes "
                f"{', '.join(map(str, pipes))}, each of which polices separately: up to {len(pipes)} times "
                "the rate passes; valid: senders at ports of one pipe"
            )

    def link_to(self, host: str) -> Link:
        """The link of the port that a host is behind, on a switch that has links."""
        port = self.hosts[host].port
        return next(entity for entity in self.entities if isinstance(entity, Link) and entity.port == port)

    def policer_of(self, flow: FlowKey) -> PolicerPlan | None:
        """The first policer that matches the flow, or None.

        Raises:
            PlanError: a match names ports, and the flow's are not known.
        """
        header = Header(
            self.hosts[flow.source].address(flow.ip_version),
            self.hosts[flow.destination].address(flow.ip_version),
            flow.protocol,
            flow.src_port,
            flow.dst_port,
            flow.dscp,
        )
        try:
            return first_met(((policer, self.matches(policer)) for policer in self.policers), header)
        except UnknownPortError as error:
            raise PlanError(
                f"which policer {flow.source} → {flow.destination} meets depends on its ports"
            ) from error

    def matches(self, policer: PolicerPlan) -> tuple[Match, ...]:
        """The traffic that meets a policer, hosts as their addresses."""
        return tuple(
            Match(
                src=self._addresses(match.source),
                dst=self._addresses(match.destination),
                protocol=match.protocol,
                src_port=match.src_port,
                dst_port=match.dst_port,
                dscp=match.dscp,
            )
            for match in policer.config.match
        )

    def _addresses(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if names is None else tuple(ip for name in names for ip in self.hosts[name].addresses)

    def cell_of(self, flow: FlowKey) -> int | None:
        """The meter cell of the flow's packets, or None. Raises as :meth:`policer_of`.

        For a learned policer, this is the hashed cell that is used until the flow gets its own.
        """
        policer = self.policer_of(flow)
        if policer is None or policer.config.mode == "shared":
            return None if policer is None else policer.index
        if flow.src_port is None or flow.dst_port is None:
            raise PlanError(
                f"which cell of {policer.name} {flow.source} → {flow.destination} meets depends on its ports"
            )
        return hashed_cell(
            policer.index,
            policer.config.hash_cells,
            self.hosts[flow.source].address(flow.ip_version),
            self.hosts[flow.destination].address(flow.ip_version),
            flow.protocol,
            flow.src_port,
            flow.dst_port,
        )

    def truth(self, one: FlowKey, other: FlowKey) -> Truth:
        """Whether two flows share a bucket: the ground truth with which detectors are compared.

        Flows of a learned policer have separate buckets, provided that it has enough cells, and so have those
        that come in through different pipes. Two flows without a policer share a bucket if they wait in the
        same shaped queue.

        Raises:
            PlanError: the answer changes in the middle of the phase.
        """
        answers = self.truths(one, other)
        if len(set(answers)) > 1:
            raise PlanError(
                f"whether {one.source} → {one.destination} and {other.source} → {other.destination} share a "
                f"policer changes in phase {self.name}; valid: measured flows of one answer, or two phases"
            )
        return answers[0]

    def truths(self, one: FlowKey, other: FlowKey) -> tuple[Truth, ...]:
        """The truth about two flows at the start of the phase and after each of its changes."""
        return tuple(plan._truth(one, other) for plan in (self, *(step.plan for step in self.steps)))

    def _truth(self, one: FlowKey, other: FlowKey) -> Truth:
        policer = self.policer_of(one)
        if policer is None and self.policer_of(other) is None:
            same_queue = one.destination == other.destination and one.destination in self.queued
            return "shared" if same_queue else "separate"
        if policer is not None and policer.config.mode == "per_flow_learned" and one != other:
            return "separate"
        if self.pipe_of(one.source) != self.pipe_of(other.source):
            return "separate"
        cell = self.cell_of(one)
        return "shared" if cell is not None and cell == self.cell_of(other) else "separate"


@dataclass(frozen=True)
class Step:
    """A change within a phase, and the plan from then on."""

    at_ns: int
    change: ChangeConfig
    plan: PhasePlan
