# SPDX-License-Identifier: Apache-2.0
"""Checks every host of a testbed at the same time: connects, runs the probe, and says what to mend."""

from __future__ import annotations

import asyncio
import contextlib
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
    ShellError,
    UnreachableError,
)
from weir.testbed.findings import Finding, clock_found, findings
from weir.testbed.inventory import HostEntry, Privileges, TestbedConfig
from weir.testbed.scripts import BEGUN, OLDEST_PYTHON, command

PROBE_S = 60.0
EXCHANGES = 16
"""Questions for the host's time; that with the least round trip counts."""
_LIMIT_BYTES = 2**20
_SUDO = "allow sudo without a password (`visudo`), or another value of privileges"
_PYTHON = f"sudo apt-get install python3, {'.'.join(map(str, OLDEST_PYTHON))} or newer"
_SHELL = (
    "a login shell of that user that runs commands without a terminal: no `exit` in ~/.bashrc, no nologin"
)
_NOT_FOUND = (126, 127)
"""Exit codes of shells and sudo for a program that is missing or cannot be run."""
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
        if isinstance(error, ShellError):
            failed = Finding("login shell", True, False, error.what, _SHELL)
            return HostReport(name, (reached, failed))
        if isinstance(error, CommandError):
            failed = Finding("Python", True, False, error.what, _PYTHON)
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
            await begin(connection, process, program, privileges)
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


async def begin(
    connection: Connection,
    process: asyncssh.SSHClientProcess[bytes],
    program: bytes,
    privileges: Privileges,
) -> None:
    """Send a program of `remote/`, and read what a login shell prints until the program begins.

    Raises HostError if it does not.
    """
    with contextlib.suppress(OSError):  # of a shell that has ended already: what it said is read below
        process.stdin.write(program)
    said = b""
    while (line := await process.stdout.readline()) != BEGUN:
        if not line:
            raise await failure(connection, process, privileges, begun=False, said=said)
        said = line.strip() or said


async def failure(
    connection: Connection,
    process: asyncssh.SSHClientProcess[bytes],
    privileges: Privileges,
    *,
    begun: bool = True,
    said: bytes = b"",
) -> HostError:
    """Why a program of `remote/` ended before it answered, or before it had `begun`; `said` is on stdout."""
    stderr = await process.stderr.read(_LIMIT_BYTES)
    await process.wait_closed()
    code = process.returncode
    if code is None:
        return connection.lost()
    lines = stderr.decode(errors="replace").strip().splitlines()
    complaint = (lines[-1] if lines else said.decode(errors="replace")).strip()
    if privileges == "sudo" and not begun:
        # sudo's own line about a rule that lacks the command has the whole command.
        denied = next((line for line in lines if " is not allowed to execute " in line), None)
        if denied is not None:
            user = denied.partition(" is not allowed")[0].removeprefix("Sorry, user ")
            what = f"no rule for python3; valid: `{user} ALL=(root) NOPASSWD: ALL`"
            return PrivilegeError(connection.host, f"`sudo -n` is refused: {what}")
        if complaint.startswith("sudo:") or "sudo: " in complaint:
            reason = complaint.removeprefix("sudo: ")
            return PrivilegeError(connection.host, f"`sudo -n` is refused: {reason}")
    if not begun and code not in _NOT_FOUND:
        reason = complaint or f"the login shell ended with exit code {code}"
        return ShellError(connection.host, f"`python3` did not begin: {reason}")
    return CommandError(connection.host, f"`python3` failed: {complaint or f'exit code {code}'}")


async def _line(stream: asyncssh.SSHReader[bytes]) -> bytes | None:
    """The next whole line, or None at the end."""
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = await stream.readline()
        if not chunk or len(line) > _LIMIT_BYTES:
            return None
        line += chunk
    return bytes(line)
