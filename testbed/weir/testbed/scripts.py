# SPDX-License-Identifier: Apache-2.0
"""The programs of `remote/` as commands: the host's Python reads them from stdin, nothing is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from weir.testbed.inventory import Privileges

# Reads exactly the program's bytes, without a buffer: what follows on stdin is the program's own.
_START = (
    "import os,sys;n=int(sys.argv.pop(1));b=b'';\n"
    "while len(b)<n:\n"
    " c=os.read(0,n-len(b))\n"
    " if not c: sys.exit(3)\n"
    " b+=c\n"
    "exec(compile(b,sys.argv[0],'exec'),{'__name__':'__main__'})"
)


_PACKAGE = "weir.testbed.remote"
_MODULES = {"helper": ("changes",)}
"""The modules of `remote/` that a program imports."""


def text_of(program: str) -> bytes:
    """The text of a program of `remote/`, with the modules that it imports in front."""
    text = ["import sys, types"]
    for module in _MODULES.get(program, ()):
        name = f"{_PACKAGE}.{module}"
        text += [
            f"m = sys.modules[{name!r}] = types.ModuleType({name!r})",
            f"exec(compile({_source(module)!r}, {module!r}, 'exec'), m.__dict__)",
        ]
    text.append(f"exec(compile({_source(program)!r}, {program!r}, 'exec'), {{'__name__': '__main__'}})")
    return "\n".join(text).encode()


def _source(module: str) -> str:
    return resources.files(_PACKAGE).joinpath(f"{module}.py").read_text(encoding="utf-8")


def command(program: str, arguments: Sequence[str], privileges: Privileges) -> tuple[list[str], bytes]:
    """The command that runs a program of `remote/`, and what it must read first on stdin."""
    text = text_of(program)
    become = ["sudo", "-n", "--"] if privileges == "sudo" else []
    # -I: neither variables nor folders of the user change which modules are loaded; -S: none of the site.
    return [*become, "python3", "-I", "-S", "-c", _START, str(len(text)), *arguments], text
