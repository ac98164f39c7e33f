# SPDX-License-Identifier: Apache-2.0
"""Starts the embedded switch on the testbed's links, and reads its counters after it has ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.topo.process import LoggedProcess, RunningProgram
from weir.topo.stop import StopToken
from weir.topo.tools import find_own_program, find_tool

DEFAULT_P4RUNTIME = "127.0.0.1:9559"
_READY_S = 15.0
_STOP_S = 10.0


@dataclass(frozen=True)
class SwitchPort:
    """One port: its interface, and the link that the switch emulates for frames that leave through it.

    `rate_bps` None: unshaped. `limit_bytes` and `limit_packets` limit the egress queue; None keeps the
    switch's default. With `deflect_to`, frames that a full queue drops pass egress again for that port, where
    the program can report them.
    """

    number: int
    interface: str
    delay_ns: int = 0
    rate_bps: int | None = None
    burst_bytes: int | None = None
    limit_bytes: int | None = None
    limit_packets: int | None = None
    jitter_ns: int = 0
    deflect_to: int | None = None

    def argument(self) -> str:
        """The value of weir-switch's `--port`. Raises ValueError for a burst without a rate."""
        if self.rate_bps is None and self.burst_bytes is not None:
            raise ValueError(f"port {self.number} ({self.interface}) has a burst but no rate to shape to")
        parts = [f"{self.number}={self.interface}"]
        if self.delay_ns:
            parts.append(f"delay={self.delay_ns}ns")
        if self.jitter_ns:
            parts.append(f"jitter={self.jitter_ns}ns")
        if self.rate_bps is not None:
            parts.append(f"rate={self.rate_bps}bit/s")
        if self.burst_bytes is not None:
            parts.append(f"burst={self.burst_bytes}B")
        if self.limit_bytes is not None:
            parts.append(f"limit={self.limit_bytes}B")
        if self.limit_packets is not None:
            parts.append(f"packets={self.limit_packets}")
        if self.deflect_to is not None:
            parts.append(f"deflect={self.deflect_to}")
        return ",".join(parts)


class SwitchProcess(RunningProgram):
    """A running weir-switch."""

    def __init__(
        self,
        ports: Sequence[SwitchPort],
        folder: Path,
        *,
        p4runtime: str = DEFAULT_P4RUNTIME,
        device_id: int = 1,
        program: Path | None = None,
        json_path: Path | None = None,
        options: Sequence[str] = (),
        run_ahead_except: int | None = None,
    ) -> None:
        """Start it. Its log and stats.json go to `folder`; `json_path` loads a P4 program at start.

        `options` are further options of weir-switch. With `run_ahead_except` it runs in virtual time, with
        this port for reports (`weir-switch --help`: --run-ahead). Raises ToolMissingError or ProcessError.
        """
        self.p4runtime = p4runtime
        self.stats_path = folder / "stats.json"
        executable = program if program is not None else find_own_program("weir-switch")
        argv = [str(executable), "--p4runtime", p4runtime, "--device-id", str(device_id)]
        for port in ports:
            argv += ["--port", port.argument()]
        argv += ["--stats", str(self.stats_path)]
        if json_path is not None:
            argv += ["--json", str(json_path)]
        argv += options
        if run_ahead_except is not None:
            # A busy loop, as in iperf3 before a flow starts, takes virtual time; the switch must not wait.
            argv = [find_tool("chrt"), "--fifo", "1", *argv]
            argv += ["--virtual-time", "--run-ahead", str(run_ahead_except)]
        super().__init__(LoggedProcess("weir-switch", argv, folder / "weir-switch.log"), _STOP_S)

    def wait_ready(self, stop: StopToken | None = None) -> None:
        """Wait until P4Runtime is served. Raises ProcessError or Interrupted."""
        self._process.wait_line("P4Runtime on ", _READY_S, stop)

    def stats(self) -> dict[str, Any]:
        """The counters as last written: five times a second while it runs, and exactly when it ends."""
        return self._read_json(self.stats_path)

    def stop(self) -> dict[str, Any]:
        """End the switch and return its final counters. Raises ProcessError."""
        self._end()
        return self.stats()
