# SPDX-License-Identifier: Apache-2.0
"""Starts weir-switch, on links inside the sandbox or with packet ports anywhere, and loads a program."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from finsy import GRPCCredentialsTLS, P4Schema

from weir.controlplane.session import Session
from weir.ptf.links import Port, switch_interface
from weir.topo.process import LoggedProcess, RunningProgram
from weir.topo.stop import StopToken
from weir.topo.switchproc import DEFAULT_P4RUNTIME, SwitchPort, SwitchProcess
from weir.topo.tools import find_own_program

ADDRESS = DEFAULT_P4RUNTIME
DEFAULT_CPU_PORT = 510
ELECTION_ID = 1
"""The lowest: a test's controller may have any election id, also the same one after this is gone."""
TIMEOUT_S = 60.0  # only a broken switch takes this long; a Tofino takes a while to load a program
_READY_S = 15.0


@contextmanager
def weir_switch(
    ports: Sequence[Port], logs: Path, stop: StopToken, device_id: int, cpu_port: int = DEFAULT_CPU_PORT
) -> Iterator[str]:
    """A running weir-switch without a program; yields its P4Runtime address.

    Raises ToolMissingError, Interrupted, and ProcessError, also if the switch ends before the context does.
    """
    with SwitchProcess(
        [SwitchPort(port.p4_port, switch_interface(port.number)) for port in ports],
        logs,
        p4runtime=ADDRESS,
        device_id=device_id,
        options=["--cpu-port", str(cpu_port)],
    ) as switch:
        switch.wait_ready(stop)
        yield ADDRESS
        switch.check_running()


class PacketPortsSwitch(RunningProgram):
    """A running weir-switch under bmv2's name, the frames of whose ports are messages on a nanomsg socket.

    It needs neither root nor interfaces nor a network namespace: all that it uses of the machine are a folder
    and free ports of the loopback.
    """

    def __init__(self, folder: Path, logs: Path, device_id: int, cpu_port: int = DEFAULT_CPU_PORT) -> None:
        """Start it without a program, with its sockets in `folder`.

        Raises ToolMissingError or ProcessError.
        """
        self.socket = f"ipc://{folder / 'packets'}"
        argv = [str(find_own_program("weir-switch")), "as-bmv2", "--no-p4", "--device-id", str(device_id)]
        argv += ["--packet-in", self.socket, "--notifications-addr", f"ipc://{folder / 'notifications'}"]
        argv += ["--thrift-port", "0", "--", "--grpc-server-addr", "127.0.0.1:0", "--cpu-port", str(cpu_port)]
        super().__init__(LoggedProcess("weir-switch", argv, logs / "weir-switch.log"))

    def wait_ready(self, stop: StopToken | None = None) -> str:
        """Wait for its P4Runtime and return the address. Raises ProcessError or Interrupted."""
        return self._process.wait_line(r"Server listening on (\d\S*)", _READY_S, stop)[1]


@contextmanager
def packet_ports_switch(
    logs: Path, stop: StopToken, device_id: int, cpu_port: int = DEFAULT_CPU_PORT
) -> Iterator[tuple[str, str]]:
    """A running weir-switch without a program; yields its P4Runtime address and that of its packet ports.

    Raises as `weir_switch`.
    """
    # A short path: that of a Unix socket has at most 107 bytes, and `logs` may be anywhere.
    with (
        tempfile.TemporaryDirectory(prefix="weir-ptf-") as folder,
        PacketPortsSwitch(Path(folder), logs, device_id, cpu_port) as switch,
    ):
        yield switch.wait_ready(stop), switch.socket
        switch.check_running()


def push(address: str, device_id: int, schema: P4Schema, tls: GRPCCredentialsTLS | None = None) -> None:
    """Load a program into a switch, and disconnect. Raises ControlPlaneError."""

    async def connect_and_push() -> None:
        async with Session(address, device_id, ELECTION_ID, TIMEOUT_S, tls) as session:
            await session.push_pipeline(schema)

    asyncio.run(connect_and_push())
