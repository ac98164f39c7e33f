# SPDX-License-Identifier: Apache-2.0
"""Errors of hosts over SSH: each is one line that names the host, what failed, and what mends it."""


class HostError(Exception):
    """Something failed on, or on the way to, a host of a testbed."""

    def __init__(self, host: str, what: str) -> None:
        """Set the host's name and the failure; the text is one line."""
        self.host, self.what = host, " ".join(what.split())
        super().__init__(f"{host}: {self.what}")


class UnreachableError(HostError):
    """No connection: refused, no route, no such name, timed out, or no sshd there."""


class HostKeyError(HostError):
    """The host's key is unknown, or another one than known."""


class AuthenticationError(HostError):
    """The host does not accept the user's keys, or a key cannot be used."""


class LostError(HostError):
    """The connection ended in the middle."""


class CommandError(HostError):
    """A command could not be run, took too long, or wrote too much."""


class ShellError(CommandError):
    """The user's login shell ended without running the command."""


class PrivilegeError(HostError):
    """The programs of weir do not get their privileges."""


class ChangeError(HostError):
    """A change was refused; what had been changed for it is put back."""
