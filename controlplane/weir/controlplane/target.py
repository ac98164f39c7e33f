# SPDX-License-Identifier: Apache-2.0
"""What a switch can do, declared, so that an experiment that asks for more fails before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from weir.controlplane.config import ExperimentConfig
from weir.controlplane.errors import UnsupportedByTargetError


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a target offers beside the pipeline itself."""

    port_rate: bool
    """Ports have a shaped egress queue with rate, burst and byte limit."""
    port_delay: bool
    """Ports delay what leaves through them."""
    queue_drops_reported: bool
    """Packets dropped at an egress queue are reported one by one."""


class Target(Protocol):
    """A kind of switch that runs the pipeline and is controlled over P4Runtime."""

    @property
    def name(self) -> str:
        """The target's name in ``switch.target``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    def effective_rate_bytes_per_s(self, rate_bytes_per_s: int) -> int:
        """The policing rate after the target's quantization."""
        ...

    def effective_burst_bytes(self, burst_bytes: int) -> int:
        """The burst after the target's quantization."""
        ...


@dataclass(frozen=True, slots=True)
class Softswitch:
    """The embedded switch (weir-switch): integer token buckets, so rate and burst are what is written."""

    name: str = "softswitch"
    capabilities: Capabilities = Capabilities(port_rate=True, port_delay=True, queue_drops_reported=False)

    def effective_rate_bytes_per_s(self, rate_bytes_per_s: int) -> int:
        """The rate itself."""
        return rate_bytes_per_s

    def effective_burst_bytes(self, burst_bytes: int) -> int:
        """The burst itself."""
        return burst_bytes


TARGETS: Mapping[str, Target] = MappingProxyType({"softswitch": Softswitch()})


def target_of(experiment: ExperimentConfig) -> Target:
    """The experiment's target, once it is clear that it can do what the experiment asks for.

    Raises:
        UnsupportedByTargetError: names the host and the key that the target cannot serve.
    """
    name = experiment.switch.target
    if name not in TARGETS:
        raise UnsupportedByTargetError(f"no target {name!r}; valid: {', '.join(TARGETS)}")
    target = TARGETS[name]
    for host, config in experiment.hosts.items():
        if config.rate is not None and not target.capabilities.port_rate:
            raise UnsupportedByTargetError(
                f"hosts.{host}.rate: target {name} shapes no ports; valid: no rate"
            )
        if config.delay and not target.capabilities.port_delay:
            raise UnsupportedByTargetError(
                f"hosts.{host}.delay: target {name} delays nothing; valid: no delay"
            )
    return target
