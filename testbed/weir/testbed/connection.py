# SPDX-License-Identifier: Apache-2.0
"""A connection to a host's sshd, with host keys always checked, and commands as argument lists.

~/.ssh/config is not read: what is done depends on the inventory alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from weir.testbed.errors import (
    AuthenticationError,
    CommandError,
    HostKeyError,
    LostError,
    UnreachableError,
)
from weir.testbed.inventory import SSH_PORT, SshAccess

CONNECT_S = 10.0
KEEPALIVE_S, KEEPALIVES = 5.0, 3
"""A host that answers none of so many probes, so far apart, is lost."""
COMMAND_S = 30.0
OUTPUT_BYTES = 2**20
_CHUNK_BYTES = 2**16
_TOO_MANY = "Too many authentication failures"
"""sshd's words for more keys than it lets a client try."""
_SYSTEM_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")


@dataclass(frozen=True)
class Done:
    """A command that has ended; ``code`` is negative after a signal, as in :mod:`subprocess`."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def complaint(self) -> str:
        """The last line on stderr, else on stdout, else the exit code."""
        lines = (self.stderr.strip() or self.stdout.strip()).decode(errors="replace").splitlines()
        return lines[-1].strip() if lines else f"exit code {self.code}"


class Connection:
    """An open connection; made by :func:`connect`."""

    def __init__(self, host: str, ssh: asyncssh.SSHClientConnection) -> None:
        """Take an open connection; ``host`` is the name in the inventory."""
        self.host = host
        self._ssh = ssh

    @property
    def addresses(self) -> list[str]:
        """The addresses of both ends, as this machine sees them."""
        ends = [self._ssh.get_extra_info(name) for name in ("sockname", "peername")]
        return [str(end[0]).partition("%")[0] for end in ends if end]

    async def start(self, argv: Sequence[str]) -> asyncssh.SSHClientProcess[bytes]:
        """Start a command, whose words reach the program as they are. Raises HostError."""
        try:
            return await self._ssh.create_process(shlex.join(argv), encoding=None)
        except asyncssh.ChannelOpenError as error:
            if self._ssh.is_closed():
                raise self.lost() from error
            raise CommandError(self.host, f"sshd refuses a session: {error.reason}") from error
        except (asyncssh.Error, OSError) as error:
            raise self.lost() from error

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float = COMMAND_S,
        limit_bytes: int = OUTPUT_BYTES,
    ) -> Done:
        """Run a command to its end. Raises HostError if it takes too long, writes too much, or is lost."""
        process = await self.start(argv)
        try:
            async with asyncio.timeout(timeout_s):
                with contextlib.suppress(OSError):  # it need not read its input
                    process.stdin.write(stdin)
                    process.stdin.write_eof()
                stdout, stderr = await asyncio.gather(
                    self._read(process.stdout, argv[0], limit_bytes),
                    self._read(process.stderr, argv[0], limit_bytes),
                )
                await process.wait_closed()
        except TimeoutError as error:
            raise CommandError(self.host, f"`{argv[0]}` did not end within {timeout_s:g} s") from error
        except (asyncssh.Error, OSError) as error:
            raise self.lost() from error
        finally:
            process.close()
        code = process.returncode
        if code is None:  # neither a code nor a signal arrived
            raise self.lost()
        return Done(code, stdout, stderr)

    def lost(self) -> LostError:
        """The error of a connection that ended in the middle."""
        return LostError(self.host, "the connection was lost; valid: a host that stays reachable")

    async def _read(self, stream: asyncssh.SSHReader[bytes], what: str, limit_bytes: int) -> bytes:
        read = bytearray()
        while chunk := await stream.read(_CHUNK_BYTES):
            read += chunk
            if len(read) > limit_bytes:
                raise CommandError(self.host, f"`{what}` wrote more than {limit_bytes} bytes")
        return bytes(read)


@asynccontextmanager
async def connect(host: str, ssh: SshAccess, *, timeout_s: float = CONNECT_S) -> AsyncIterator[Connection]:
    """Connect to the sshd of a host, named ``host`` in messages; the connection ends with the block.

    Raises:
        HostError: one line that says why there is no connection.
    """
    opened = await _open(host, ssh, timeout_s)
    try:
        yield Connection(host, opened)
    finally:
        opened.close()
        try:
            async with asyncio.timeout(timeout_s):
                await opened.wait_closed()
        except (TimeoutError, asyncssh.Error, OSError):
            opened.abort()


class _Client(asyncssh.SSHClient):
    """Keeps the key of a host that is not trusted, for the message; trusts none that is not in the files."""

    def __init__(self) -> None:
        self.refused: asyncssh.SSHKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.refused = key
        return False


async def _open(host: str, ssh: SshAccess, timeout_s: float) -> asyncssh.SSHClientConnection:
    where = f"{ssh.user}@{ssh.host} port {ssh.port}"
    known_hosts = _known_hosts(host, ssh)
    client = _Client()
    options: dict[str, Any] = {}
    if ssh.identity_file is not None:
        options["client_keys"] = [_identity(host, ssh.identity_file)]
        options["agent_path"] = None  # asyncssh offers its keys first, and sshd accepts few attempts
    try:
        async with asyncio.timeout(timeout_s):
            return await asyncssh.connect(
                ssh.host,
                ssh.port,
                username=ssh.user,
                client_factory=lambda: client,
                config=None,
                known_hosts=known_hosts,
                x509_trusted_certs=None,
                x509_trusted_cert_paths=[],  # not ~/.ssh/crt
                preferred_auth="publickey",
                password=None,
                agent_forwarding=False,
                gss_kex=False,
                gss_auth=False,
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=KEEPALIVES,
                login_timeout=timeout_s,
                **options,
            )
    except TimeoutError as error:
        raise UnreachableError(host, f"{where}: no answer within {timeout_s:g} s") from error
    except asyncssh.HostKeyNotVerifiable as error:
        raise HostKeyError(host, _untrusted(ssh, known_hosts, client.refused)) from error
    except asyncssh.PermissionDenied as error:
        used = f"identity file {ssh.identity_file}" if ssh.identity_file else "the agent's keys and ~/.ssh"
        mend = f"ssh-copy-id -p {ssh.port} {ssh.user}@{ssh.host}"
        raise AuthenticationError(
            host, f"{where}: sshd accepts no key ({used}); add one with: {mend}"
        ) from error
    except asyncssh.KeyExchangeFailed as error:
        raise HostKeyError(
            host, f"{where}: {error.reason}; valid: a key of that kind in {_files(ssh)}"
        ) from error
    except asyncssh.Error as error:
        if error.reason.startswith(_TOO_MANY):
            raise AuthenticationError(
                host,
                f"{where}: sshd gives up before all keys of the agent and ~/.ssh are tried (MaxAuthTries); "
                "valid: identity_file, the one key that it accepts",
            ) from error
        raise UnreachableError(host, f"{where}: {error.reason}") from error
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise AuthenticationError(
            host,
            f"a key of ~/.ssh cannot be read: {error}; valid: keys of OpenSSH, or identity_file",
        ) from error
    except ValueError as error:  # also of a name that DNS cannot have
        raise UnreachableError(host, f"{where}: {error}") from error
    except OSError as error:
        # asyncio's text repeats the address; a resolver's number is not one of the system's.
        is_system = error.errno is not None and error.errno > 0 and not isinstance(error, socket.gaierror)
        reason = os.strerror(error.errno or 0) if is_system else error.strerror or str(error)
        raise UnreachableError(host, f"{where}: {reason[:1].lower()}{reason[1:]}") from error


def _identity(host: str, path: Path) -> asyncssh.SSHKey:
    try:
        return asyncssh.read_private_key(path)
    except OSError as error:
        raise AuthenticationError(
            host, f"identity file {path}: {error.strerror}; valid: a private key of this user"
        ) from error
    except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError) as error:
        encrypted = isinstance(error, asyncssh.KeyEncryptionError) or "passphrase" in str(error).lower()
        mend = (
            f"is encrypted; valid: `ssh-add {shlex.quote(str(path))}`, and no identity_file"
            if encrypted
            else f"{error}"
        )
        raise AuthenticationError(host, f"identity file {path}: {mend}") from error


def _known_hosts_files(ssh: SshAccess) -> list[Path]:
    if ssh.known_hosts is not None:
        return [ssh.known_hosts]
    return [Path("~/.ssh/known_hosts").expanduser(), _SYSTEM_KNOWN_HOSTS]


def _files(ssh: SshAccess) -> str:
    return str(_known_hosts_files(ssh)[0])


def _known_hosts(host: str, ssh: SshAccess) -> bytes:
    """The known keys. Never empty: asyncssh takes its default for an empty value, and trusts all for None."""
    text = b"# known hosts\n"
    for path in _known_hosts_files(ssh):
        try:
            text += path.read_bytes() + b"\n"
        except FileNotFoundError:
            continue
        except OSError as error:
            raise HostKeyError(host, f"{path}: {error.strerror}; valid: a readable file") from error
    known = text.decode(errors="replace")  # OpenSSH has no encoding for it, asyncssh UTF-8
    try:
        asyncssh.import_known_hosts(known)
    except ValueError as error:
        raise HostKeyError(host, f"{_files(ssh)}: {error}; valid: lines of known_hosts") from error
    return known.encode()


def _untrusted(ssh: SshAccess, known_hosts: bytes, key: asyncssh.SSHKey | None) -> str:
    """The message about a host key: unknown, or another than known."""
    offered = f" ({key.get_algorithm()} {key.get_fingerprint()})" if key is not None else ""
    files = shlex.quote(_files(ssh))
    place = ssh.host if ssh.port == SSH_PORT else f"[{ssh.host}]:{ssh.port}"
    port = None if ssh.port == SSH_PORT else ssh.port
    known = asyncssh.match_known_hosts(known_hosts, ssh.host, "", port)
    if known[2] and key is None:
        return f"the key of {place} is revoked by an @revoked line of {_files(ssh)}"
    if any(known):
        return (
            f"{place} has another key{offered} than {_files(ssh)} says: the host was installed anew, or "
            f"somebody is in between; remove the old key only in the first case: "
            f"ssh-keygen -f {files} -R {place!r}"
        )
    return (
        f"{place} has an unknown key{offered}; compare it with `cat /etc/ssh/ssh_host_*_key.pub | "
        f"ssh-keygen -lf -` on the host, then add it: ssh-keyscan -p {ssh.port} {ssh.host} >> {files}"
    )
