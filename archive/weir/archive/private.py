# SPDX-License-Identifier: Apache-2.0
"""Removes from texts what says where and by whom a run was made: absolute paths, host and user names.

Programs' logs have these, and messages that quote a log. Files that a person wrote are not changed; `remains`
finds such words in them.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = "dev|proc|sys|usr|bin|sbin|lib|lib64|etc"
# At least two parts, so that prefix lengths (/24) and fractions are none.
_ABSOLUTE = re.compile(rf"(?<![\w./+-])/(?!(?:{_SYSTEM})/)[\w.~+@-]+(?:/[\w.~+@%=-]+)+")
# uname(2), as iperf3 logs it: system, host name, release, …
_UNAME = re.compile(r'("system_info"\s*:\s*"\S+ )\S+( )')
_PATH_CHARACTER = re.compile(r"[^\s\"'<>|;,()]")
_LONGEST_PATH = 4096
_COMMON = frozenset({"root", "localhost", "host", "user", "admin", "client", "server", "switch", "collector"})
_SHORTEST = 3
"""Names of fewer letters are words of any text."""


@dataclass(frozen=True)
class Identity:
    """The names of a machine and of its user."""

    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    home: str = ""

    @classmethod
    def here(cls) -> Identity:
        """Those of this machine, without names that identify nobody, such as root."""
        host = socket.gethostname()
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a user without an entry, as in containers
            user = ""
        home = os.path.expanduser("~")  # noqa: PTH111 (Path.home raises where there is none)
        return cls(
            hosts=tuple(name for name in dict.fromkeys((host, host.split(".")[0])) if _telling(name)),
            users=(user,) if _telling(user) else (),
            home=home if home.startswith("/") and len(Path(home).parts) > 2 else "",
        )

    def without(self, words: Iterable[str]) -> Identity:
        """Without names that the experiment itself uses."""
        used = frozenset(words)
        return Identity(
            tuple(name for name in self.hosts if name not in used),
            tuple(name for name in self.users if name not in used),
            self.home,
        )


def _telling(name: str) -> bool:
    return len(name) >= _SHORTEST and name.lower() not in _COMMON


@dataclass(frozen=True)
class Cleaner:
    """Rewrites the lines of one run's texts."""

    folder: Path
    """The run's folder: a path into it becomes relative to it, wherever the folder was at that time."""
    identity: Identity

    def log(self, line: str) -> str:
        """A line of a program's log: without paths, host names and user names."""
        line = _UNAME.sub(r"\1host\2", self.record(line))
        for names, word in ((self.identity.hosts, "host"), (self.identity.users, "user")):
            for name in names:
                line = _word(name).sub(word, line)
        return line

    def record(self, line: str) -> str:
        """A line of a JSON file: without absolute paths, but for those of every Linux (/usr, /proc, …)."""
        return _ABSOLUTE.sub(lambda path: f".../{path[0].rpartition('/')[2]}", self.page(line))

    def page(self, line: str) -> str:
        """A line of a page, which may have scripts in it: without paths through the run's folder."""
        line = line.replace(f"{self.folder}/", "")
        if self.identity.home:
            line = re.sub(rf"(?<![\w.]){re.escape(self.identity.home)}(?=/)", "~", line)
        out: list[str] = []
        done = 0
        for match in re.finditer(rf"(?<=/){re.escape(self.folder.name)}(?![\w.-])", line):
            begin = _beginning(line, done, match.start())
            if begin is not None:
                out.append(line[done:begin])
                done = match.end() + 1 if line[match.end() : match.end() + 1] == "/" else match.end()
        return "".join([*out, line[done:]])


def _beginning(line: str, low: int, end: int) -> int | None:
    """Where the absolute path begins that ends at `end`; None if there is none after `low`."""
    begin = end
    low = max(low, end - _LONGEST_PATH)
    while begin > low and _PATH_CHARACTER.match(line[begin - 1]):
        begin -= 1
    match = re.search(r"(?<![\w./])(?:~/|/)|^(?:~/|/)", line[begin:end])
    return None if match is None else begin + match.start()


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")


def remains(lines: Iterable[str], identity: Identity) -> Iterator[tuple[int, str]]:
    """The lines of a text that still identify somebody: their number and what is in them."""
    names = [_word(name) for name in identity.hosts + identity.users]
    for number, line in enumerate(lines, start=1):
        if _ABSOLUTE.search(line):
            yield number, "an absolute path"
        elif any(name.search(line) for name in names):
            yield number, "the name of this machine or user"
