# SPDX-License-Identifier: Apache-2.0
"""Refuses experiments that `weir apply` supports but `weir run` does not, before a run starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from weir.controlplane.attach import SUBNET, SWITCH_IP, attachment_of
from weir.controlplane.config import COLLECTOR, ConfigError, ExperimentConfig, Location, Source
from weir.controlplane.errors import ControlPlaneError
from weir.controlplane.plan import make_plan, measured_pairs
from weir.controlplane.targets import TARGETS, lacks, lacks_in_a_run
from weir.rundir.manifest import Truth
from weir.runner.traffic import flow_key
from weir.topo.bmv2proc import bmv2_problem
from weir.topo.cards import card_problem
from weir.topo.sandbox import SandboxError
from weir.topo.sandbox_init import PRIVATE_FOLDER
from weir.topo.tools import ToolMissingError
from weir.topo.traffic import PortAllocator

RUN_TARGETS = ("softswitch", "bmv2")
"""The switches that a run starts."""


_SAID: dict[Truth, str] = {"shared": "share a bucket", "separate": "share none"}


@dataclass(frozen=True)
class _Refusal:
    location: Location
    where: str
    message: str


def check_runnable(
    experiment: ExperimentConfig, config: Path, source: Source | None = None, *, testbed: bool = False
) -> None:
    """Raise ConfigError with a line for each key of the file ``config`` that a run does not support.

    With ``source``, its text, each line has the number of the key's. On a `testbed`, switch and hosts are not
    the run's; :func:`weir.testbed.joined.problems` has what keeps it from running there.
    """
    refusals = list(_of_everywhere(experiment) if testbed else _refusals(experiment))
    if source is not None:
        refusals.sort(key=lambda refusal: source.line_of(refusal.location))
    lines = [
        f"{config}{'' if source is None else f':{source.line_of(refusal.location)}'}: "
        f"{refusal.where}: {refusal.message}"
        for refusal in refusals
    ]
    if lines:
        raise ConfigError(lines)


def check_virtual(experiment: ExperimentConfig, config: Path) -> None:
    """Raise ConfigError if the experiment's switch has no virtual time, which the command line asks for."""
    problem = _real_only(experiment)
    if problem is not None:
        raise ConfigError([f"{config}: --time virtual: {problem}"])


def check_place(runs: Path) -> None:
    """Raise ConfigError if the directories of runs below `runs` are not seen in a sandbox."""
    place = runs.resolve()
    if place.is_relative_to(PRIVATE_FOLDER):
        raise ConfigError(
            [
                f"{place}: a run cannot write there, as its sandbox has a {PRIVATE_FOLDER} of its own; "
                f"valid: --runs with a directory that is not below {PRIVATE_FOLDER}"
            ]
        )


def check_machine(experiment: ExperimentConfig, config: Path, source: Source | None = None) -> None:
    """Check that this machine has what the experiment's switch needs beyond weir.

    Raises:
        ToolMissingError: the switch is no part of weir and not installed here.
        ConfigError: a run cannot have a network card that leads to a switch elsewhere.
        SandboxError: this user must not take network cards.
    """
    if experiment.switch.address is not None:
        _check_cards(experiment, config, source)
        return
    problem = bmv2_problem() if experiment.switch.target == "bmv2" else None
    if problem is not None:
        raise ToolMissingError(
            f"switch.target: bmv2: {problem}; valid: bmv2's official packages, or target: softswitch"
        )


def _refuse(message: str, *location: str | int, where: str | None = None) -> _Refusal:
    return _Refusal(location, where or ".".join(map(str, location)), message)


def _refusals(experiment: ExperimentConfig) -> Iterator[_Refusal]:
    target, address = experiment.switch.target, experiment.switch.address
    if target not in RUN_TARGETS and address is None:
        yield _refuse(
            f"a run starts {' or '.join(RUN_TARGETS)}, not {target}; "
            f"valid: {', '.join(RUN_TARGETS)}, or switch.address of a switch that runs",
            "switch",
            "target",
        )
    elif target != "softswitch":
        yield from _beyond(experiment, target)
    if address is not None:
        yield from _elsewhere(experiment)
    not_virtual = _real_only(experiment)
    if experiment.time == "virtual" and not_virtual is not None:
        yield _refuse(not_virtual, "time")
    if experiment.kernel is not None and experiment.time != "virtual":
        yield _refuse(
            "only a run in virtual time has a kernel; valid: leave it out, or time: virtual", "kernel"
        )
    for name, host in experiment.hosts.items():
        for key, value in (("mac", host.mac), ("port", host.port)):
            if value is not None:
                yield _refuse("assigned by the run; valid: leave it out", "hosts", name, key)
        if host.address is not None and not _usable(host.address):
            message = f"{host.address}; valid: in {SUBNET}, but not {SWITCH_IP}"
            yield _refuse(message, "hosts", name, "address")
    yield from _of_everywhere(experiment)


