# SPDX-License-Identifier: Apache-2.0
"""The queues of a run's bmv2: set over Thrift, and their drops counted by gaps and to the last packet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from weir.controlplane.attach import HostPort
from weir.controlplane.config import ExperimentConfig
from weir.controlplane.targets.bmv2_queues import (
    DEFAULT_PACKETS,
    deep_queues,
    queues_of,
    set_queues,
    tail_drops,
)
from weir.controlplane.targets.bmv2_thrift import make_calls
from weir.runner.switch_account import gaps_by_port
from weir.topo.linux import in_network_namespace

_T = TypeVar("_T")


class Bmv2Queueing:
    """The queues of the hosts with a rate, and those of the other ports, which must not drop."""

    def __init__(
        self,
        experiment: ExperimentConfig,
        hosts: Mapping[str, HostPort],
        ports: Iterable[int],
        thrift_port: int,
        *,
        network: int | None = None,
    ) -> None:
        """`hosts` are the experiment's, `ports` all that are used.

        `network` is a descriptor of the network namespace on whose loopback Thrift listens; None: this one.
        """
        self._queues = queues_of(experiment, hosts)
        self._macs = {host.mac: host.port for host in hosts.values()}
        self._queued = [queue.port for queue in self._queues]
        self._others = sorted(set(ports) - set(self._queued))
        self._thrift_port, self._network = thrift_port, network
        self._tails: dict[int, int] = {}

    @property
    def slowest_packets_per_s(self) -> int | None:
        """The rate of the slowest queue; None if no queue has a rate."""
        return min((queue.packets_per_s for queue in self._queues), default=None)

    def set(self) -> list[str]:
        """Set all queues; returns notes for the reader of the run. Raises ControlPlaneError."""
        self._there(lambda: make_calls(deep_queues(self._others), self._thrift_port))
        self._there(lambda: set_queues(self._queues, (), self._thrift_port))
        return [
            *(queue.note for queue in self._queues),
            *(
                f"hosts.{queue.host}.queue_packets: bmv2's queue holds {queue.packets or DEFAULT_PACKETS} "
                "packets; its drops are counted by gaps, without the names of packets"
                for queue in self._queues
            ),
        ]

    def read(self) -> None:
        """Read what was dropped after the last packet of each queue. Raises ControlPlaneError."""
        if self._queued:
            self._tails = self._there(lambda: tail_drops(self._queued, self._thrift_port))

    def drops(self, telemetry: Path) -> dict[int, int]:
        """Packets that each queue with a rate dropped, by port; `telemetry` is the collector's file."""
        if not self._tails:
            return {}
        gaps = gaps_by_port(telemetry, self._macs)
        return {port: gaps[port] + tail for port, tail in self._tails.items()}

    def _there(self, call: Callable[[], _T]) -> _T:
        return call() if self._network is None else in_network_namespace(self._network, call)
