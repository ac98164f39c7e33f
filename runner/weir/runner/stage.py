# SPDX-License-Identifier: Apache-2.0
"""Where a run takes place: its hosts, what is connected to the switch, and the programs around them.

`sandbox_stage.py` builds hosts in namespaces of this machine, `testbed_stage.py` uses those of a testbed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from weir.controlplane.attach import HostPort
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest import ClockReading
from weir.runner.switches import RunSwitch
from weir.topo.hosts import Hosts
from weir.topo.receive_queue import QueueCounts
from weir.topo.scheduling import SchedulingProbe
from weir.topo.stop import StopToken
from weir.topo.traffic import FlowSpec


class Part(Protocol):
    """Something that runs beside the flows, as long as its context."""

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End, if `stop` was not called."""
        ...


class Collector(Part, Protocol):
    """Receives the switch's reports."""

    def wait_ready(self, stop: StopToken) -> None:
        """Wait until it receives. Raises ProcessError or Interrupted."""
        ...

    def check_running(self) -> None:
        """Raise ProcessError if it has ended by itself."""
        ...

    def stop(self) -> Any:
        """End it with whole files of telemetry and accounting. Raises ProcessError."""
        ...


class Sampler(Part, Protocol):
    """Samples the TCP state of flows at their senders."""

    def watch(self, flows: Iterable[FlowSpec]) -> None:
        """Sample these flows from now on, in place of the previous ones; call it before they start."""
        ...

    def stop(self) -> None:
        """End, and complete the file. Raises what sampling failed with."""
        ...


class Stage(Part, Protocol):
    """The hosts of a run, as long as its context."""

    @property
    def hosts(self) -> Hosts:
        """The hosts, with the collector's."""
        ...

    @property
    def addresses(self) -> Mapping[str, HostPort]:
        """The experiment's hosts as the switch sees them; known in the context, as what follows."""
        ...

    @property
    def sink(self) -> HostPort:
        """The host that receives reports."""
        ...

    def switch(self, logs: Path) -> RunSwitch:
        """Start the switch, or find it. Raises what the switches' constructors raise."""
        ...

    def collector(self, files: RunDirectory, run_id: str) -> Collector:
        """Start the collector. Raises ToolMissingError or ProcessError."""
        ...

    def sampler(self, path: Path, interval_s: float) -> Sampler:
        """The sampler, which begins with its context: a sample each `interval_s`."""
        ...

    def probe(self, logs: Path) -> SchedulingProbe | None:
        """What measures the lateness of this machine; None if that does not matter."""
        ...

    def source_port_offset(self) -> int:
        """Offset of the flows' source ports, as hosts may still have connections of earlier runs."""
        ...

    def check(self) -> None:
        """Raise ProcessError if a host can no longer take part. Called about once per second of a phase."""
        ...

    def notes(self) -> list[str]:
        """What the reader of the run should know of its hosts, so far."""
        ...

    def lost(self) -> list[str]:
        """A line for each host whose kernel lost frames of its link, or whose TCP lacked memory."""
        ...

    def receive_queues(self) -> Mapping[str, QueueCounts]:
        """The counters of the hosts' receive queues so far, by the name of the host."""
        ...

    def clocks(self) -> Mapping[str, tuple[ClockReading, ...]]:
        """Clocks of hosts against this machine's; empty where they are the same."""
        ...
