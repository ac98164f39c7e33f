# SPDX-License-Identifier: Apache-2.0
"""The switch of a run, whatever its target: configured beyond P4Runtime, and accounted for."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from weir.controlplane.apply import SwitchControl
from weir.rundir.manifest import SwitchStats
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess
from weir.topo.testbed import Testbed


@dataclass(frozen=True)
class Activity:
    """What a switch was doing at some moment."""

    at_ns: int
    """When it was read; of two readings with the same time, the second says nothing new."""
    packets: int
    """Packets that it has seen so far."""
    idle: bool
    """Whether it knows of no packet that it holds."""


class RunSwitch(Protocol):
    """A switch that runs as long as the context."""

    @property
    def address(self) -> str:
        """The address of its P4Runtime service, or of its bf_switchd."""
        ...

    @property
    def via(self) -> str | None:
        """The address that relays to that one; None if it can be reached from here."""
        ...

    @property
    def quiet_s(self) -> float:
        """Time without packets after which it holds none, if it is idle."""
        ...

    def wait_ready(self, stop: StopToken) -> None:
        """Wait until it serves P4Runtime. Raises ProcessError, SwitchUnreachableError or Interrupted."""
        ...

    async def admit(self, control: SwitchControl) -> None:
        """Raise PipelineError if it runs a program that a run must not replace."""
        ...

    async def configure(self, control: SwitchControl) -> list[str]:
        """Set what P4Runtime does not, after the pipeline; returns notes for the reader of the run.

        Raises ControlPlaneError.
        """
        ...

    def activity(self) -> Activity:
        """What it is doing. Raises ProcessError if it has ended."""
        ...

    async def read(self, control: SwitchControl) -> None:
        """Read the counters that are lost when it ends. Raises ControlPlaneError."""
        ...

    def stop(self) -> None:
        """End it. Raises ProcessError if it had ended by itself."""
        ...

    def account(self, telemetry: Path) -> SwitchStats:
        """Its final counters; `telemetry` is the collector's file, which is whole by now."""
        ...

    def notes(self) -> list[str]:
        """What the reader of the run should know of its packets, known once it is accounted for."""
        ...

    def problems(self) -> list[str]:
        """A line for each reason why its counters must not be used, known once it has ended."""
        ...

    def __enter__(self) -> Self:
        """Nothing: it was started by its constructor."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it if it still runs."""
        ...


class EmbeddedSwitch:
    """weir-switch: its ports emulate the links, which the plan sets along with the tables."""

    quiet_s = 0.1

    def __init__(self, testbed: Testbed, logs: Path, *, run_ahead_except: int | None = None) -> None:
        """Start it on the testbed's links. Raises ToolMissingError or ProcessError."""
        ports = [SwitchPort(host.switch_port, host.switch_interface) for host in testbed.hosts.values()]
        self._stack = ExitStack()
        self._process = self._stack.enter_context(
            SwitchProcess(ports, logs, run_ahead_except=run_ahead_except)
        )

    @property
    def address(self) -> str:
        """The address of its P4Runtime service."""
        return self._process.p4runtime

    @property
    def via(self) -> None:
        """It needs no relay."""

    async def admit(self, control: SwitchControl) -> None:
        """Nothing: it runs no program yet."""

    def wait_ready(self, stop: StopToken) -> None:
        """Wait until it serves P4Runtime."""
        self._process.wait_ready(stop)

    async def configure(self, control: SwitchControl) -> list[str]:
        """Nothing: the plan sets all of it."""
        return []

    def activity(self) -> Activity:
        """By its counters as last written."""
        stats = self._process.stats()
        ports = stats["ports"]
        return Activity(
            stats["uptime_ns"],
            sum(port["rx_packets"] for port in ports),
            all(port["in_flight"] == 0 for port in ports),
        )

    async def read(self, control: SwitchControl) -> None:
        """Nothing: it writes its counters when it ends."""

    def stop(self) -> None:
        """End it and keep its counters."""
        self._stats = SwitchStats.model_validate(self._process.stop())

    def account(self, telemetry: Path) -> SwitchStats:
        """Its counters."""
        return self._stats

    def notes(self) -> list[str]:
        """None."""
        return []

    def problems(self) -> list[str]:
        """None: the analysis reads its counters."""
        return []

    def __enter__(self) -> Self:
        """Nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it if it still runs."""
        self._stack.close()
