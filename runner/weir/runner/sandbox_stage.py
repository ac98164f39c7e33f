# SPDX-License-Identifier: Apache-2.0
"""The stage of a run whose hosts are namespaces of this machine, built for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from weir.controlplane.attach import HostPort
from weir.controlplane.config import COLLECTOR, ExperimentConfig, HostConfig
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest import ClockReading
from weir.rundir.plural import plural
from weir.runner.bmv2_switch import Bmv2Switch
from weir.runner.switch_elsewhere import SwitchElsewhere
from weir.runner.switches import EmbeddedSwitch, RunSwitch
from weir.topo.collectorproc import CollectorProcess
from weir.topo.line import Line
from weir.topo.receive_queue import QueueCounts, ReceiveQueue
from weir.topo.scheduling import SchedulingProbe
from weir.topo.sockets import SocketSampler
from weir.topo.testbed import HostSpec, Testbed

# In virtual time each wake-up costs wall time, and no report is needed before the end.
_VIRTUAL_GATHER_MS = 50


class SandboxStage:
    """Hosts and links, as long as the context."""

    def __init__(self, experiment: ExperimentConfig, *, virtual: bool) -> None:
        """Lay them out; the context builds them. Raises TestbedError."""
        specs = [
            HostSpec(name, host.address, host.address6, _line(host), _receive_queue(host))
            for name, host in experiment.hosts.items()
        ]
        self._experiment, self._virtual = experiment, virtual
        self.hosts = Testbed([*specs, HostSpec(COLLECTOR)], virtual_time=virtual)
        cables = experiment.switch.ports if experiment.switch.address is not None else {}
        self.addresses = {
            name: HostPort(
                cables[name].port if cables else host.switch_port, host.mac, host.address, host.address6
            )
            for name, host in self.hosts.hosts.items()
        }
        self.sink = self.addresses.pop(COLLECTOR)

    def __enter__(self) -> Self:
        """Build them. Raises TestbedError or ProcessError."""
        self.hosts.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove them."""
        self.hosts.__exit__(kind, error, traceback)

    def switch(self, logs: Path) -> RunSwitch:
        """The switch that the experiment names."""
        asked = self._experiment.switch
        if self._virtual:
            self.hosts.keep_departures()
        if asked.address is not None:
            return SwitchElsewhere(self._experiment, self.hosts, self.addresses, logs)
        if asked.target == "bmv2":
            return Bmv2Switch(self._experiment, self.hosts, self.addresses, logs)
        return EmbeddedSwitch(self.hosts, logs, run_ahead_except=self.sink.port if self._virtual else None)

    def collector(self, files: RunDirectory, run_id: str) -> CollectorProcess:
        """weir-collector in its host's namespace."""
        return CollectorProcess(
            self.hosts,
            COLLECTOR,
            files.telemetry,
            files.accounting,
            files.logs,
            run_id=run_id,
            port=self._experiment.telemetry.port,
            gather_ms=_VIRTUAL_GATHER_MS if self._virtual else 0,
        )

    def sampler(self, path: Path, interval_s: float) -> SocketSampler:
        """A thread of this process."""
        return SocketSampler(self.hosts, path, interval_s=interval_s)

    def probe(self, logs: Path) -> SchedulingProbe | None:
        """In virtual time nothing is late."""
        return None if self._virtual else SchedulingProbe(logs)

    def source_port_offset(self) -> int:
        """None: the hosts are new."""
        return 0

    def check(self) -> None:
        """Nothing: the run's own files are on the same disk, and fail to be written."""

    def notes(self) -> list[str]:
        """None: the hosts are new."""
        return []

    def lost(self) -> list[str]:
        """By the counters of the veth pairs, and of the hosts' TCP."""
        lost = {name: drops.to_switch + drops.from_switch for name, drops in self.hosts.link_drops().items()}
        thrown_away = self.hosts.thrown_away()
        return [
            *(
                f"the link of {name} lost {plural(count, 'frame')} in the kernel"
                for name, count in lost.items()
                if count
            ),
            *(
                f"TCP of {name} had no space left and threw away what it had acknowledged, "
                f"{plural(count, 'time')}; "
                "valid: a lower rate or RTT, a larger net.ipv4.tcp_rmem (sysctl of the host), more memory "
                "(in virtual time --memory)"
                for name, count in thrown_away.items()
                if count
            ),
        ]

    def receive_queues(self) -> Mapping[str, QueueCounts]:
        """By tc's counters."""
        return self.hosts.receive_queues()

    def clocks(self) -> Mapping[str, tuple[ClockReading, ...]]:
        """None: the hosts have this machine's clock."""
        return {}


def _receive_queue(host: HostConfig) -> ReceiveQueue | None:
    queue = host.receive_queue
    return None if queue is None else ReceiveQueue(queue.discipline, queue.rate)


def _line(host: HostConfig) -> Line | None:
    return Line(host.line_rate, host.packet_cost) if host.line_rate else None
