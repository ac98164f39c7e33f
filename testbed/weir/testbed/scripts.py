# SPDX-License-Identifier: Apache-2.0
"""Modules as commands for the Python of a host, where nothing is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from weir.testbed.inventory import Privileges

BEGUN = b"weir begins\n"
"""The line before which the output is not a program's: a login shell may print, as by its ~/.bashrc."""
OLDEST_PYTHON = (3, 9)

# Reads exactly the program's bytes, without a buffer: what follows on stdin is the program's own. One line
# without backslashes, which csh and fish take differently in quotes.
_START = (
    f"import os,sys;print('',{BEGUN.decode().strip()!r},sep=chr(10),flush=True);"
    f"v=sys.version_info[:2];v<{OLDEST_PYTHON} and sys.exit('its version is %d.%d' % v);"
    "n=int(sys.argv.pop(1));b=[];"
    "[b.append(os.read(0,n-sum(map(len,b))) or sys.exit(3)) for _ in iter(lambda:sum(map(len,b))<n,False)];"
    "exec(compile(b''.join(b),sys.argv[0],'exec'),{'__name__':'__main__'})"
)


_REMOTE = "weir.testbed.remote"
_NEEDS: dict[str, tuple[str, ...]] = {
    f"{_REMOTE}.helper": (
        f"{_REMOTE}.changes",
        "weir.topo.congestion",
        f"{_REMOTE}.iperf3",
        f"{_REMOTE}.files",
        f"{_REMOTE}.programs",
    ),
    f"{_REMOTE}.probe": (f"{_REMOTE}.iperf3",),
    "weir.topo.draining": ("weir.topo.linux",),
}
"""The modules of weir that a module imports on a host, each after those that it imports itself."""


def text_of(module: str, start: str) -> str:
    """The text of a program: a module, those that it imports in front, and a call of its function `start`."""
    lines = ["import sys, types"]
    for name in (*_NEEDS.get(module, ()), module):
        lines += [
            f"m = sys.modules[{name!r}] = types.ModuleType({name!r})",
            f"exec(compile({_source(name)!r}, {name!r}, 'exec'), m.__dict__)",
        ]
    return "\n".join([*lines, f"m.{start}()"])


def _source(module: str) -> str:
    package, _, name = module.rpartition(".")
    return resources.files(package).joinpath(f"{name}.py").read_text(encoding="utf-8")


def module_command(module: str, arguments: Sequence[str]) -> list[str]:
    """The command that calls `run()` of a module, for a program that the helper starts."""
    return ["python3", "-I", "-S", "-c", text_of(module, "run"), *arguments]


def command(program: str, arguments: Sequence[str], privileges: Privileges) -> tuple[list[str], bytes]:
    """The command that runs a program of `remote/`, and what it must read first on stdin."""
    text = text_of(f"{_REMOTE}.{program}", "main").encode()
    become = ["sudo", "-n", "--"] if privileges == "sudo" else []
    # -I: neither variables nor folders of the user change which modules are loaded; -S: none of the site.
    return [*become, "python3", "-I", "-S", "-c", _START, str(len(text)), *arguments], text
