# SPDX-License-Identifier: Apache-2.0
"""The settings of a run of PTF tests, and the file in which the sandbox's program gets them."""

from __future__ import annotations

import ast
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

EXIT_FAILED = 1
EXIT_USAGE = 2
SETTINGS = "run.json"
MAX_PORT = 509
"""v1model's ports have nine bits; 511 means drop, and 510 is the controller by default."""


class UsageError(Exception):
    """An argument cannot be used; the message says which, why, and what would be valid."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A P4 program and its tests; paths are absolute."""

    program: str
    p4info: str
    tests: str
    logs: str
    python: str
    """The Python for which PTF and the libraries of the tests are installed."""
    ptf: str
    """Its `ptf` program."""
    ports: tuple[int, ...]
    device_id: int
    cpu_port: int
    push: bool
    """Whether the program is loaded before the tests; else they do it."""
    test_params: dict[str, str]
    """Further parameters of the tests, as Python expressions; they replace those of :meth:`params`."""
    names: tuple[str, ...] = ()
    """Groups (files) and tests to run; all if empty."""
    ptf_options: tuple[str, ...] = ()

    def params(self, address: str) -> dict[str, str]:
        """PTF's test parameters as Python expressions, under the names that tests of P4Runtime use."""
        return {
            "grpcaddr": repr(address),
            "p4info": repr(self.p4info),
            "config": repr(self.program),
            "device_id": repr(self.device_id),
            "cpu_port": repr(self.cpu_port),
            **self.test_params,
        }

    def save(self, path: Path) -> None:
        """Write the settings as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2))

    @classmethod
    def load(cls, path: Path) -> Settings:
        """Read a file that `save` wrote."""
        found: dict[str, Any] = json.loads(path.read_text())
        for name in ("ports", "names", "ptf_options"):
            found[name] = tuple(found[name])
        return cls(**found)


def read_ports(text: str) -> tuple[int, ...]:
    """`8` is ports 0 to 7, `1-4` is ports 1 to 4. Raises UsageError."""
    first, dash, last = text.partition("-")
    try:
        numbers = range(int(first), int(last) + 1) if dash else range(int(first))
    except ValueError:
        numbers = range(0)
    if not numbers or numbers[0] < 0 or numbers[-1] > MAX_PORT:
        raise UsageError(
            f"--ports {text}: no ports; valid: a number of ports such as 8 (ports 0 to 7), or a range such "
            f"as 1-4, up to port {MAX_PORT}"
        )
    return tuple(numbers)


def read_param(text: str) -> tuple[str, str]:
    """`name=value` as a name and a Python expression; no Python literal is a string. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--test-params {text}: not NAME=VALUE; valid: such as packet_wait_time=0.1")
    try:
        return name, repr(ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return name, repr(value)
