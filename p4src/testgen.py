# SPDX-License-Identifier: Apache-2.0
"""Have p4testgen write packet tests for each of the pipeline's programs: `make testgen`.

p4testgen executes a program symbolically and writes, for one path after another, entries, a packet and what
must leave. What it wrote is committed in STF, one file for each program, so that nobody needs it to run them.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from recorder import RecordingError, record

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "p4src" / "generated"
GENERATOR = "p4testgen"
SEED = "1"
PORTS = "1:4"
"""Of the switches in the tests."""
PACKET_BITS = "0:1024"
SEPARATOR = "# test "


class GenerateError(Exception):
    """p4testgen is missing or failed; the text says which and why."""


@dataclass(frozen=True)
class Program:
    """A program, and how p4testgen is called for it."""

    source: str
    options: tuple[str, ...]
    tests: int
    """At most so many."""

    @property
    def scripts(self) -> Path:
        """Where the tests are kept."""
        return SCRIPTS / f"{Path(self.source).stem}.stf"


PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        "v1model": Program("p4src/v1model/weir.p4", ("--target", "bmv2", "--arch", "v1model"), 150),
    }
)


def generate(program: Program, folder: Path, timeout_s: float) -> list[str]:
    """The scripts that p4testgen writes for a program, in its order."""
    command = [GENERATOR, *program.options, "--std", "p4-16", "--test-backend", "PTF"]
    command += ["--seed", SEED, "--max-tests", str(program.tests), "--port-ranges", PORTS]
    command += ["--packet-size-range", PACKET_BITS]
    command += ["--path-selection", "GREEDY_STATEMENT_SEARCH", "--out-dir", str(folder), program.source]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        done = None  # what was written by then is kept
    if done is not None and done.returncode != 0:
        raise GenerateError(f"{program.source}: {GENERATOR} ends with {done.returncode}\n{done.stderr}")
    return [script for path in sorted(folder.glob("*.py")) for script in record(path.read_text())]


def shorten(script: str) -> str:
    """The same with hexadecimal digits instead of bits where no digit has both fixed and free bits."""
    return re.sub(r"(?<=:)0b(\*?)([01*]*)", _in_digits, script)


def _in_digits(match: re.Match[str]) -> str:
    bits = match.group(2)
    digits = [bits[at : at + 4] for at in range(0, len(bits), 4)]
    if not bits.strip("*"):
        return "0x*"
    if len(bits) % 4 or any("*" in digit and digit != "****" for digit in digits):
        return match.group(0)
    shown = "".join("*" if digit == "****" else f"{int(digit, 2):x}" for digit in digits)
    return f"0x{match.group(1)}{shown}"


def main() -> int:
    """Write the tests of the programs asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", choices=sorted(PROGRAMS), action="append", help="default: all")
    parser.add_argument("--seconds", type=float, default=600, help="for each program (default 600)")
    given = parser.parse_args()
    if shutil.which(GENERATOR) is None:
        print(
            f"{GENERATOR} is not on PATH: p4c has it when it is built with ENABLE_TEST_TOOLS"
            " (https://github.com/p4lang/p4c)",
            file=sys.stderr,
        )
        return 1
    for name in given.program or PROGRAMS:
        program = PROGRAMS[name]
        with tempfile.TemporaryDirectory() as folder:
            try:
                made = generate(program, Path(folder), given.seconds)
            except (GenerateError, RecordingError) as error:
                print(error, file=sys.stderr)
                return 1
        text = "".join(f"{SEPARATOR}{number}\n{shorten(script)}" for number, script in enumerate(made, 1))
        header = "# SPDX-License-Identifier: Apache-2.0\n# Written by p4testgen; see README.md.\n"
        program.scripts.write_text(header + text)
        print(f"{program.source} -> {program.scripts.relative_to(ROOT)}: {len(made)} tests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
