# SPDX-License-Identifier: Apache-2.0
"""Starts bmv2 (simple_switch_grpc) on interfaces, if it is installed."""

import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from weir.topo.process import LoggedProcess, RunningProgram
from weir.topo.stop import StopToken
from weir.topo.switchproc import DEFAULT_P4RUNTIME
from weir.topo.tools import ToolMissingError

BMV2 = "simple_switch_grpc"
THRIFT_PORT = 9090
_READY_S = 30.0
_POLL_S = 0.02


def bmv2_problem() -> str | None:
    """The reason why bmv2 cannot be started here; None if it can."""
    if shutil.which(BMV2) is None:
        return f"{BMV2} is not on PATH (https://github.com/p4lang/behavioral-model)"
    return None


def bmv2_version() -> str:
    """What the installed bmv2 says of its version. Raises ToolMissingError if there is none."""
    problem = bmv2_problem()
    if problem is not None:
        raise ToolMissingError(f"{problem}; valid: its packages, or switch: {{target: softswitch}}")
    told = subprocess.run([BMV2, "--version"], capture_output=True, text=True, check=False, timeout=_READY_S)
    return told.stdout.strip() or "unknown"


class Bmv2Process(RunningProgram):
    """A running simple_switch_grpc without a P4 program."""

    def __init__(
        self,
        ports: Mapping[int, str],
        folder: Path,
        *,
        p4runtime: str = DEFAULT_P4RUNTIME,
        device_id: int = 1,
    ) -> None:
        """Start it with ``ports`` (number → interface); its log goes to ``folder``. Raises ProcessError."""
        self.p4runtime = p4runtime
        interfaces = [word for port, name in ports.items() for word in ("-i", f"{port}@{name}")]
        command = [BMV2, "--no-p4", "--device-id", str(device_id), "--log-level", "off", *interfaces]
        command += ["--thrift-port", str(THRIFT_PORT), "--", "--grpc-server-addr", p4runtime]
        super().__init__(LoggedProcess(BMV2, command, folder / f"{BMV2}.log"))

    def wait_ready(self, stop: StopToken | None = None) -> None:
        """Wait until P4Runtime is served, by connecting: bmv2 does not flush the message that says so.

        Raises ProcessError or Interrupted.
        """
        host, _, port = self.p4runtime.rpartition(":")
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                return
            except ConnectionRefusedError:
                self._process.check_running()
                if time.monotonic() > deadline:
                    raise self._process.error(
                        f"serves no P4Runtime on {self.p4runtime} after {_READY_S:g} s"
                    ) from None
                if stop is not None:
                    stop.raise_if_stopped()
                time.sleep(_POLL_S)

    def stop(self) -> None:
        """End it; it has no exit code of its own for that. Raises ProcessError if it had ended by itself."""
        self._process.check_running()
        self._process.stop(grace_s=self._grace_s)
