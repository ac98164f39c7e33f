# SPDX-License-Identifier: Apache-2.0
"""Starts weir-switch on links and loads a program, inside the sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from finsy import GRPCCredentialsTLS, P4Schema

from weir.controlplane.session import Session
from weir.ptf.links import Port, switch_interface
from weir.topo.stop import StopToken
from weir.topo.switchproc import DEFAULT_P4RUNTIME, SwitchPort, SwitchProcess

ADDRESS = DEFAULT_P4RUNTIME
DEFAULT_CPU_PORT = 510
ELECTION_ID = 1
"""The lowest: a test's controller may have any election id, also the same one after this is gone."""
TIMEOUT_S = 60.0  # only a broken switch takes this long; a Tofino takes a while to load a program


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


def push(address: str, device_id: int, schema: P4Schema, tls: GRPCCredentialsTLS | None = None) -> None:
    """Load a program into a switch, and disconnect. Raises ControlPlaneError."""

    async def connect_and_push() -> None:
        async with Session(address, device_id, ELECTION_ID, TIMEOUT_S, tls) as session:
            await session.push_pipeline(schema)

    asyncio.run(connect_and_push())
