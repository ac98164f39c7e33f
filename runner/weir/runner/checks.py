# SPDX-License-Identifier: Apache-2.0
"""Refuses experiments that `weir apply` supports but `weir run` does not, before a run starts."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from weir.controlplane.attach import SUBNET, SWITCH_IP
from weir.controlplane.config import ConfigError, ExperimentConfig


def check_runnable(experiment: ExperimentConfig, config: Path) -> None:
    """Raise ConfigError with a line for each key of the file ``config`` that a run does not support."""
    lines = [f"{config}: {problem}" for problem in _problems(experiment)]
    if lines:
        raise ConfigError(lines)


def _problems(experiment: ExperimentConfig) -> Iterator[str]:
    target = experiment.switch.target
    if target != "softswitch":
        yield (
            f"switch.target: a run starts weir-switch, not {target}; "
            "valid: softswitch, or `weir apply` to a running switch"
        )
    if experiment.kernel is not None and experiment.time != "virtual":
        yield "kernel: only a run in virtual time has a kernel; valid: leave it out, or time: virtual"
    for name, host in experiment.hosts.items():
        if host.address6 is not None and not _usable6(host.address6):
            yield f"hosts.{name}.address6: {host.address6}; valid: a unicast address that is not link-local"
        for key, value in (("mac", host.mac), ("port", host.port)):
            if value is not None:
                yield f"hosts.{name}.{key}: assigned by the run; valid: leave it out"
        if host.address is not None and not _usable(host.address):
            yield f"hosts.{name}.address: {host.address}; valid: in {SUBNET}, but not {SWITCH_IP}"
    for phase in experiment.effective_phases():
        for policer in phase.policers:
            if not policer.reports.drops:
                at = f"policer {policer.name} of phase {phase.name}: reports.drops"
                yield f"{at}: a run explains every loss by its report; valid: true"
    # Imported here: detectors take seconds to load, and runs of campaigns import this module without checks.
    from weir.analysis.detectors import PAIR_DETECTORS

    for index, name in enumerate(experiment.analysis.detectors):
        if name not in PAIR_DETECTORS:
            valid = ", ".join(PAIR_DETECTORS)
            yield f"analysis.detectors[{index}]: no detector {name!r} of pairs; valid: {valid}"
    if experiment.telemetry.collectors:
        yield "telemetry.collectors: a run starts its own collector; valid: leave them out"


def _usable(address: str) -> bool:
    edges = {str(SUBNET.network_address), str(SUBNET.broadcast_address), SWITCH_IP}
    return IPv4Address(address) in SUBNET and address not in edges


def _usable6(text: str) -> bool:
    address = IPv6Address(text)
    special = (address.is_multicast, address.is_link_local, address.is_loopback, address.is_unspecified)
    return not any(special) and address.ipv4_mapped is None
