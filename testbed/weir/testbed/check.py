# SPDX-License-Identifier: Apache-2.0
"""Checks every host of a testbed at the same time: connects, runs the probe, and says what to mend."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import asyncssh

from weir.testbed.clock import ClockOffset, offset_of
from weir.testbed.connection import Connection, connect
from weir.testbed.errors import (
    CommandError,
    HostError,
    LostError,
    PrivilegeError,
    UnreachableError,
)
from weir.testbed.findings import Finding, clock_found, findings
from weir.testbed.inventory import HostEntry, Privileges, TestbedConfig
from weir.testbed.scripts import command

PROBE_S = 60.0
EXCHANGES = 16
"""Questions for the host's time; that with the least round trip counts."""
_LIMIT_BYTES = 2**20
_SUDO = "allow sudo without a password (`visudo`), or another value of privileges"
# The lines about keys hold the command that mends them.
_MENDS: dict[type[HostError], str] = {
    UnreachableError: "start sshd there, or mend ssh.host and ssh.port",
    LostError: "look at the host and its control network",
}


@dataclass(frozen=True)
class HostReport:
    """The checks of one host."""

    name: str
    findings: tuple[Finding, ...]
    clock: ClockOffset | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing that is required is missing."""
        return all(finding.ok for finding in self.findings if finding.required)


async def check_testbed(testbed: TestbedConfig) -> list[HostReport]:
    """The report of each host, in the order of the file."""
    return list(await asyncio.gather(*(check_host(name, testbed) for name in testbed.hosts)))


async def check_host(name: str, testbed: TestbedConfig) -> HostReport:
    """Connect to a host and check it. What fails is in the report; nothing on the host is changed."""
    host, ssh, privileges = testbed.hosts[name], testbed.ssh_of(name), testbed.privileges_of(name)
    reached = Finding("ssh", True, True, f"{ssh.user}@{ssh.host} port {ssh.port}")
    try:
        async with connect(name, ssh) as connection:
            try:
                probe, offset = await run_probe(connection, host, privileges)
            except PrivilegeError as error:
                refused = Finding("privileges", True, False, error.what, _SUDO)
                probe, offset = await run_probe(connection, host, "capabilities")
                return _report(name, host, privileges, probe, offset, reached, refused)
            return _report(name, host, privileges, probe, offset, reached, None)
    except HostError as error:
        failed = Finding("ssh", True, False, error.what, _MENDS.get(type(error)))
        if isinstance(error, CommandError):
            failed = Finding("Python", True, False, error.what, "sudo apt-get install python3")
            return HostReport(name, (reached, failed))
        return HostReport(name, (failed,))


def _report(
    name: str,
    host: HostEntry,
    privileges: Privileges,
    probe: dict[str, Any],
    offset: ClockOffset,
    reached: Finding,
    refused: Finding | None,
) -> HostReport:
    found = [*findings(host, privileges, probe), clock_found(probe, offset)]
    if refused is not None:
        # Without sudo the probe was another user's, who need not be able to write to the folder.
        found = [finding for finding in found if finding.name != "disk"]
        found = [refused if finding.name == "privileges" else finding for finding in found]
    return HostReport(name, (reached, *found), offset)


async def run_probe(
    connection: Connection, host: HostEntry, privileges: Privileges
) -> tuple[dict[str, Any], ClockOffset]:
    """The findings of the probe on a host, and the offset of the host's clock. Raises HostError."""
    arguments = json.dumps({"interface": host.interface, "work_folder": host.work_folder})
    argv, program = command("probe", [arguments], privileges)
    process = await connection.start(argv)
    try:
        async with asyncio.timeout(PROBE_S):
            process.stdin.write(program)
            answer = await _line(process.stdout)
            if answer is None:
                raise await failure(connection, process, privileges)
            exchanges = []
            for _ in range(EXCHANGES):
                asked = time.time_ns()
                process.stdin.write(b"\n")
                line = await _line(process.stdout)
                if line is None:
                    raise await failure(connection, process, privileges)
                exchanges.append((asked, int(line), time.time_ns()))
            process.stdin.write_eof()
        probe: dict[str, Any] = json.loads(answer)
    except TimeoutError as error:
        raise CommandError(connection.host, f"the probe did not answer within {PROBE_S:g} s") from error
    except ValueError as error:
        raise CommandError(connection.host, f"the probe's answer is not JSON: {error}") from error
    except (asyncssh.Error, OSError) as error:
        raise connection.lost() from error
    finally:
        process.close()
    return probe, offset_of(exchanges)


async def failure(
    connection: Connection, process: asyncssh.SSHClientProcess[bytes], privileges: Privileges
) -> HostError:
    """Why a program of `remote/` ended before it answered."""
    stderr = await process.stderr.read(_LIMIT_BYTES)
    await process.wait_closed()
    if process.returncode is None:
        return connection.lost()
    lines = stderr.decode(errors="replace").strip().splitlines()
    said = lines[-1].strip() if lines else f"exit code {process.returncode}"
    if privileges == "sudo" and (said.startswith("sudo:") or "sudo: " in said):
        return PrivilegeError(connection.host, f"`sudo -n` is refused: {said.removeprefix('sudo: ')}")
    return CommandError(connection.host, f"`python3` failed: {said}")


async def _line(stream: asyncssh.SSHReader[bytes]) -> bytes | None:
    """The next whole line, or None at the end."""
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = await stream.readline()
        if not chunk or len(line) > _LIMIT_BYTES:
            return None
        line += chunk
    return bytes(line)
