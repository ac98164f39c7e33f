# SPDX-License-Identifier: Apache-2.0
"""Finds the `ptf` program, runs it on links or on one socket, and records the outcome of each test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.ptf import recorder
from weir.ptf.links import Port
from weir.ptf.results import RECORD
from weir.topo.stop import StopToken

# Prints the path of the `ptf` script that was installed with the package, and nothing without it.
_WHERE = """
import importlib.metadata as metadata
try:
    files = metadata.files("ptf") or []
except metadata.PackageNotFoundError:
    files = []
print(next((file.locate().resolve() for file in files if file.parts[-2:] == ("bin", "ptf")), ""))
"""


class PtfMissingError(Exception):
    """A Python has no PTF; the text says which, and what installs it."""


def find_ptf(python: Path, installs: str) -> Path:
    """PTF's script of a Python. `installs`: the command that installs it, for the error.

    Raises PtfMissingError.
    """
    # Not from this folder: a folder `ptf` in it must not be taken for the package.
    try:
        done = subprocess.run([python, "-c", _WHERE], capture_output=True, text=True, cwd="/", check=False)
    except OSError as error:
        raise PtfMissingError(f"{python}: {error.strerror}; valid: a Python that has PTF") from error
    found = done.stdout.strip()
    if done.returncode != 0 or not found or not Path(found).is_file():
        why = f" ({done.stderr.strip().splitlines()[-1]})" if done.stderr.strip() else ""
        raise PtfMissingError(f"PTF is not installed for {python}{why}; install it with: {installs}")
    return Path(found)


@dataclass(frozen=True)
class PtfRun:
    """One call of PTF: the tests of a folder, on the ports' interfaces or on one socket."""

    python: Path
    ptf: Path
    tests: Path
    ports: Sequence[Port]
    params: Mapping[str, str]
    """PTF's test parameters, as Python expressions."""
    logs: Path
    """Gets ptf.log, ptf.pcap (all frames of all ports) and the record of the outcomes."""
    names: Sequence[str] = ()
    options: Sequence[str] = ()
    socket: str | None = None
    """nanomsg address of the switch's packet ports, in place of interfaces."""
    modules: Sequence[str] = ()
    """Imported before the tests."""

    def command(self) -> list[str]:
        """The command line."""
        record = self.logs / RECORD
        modules = ",".join(self.modules)
        command = [str(self.python), recorder.__file__, modules, str(record), str(self.ptf)]
        command += ["--test-dir", str(self.tests), "--allow-user"]
        command += ["--test-params", ";".join(f"{name}={value}" for name, value in self.params.items())]
        command += ["--log-file", str(self.logs / "ptf.log"), "--debug", "info"]
        if self.socket is not None:
            numbers = ",".join(str(port.number) for port in self.ports)
            command += ["--platform", "nn", "--device-socket", f"0-{{{numbers}}}@{self.socket}"]
        else:
            for port in self.ports:
                command += ["--interface", f"0-{port.number}@{port.interface}"]
        return [*command, *self.options, *self.names]

    def run(self, environment: Mapping[str, str], stop: StopToken | None = None) -> int:
        """PTF's exit code: 0 when no test failed. Its output is this process's. Raises Interrupted."""
        (self.logs / RECORD).unlink(missing_ok=True)
        # No bytecode in the tests' folder, which may be read-only; what tests print stays in its order.
        python = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(self.command(), env={**os.environ, **python, **environment})
        forget = stop.on_stop(process.terminate) if stop is not None else None
        code = process.wait()
        if forget is not None:
            forget()
        if stop is not None:
            stop.raise_if_stopped()
        return code
