# SPDX-License-Identifier: Apache-2.0
"""Stratum's chassis configuration for an experiment on a Tofino: ports and shaped queues.

The format is the text of Stratum's ChassisConfig and TofinoConfig (hal/lib/common/common.proto; examples in
hal/bin/barefoot/README.run.md). Queue limits are in cells of the traffic manager: 80 B, on Tofino 2 176 B.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weir.controlplane.attach import HostPort
from weir.controlplane.config import ExperimentConfig, queue_bytes
from weir.controlplane.config.values import FRAME_BYTES
from weir.controlplane.errors import PlanError

CELL_BYTES: Mapping[str, int] = {"tofino": 80, "tofino2": 176}
_NODE = 1
_DEFAULT_BURST_NS = 1_000_000  # as on the embedded switch: 1 ms at the rate, at least two frames


@dataclass(frozen=True, slots=True)
class Panel:
    """A host's front-panel port: cage, channel (0: all lanes) and speed."""

    port: int
    channel: int
    speed_bps: int


def chassis_text(
    experiment: ExperimentConfig, hosts: Mapping[str, HostPort], panels: Mapping[str, Panel]
) -> str:
    """The configuration; without ``panels`` only its vendor_config, to be merged into one that has the ports.

    Raises:
        PlanError: ``panels`` has some of the hosts and not all.
    """
    missing = [name for name in hosts if panels and name not in panels]
    if missing:
        raise PlanError(f"no front-panel port for {', '.join(missing)}; valid: one for each host, or none")
    parts: list[tuple[str, Any]] = []
    if panels:
        parts.append(("description", f'"{experiment.name}"'))
        parts.append(("nodes", [("id", _NODE), ("slot", 1), ("index", 1)]))
        parts += [("singleton_ports", _port(name, hosts[name].port, panels[name])) for name in hosts]
    queues = [
        ("queue_configs", _queue(experiment, hosts[name].port, name))
        for name, host in experiment.hosts.items()
        if host.rate is not None
    ]
    if queues:
        qos = ("node_id_to_qos_config", [("key", _NODE), ("value", queues)])
        parts.append(("vendor_config", [("tofino_config", [qos])]))
    return "".join(f"{line}\n" for part in parts for line in _lines(part, 0))


def _port(name: str, number: int, panel: Panel) -> list[tuple[str, Any]]:
    channel = [("channel", panel.channel)] if panel.channel else []
    return [
        ("id", number),
        ("name", f'"{name}"'),
        ("slot", 1),
        ("port", panel.port),
        *channel,
        ("speed_bps", panel.speed_bps),
        ("config_params", [("admin_state", "ADMIN_STATE_ENABLED")]),
        ("node", _NODE),
    ]


def _queue(experiment: ExperimentConfig, port: int, name: str) -> list[tuple[str, Any]]:
    host = experiment.hosts[name]
    rate = host.rate or 0
    burst = host.burst.bytes_at(rate) if host.burst else rate * _DEFAULT_BURST_NS // (8 * 10**9)
    mapping: list[tuple[str, Any]] = [
        ("queue_id", 0),
        ("priority", "PRIO_0"),
        ("weight", 1),
        ("minimum_guaranteed_cells", 0),
        ("pool", "EGRESS_APP_POOL_0"),
    ]
    if host.queue is not None:
        cells = max(1, queue_bytes(experiment, name) // CELL_BYTES[experiment.switch.target])
        # Without a burst absorption factor the limit is static: it does not depend on other queues.
        mapping += [("base_use_limit", cells), ("baf", "BAF_DISABLE"), ("hysteresis", 0)]
    shaper = [("rate_bps", rate), ("burst_bytes", max(burst, 2 * FRAME_BYTES))]
    mapping.append(("max_rate_bytes", shaper))
    return [("sdk_port", port), ("queue_mapping", mapping)]


def _lines(part: tuple[str, Any], depth: int) -> Iterator[str]:
    name, value = part
    indent = "  " * depth
    if isinstance(value, list):
        yield f"{indent}{name} {{"
        for inner in value:
            yield from _lines(inner, depth + 1)
        yield f"{indent}}}"
    else:
        yield f"{indent}{name}: {value}"