def _of_everywhere(experiment: ExperimentConfig) -> Iterator[_Refusal]:
    """Refusals that depend neither on the switch nor on the hosts' being the run's."""
    for name, host in experiment.hosts.items():
        if host.address6 is not None and not _usable6(host.address6):
            message = f"{host.address6}; valid: a unicast address that is not link-local"
            yield _refuse(message, "hosts", name, "address6")
    for index, phase in enumerate(experiment.effective_phases()):
        base: Location = ("policers",) if experiment.phases is None else ("phases", index, "policers")
        for number, policer in enumerate(phase.policers):
            if not policer.reports.drops:
                yield _refuse(
                    "a run explains every loss by its report; valid: true",
                    *(*base, number, "reports", "drops"),
                    where=f"policer {policer.name} of phase {phase.name}: reports.drops",
                )
    # Imported here: detectors take seconds to load, and runs of campaigns import this module without checks.
    from weir.analysis.detectors import PAIR_DETECTORS

    for index, name in enumerate(experiment.analysis.detectors):
        if name not in PAIR_DETECTORS:
            valid = ", ".join(PAIR_DETECTORS)
            yield _refuse(
                f"no detector {name!r} of pairs; valid: {valid}",
                *("analysis", "detectors", index),
                where=f"analysis.detectors[{index}]",
            )
    if experiment.telemetry.collectors:
        message = "a run starts its own collector; valid: leave them out"
        yield _refuse(message, "telemetry", "collectors")
    yield from _changing_truths(experiment)


def _changing_truths(experiment: ExperimentConfig) -> Iterator[_Refusal]:
    """Changes after which two measured flows share a policer and before which they do not, or vice versa."""
    pairs = measured_pairs(experiment)
    changes = (change for phase in experiment.effective_phases() for change in phase.changes)
    if not pairs or all(change.match is None for change in changes):
        return
    try:
        wired = experiment.switch.target != "softswitch"
        plan = make_plan(experiment, attachment_of(experiment), wired=wired)
    except ControlPlaneError:
        return  # the run plans it again and fails with this error before its first packet
    ports = PortAllocator()
    for index, phase in enumerate(plan.phases):
        # In the order in which the run gives ports to its flows.
        keys = {flow.name: flow_key(flow, *ports.next()) for flow in experiment.flows}
        for _ in experiment.background:
            ports.next()
        for one, other in pairs:
            before, *later = phase.truths(keys[one], keys[other])
            number = next((number for number, truth in enumerate(later) if truth != before), None)
            if number is not None:
                yield _refuse(
                    f"the measured flows {one} and {other} {_SAID[before]} before this change, and "
                    f"{_SAID[later[number]]} after it; valid: two phases, or only one of them measured",
                    *("phases", index, "changes", number),
                    where=f"phases[{index}].changes[{number}].match",
                )


def _beyond(experiment: ExperimentConfig, target: str) -> Iterator[_Refusal]:
    """What the switch cannot do; wires to its hosts delay and lose frames in its place."""
    for lack in (*lacks(experiment, TARGETS[target].capabilities, wired=True), *lacks_in_a_run(experiment)):
        yield _Refusal(lack.location, lack.where, f"{lack.message} (target {target})")


def _elsewhere(experiment: ExperimentConfig) -> Iterator[_Refusal]:
    """What a run needs to know of a switch that runs already."""
    switch = experiment.switch
    without = [name for name in (*experiment.hosts, COLLECTOR) if name not in switch.ports]
    if without:
        yield _Refusal(
            ("switch", "ports"),
            "switch.ports",
            f"no cable to {', '.join(without)}; valid: port and interface of each host and of {COLLECTOR}",
        )
    if switch.target == "bmv2" and switch.thrift_port is None:
        yield _Refusal(
            ("switch", "thrift_port"),
            "switch.thrift_port",
            "missing: bmv2 drops bursts of 64 packets without a trace unless its queues are set; "
            "valid: such as 9090, of a bmv2 on this machine",
        )


def _real_only(experiment: ExperimentConfig) -> str | None:
    """The reason why the experiment's switch has no virtual time; None if it has."""
    if experiment.switch.address is not None:
        return "a switch that runs already has its own clock; valid: real, or no switch.address"
    if experiment.switch.target == "bmv2":
        return "bmv2 has not been tried in virtual time; valid: real, or target: softswitch (target bmv2)"
    return None


def _check_cards(experiment: ExperimentConfig, config: Path, source: Source | None) -> None:
    lines = []
    for name, cable in experiment.switch.ports.items():
        problem = card_problem(cable.interface)
        if problem is not None:
            line = "" if source is None else f":{source.line_of(('switch', 'ports', name, 'interface'))}"
            lines.append(f"{config}{line}: switch.ports.{name}.interface: {problem}")
    if lines:
        raise ConfigError(lines)
    if os.geteuid() != 0:
        raise SandboxError(
            "switch.ports: the run takes network cards of this machine, which needs root; "
            "valid: the same command with sudo"
        )


def _usable(address: str) -> bool:
    edges = {str(SUBNET.network_address), str(SUBNET.broadcast_address), SWITCH_IP}
    return IPv4Address(address) in SUBNET and address not in edges


def _usable6(text: str) -> bool:
    address = IPv6Address(text)
    special = (address.is_multicast, address.is_link_local, address.is_loopback, address.is_unspecified)
    return not any(special) and address.ipv4_mapped is None
