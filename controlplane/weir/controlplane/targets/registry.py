# SPDX-License-Identifier: Apache-2.0
"""The targets by name, and the check that an experiment's target has the capabilities it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from weir.controlplane.config import ExperimentConfig, HostConfig, Location
from weir.controlplane.errors import UnsupportedByTargetError
from weir.controlplane.targets.bmv2 import Bmv2
from weir.controlplane.targets.softswitch import Softswitch
from weir.controlplane.targets.target import Capabilities, Target
from weir.controlplane.targets.tofino import TOFINO, TOFINO2

TARGETS: Mapping[str, Target] = MappingProxyType(
    {target.name: target for target in (Softswitch(), Bmv2(), TOFINO, TOFINO2)}
)


@dataclass(frozen=True, slots=True)
class Lack:
    """A feature that an experiment needs and its target lacks."""

    location: Location
    where: str
    """The key, or the policer and its phase, for the reader."""
    message: str
    """The missing capability, and what is valid instead."""


def target_of(experiment: ExperimentConfig, *, wired: bool = False) -> Target:
    """The experiment's target, after checking that it has the capabilities that the experiment needs.

    Raises:
        UnsupportedByTargetError: it lacks one; the text names the key.
    """
    name = experiment.switch.target
    if name not in TARGETS:
        raise UnsupportedByTargetError(f"no target {name!r}; valid: {', '.join(TARGETS)}")
    target = TARGETS[name]
    for lack in lacks(experiment, target.capabilities, wired=wired):
        raise UnsupportedByTargetError(f"{lack.where}: {lack.message} (target {name})")
    return target


def lacks(experiment: ExperimentConfig, has: Capabilities, *, wired: bool = False) -> Iterator[Lack]:
    """Every feature that the experiment needs beyond ``has``.

    With ``wired``, wires between the switch and its hosts have the delay, jitter, loss and rate of the lines.
    """
    for name, host in experiment.hosts.items():
        yield from _of_host(name, host, has, wired=wired)
    if (experiment.telemetry.truncate + has.mirror_header_bytes) % has.mirror_multiple_bytes:
        multiple = has.mirror_multiple_bytes
        message = f"reports are cut at multiples of {multiple} bytes; valid: a multiple of {multiple} B"
        yield Lack(("telemetry", "truncate"), "telemetry.truncate", message)
    for index, phase in enumerate(experiment.effective_phases()):
        for number, change in enumerate(phase.changes):
            if change.host is not None and (wired or not has.links_service):
                message = "links do not change during a phase; valid: another phase, or changes of policers"
                where = f"change {number + 1} of phase {phase.name}"
                yield Lack(("phases", index, "changes", number, "host"), where, message)
        base: Location = ("policers",) if experiment.phases is None else ("phases", index, "policers")
        for number, policer in enumerate(phase.policers):
            location, where = (*base, number), f"policer {policer.name} of phase {phase.name}"
            if policer.meter not in has.meters:
                message = f"no {policer.meter} meter; valid: {', '.join(sorted(has.meters))}"
                yield Lack((*location, "meter"), where, message)
            if policer.colour_aware and not has.colour_aware:
                message = "colour_aware: meters are colour-blind; valid: colour_aware: false"
                yield Lack((*location, "colour_aware"), where, message)
            if policer.length not in has.lengths:
                message = f"meters do not count {policer.length}; valid: {', '.join(sorted(has.lengths))}"
                yield Lack((*location, "length"), where, message)


def lacks_in_a_run(experiment: ExperimentConfig) -> Iterator[Lack]:
    """Keys that a run cannot have, beyond :func:`lacks`: it sets no queues on a Tofino."""
    for name, host in experiment.hosts.items():
        if host.rate is not None and experiment.switch.target in (TOFINO.name, TOFINO2.name):
            message = "a run sets no queues on a Tofino; valid: no rate"
            yield Lack(("hosts", name, "rate"), f"hosts.{name}.rate", message)


def _of_host(name: str, host: HostConfig, has: Capabilities, *, wired: bool) -> Iterator[Lack]:
    def lack(key: str, message: str) -> Lack:
        return Lack(("hosts", name, key), f"hosts.{name}.{key}", message)

    if host.rate is not None and not (has.port_rate or has.port_queue_packets):
        yield lack("rate", "ports are not shaped; valid: no rate")
    if host.burst is not None and not has.port_rate:
        yield lack("burst", "queues are served in packets and have no burst; valid: no burst")
    if host.queue is not None and not has.port_queue_bytes:
        yield lack("queue", "queues are limited in packets; valid: queue_packets")
    if host.queue_packets is not None and not has.port_queue_packets:
        yield lack("queue_packets", "queues are not limited in packets; valid: queue")
    if host.reorder and (wired or not has.links_service):
        yield lack("reorder", "frames keep their order; valid: reorder: false")
    if wired:
        return
    if (host.delay or host.jitter) and not has.port_delay:
        yield lack("delay", "ports delay nothing; valid: no delay and jitter")
    if host.line_rate and not has.links_service:
        yield lack("line_rate", "ports have the rate that the switch gives them; valid: no line_rate")
    if host.loss and not has.port_delay:
        yield lack("loss", "ports lose nothing at random; valid: no loss")
