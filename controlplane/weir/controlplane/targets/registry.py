# SPDX-License-Identifier: Apache-2.0
"""The targets by name, and the check that an experiment's target has the capabilities it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from weir.controlplane.config import ExperimentConfig
from weir.controlplane.errors import UnsupportedByTargetError
from weir.controlplane.targets.bmv2 import Bmv2
from weir.controlplane.targets.softswitch import Softswitch
from weir.controlplane.targets.target import Capabilities, Target
from weir.controlplane.targets.tofino import TOFINO, TOFINO2

TARGETS: Mapping[str, Target] = MappingProxyType(
    {target.name: target for target in (Softswitch(), Bmv2(), TOFINO, TOFINO2)}
)


def target_of(experiment: ExperimentConfig) -> Target:
    """The experiment's target, after checking that it has the capabilities that the experiment needs.

    Raises:
        UnsupportedByTargetError: it lacks one; the text names the key.
    """
    name = experiment.switch.target
    if name not in TARGETS:
        raise UnsupportedByTargetError(f"no target {name!r}; valid: {', '.join(TARGETS)}")
    target = TARGETS[name]
    for problem in _missing(experiment, target.capabilities):
        raise UnsupportedByTargetError(f"{problem} (target {name})")
    return target


def _missing(experiment: ExperimentConfig, has: Capabilities) -> Iterator[str]:
    for name, host in experiment.hosts.items():
        at = f"hosts.{name}"
        if host.rate is not None and not (has.port_rate or has.port_queue_packets):
            yield f"{at}.rate: ports are not shaped; valid: no rate"
        if host.burst is not None and not has.port_rate:
            yield f"{at}.burst: queues are served in packets and have no burst; valid: no burst"
        if host.queue is not None and not has.port_queue_bytes:
            yield f"{at}.queue: queues are limited in packets; valid: queue_packets"
        if host.queue_packets is not None and not has.port_queue_packets:
            yield f"{at}.queue_packets: queues are not limited in packets; valid: queue"
        if (host.delay or host.jitter) and not has.port_delay:
            yield f"{at}.delay: ports delay nothing; valid: no delay and jitter"
        if host.line_rate and not has.links_service:
            yield f"{at}.line_rate: ports have the rate that the switch gives them; valid: no line_rate"
        if host.loss and not has.port_delay:
            yield f"{at}.loss: ports lose nothing at random; valid: no loss"
    for phase in experiment.effective_phases():
        for policer in phase.policers:
            at = f"policer {policer.name} of phase {phase.name}"
            if policer.meter not in has.meters:
                yield f"{at}: no {policer.meter} meter; valid: {', '.join(sorted(has.meters))}"
            if policer.colour_aware and not has.colour_aware:
                yield f"{at}: colour_aware: meters are colour-blind; valid: colour_aware: false"
            if policer.length not in has.lengths:
                yield f"{at}: meters do not count {policer.length}; valid: {', '.join(sorted(has.lengths))}"
