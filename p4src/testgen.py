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
from tofino import TOFINO1, TOFINO2, Chip

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "p4src" / "generated"
GENERATOR = "p4testgen"
FIXED_ADDRESSES = ("setarch", "--addr-no-randomize")
"""The order of p4testgen's paths depends on where its objects are, whatever the seed."""
SEED = "1"
PORTS = "1:4"
"""Of the switches in the tests."""
MIRROR = "drop_mirror"
"""That of ingress. p4testgen says nothing of its copies but in its trace."""
MIRRORED = r"\]: tmp_\d+\.(why|tracked|colour) = (\d+);"
"""The copy's fields that a path fixes: of others the trace has values that the test's entries have not."""
WHOLE_BITS = "1024:1024"
"""What the assumptions of p4src/generated/assumptions.p4 are made for."""
REPORTING = "WeirEgress.queue.report_enqueues,WeirEgress.queue.report_queue"
"""Tables that p4testgen leaves alone: it would meet `truncate` behind them, and end there."""
SEPARATOR = "# test "


class GenerateError(Exception):
    """p4testgen is missing or failed; the text says which and why."""


@dataclass(frozen=True)
class Batch:
    """Tests that p4testgen writes in one run."""

    source: str
    tests: int
    """At most so many."""
    packet_bits: str = "0:1024"
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A program, and how p4testgen is called for it."""

    name: str
    options: tuple[str, ...]
    batches: tuple[Batch, ...]
    traced: bool = False
    """Whether the tests are those of Tofino: in STF, with what p4testgen saw on the way in comments."""

    @property
    def scripts(self) -> Path:
        """Where the tests are kept."""
        return SCRIPTS / f"{self.name}.stf"


def tofino(chip: Chip) -> Program:
    """A program of Tofino: any paths, packets with possible lengths, and frames that leave."""
    source = f"p4src/generated/tofino{chip.number}.p4"
    options = ("--target", chip.target, "--arch", chip.arch, f"-D__TARGET_TOFINO__={chip.number}")
    batches = (
        Batch(source, 60, options=("--disable-assumption-mode", "-DASSUMPTIONS=AssumeLengths")),
        Batch(source, 100, WHOLE_BITS, ("-DASSUMPTIONS=AssumeLengths",)),
        Batch(source, 50, WHOLE_BITS, ("-DASSUMPTIONS=AssumeForwarded",)),
    )
    return Program(f"tofino{chip.number}", options, batches, traced=True)


PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        "v1model": Program(
            "weir",
            ("--target", "bmv2", "--arch", "v1model", "--skip-control-plane-entities", REPORTING),
            (
                Batch("p4src/v1model/weir.p4", 150),
                Batch("p4src/generated/weir.p4", 45, WHOLE_BITS, ("-DASSUMPTIONS=AssumeForwarded",)),
            ),
        ),
        "tofino1": tofino(TOFINO1),
        "tofino2": tofino(TOFINO2),
    }
)


def generate(program: Program, batch: Batch, folder: Path, timeout_s: float) -> list[str]:
    """The scripts that p4testgen writes in one run, in its order."""
    command = [*FIXED_ADDRESSES, GENERATOR, *program.options, "--std", "p4-16"]
    command += ["--test-backend", "STF" if program.traced else "PTF"]
    command += ["--seed", SEED, "--max-tests", str(batch.tests), "--port-ranges", PORTS]
    command += ["--packet-size-range", batch.packet_bits, *batch.options, "--track-coverage", "STATEMENTS"]
    command += ["--path-selection", "GREEDY_STATEMENT_SEARCH", "--out-dir", str(folder), batch.source]
    said = folder / "said"
    with said.open("w") as file:
        try:
            code = subprocess.run(command, cwd=ROOT, stdout=file, stderr=file, timeout=timeout_s).returncode
        except subprocess.TimeoutExpired:
            code = 0  # what was written by then is kept
    if code != 0:
        raise GenerateError(f"{batch.source}: {GENERATOR} ends with {code}\n{said.read_text()}")
    covered = re.findall(r"Nodes covered: [\d.]+ \((\d+/\d+)\)", said.read_text())
    print(f"{batch.source}: {covered[-1] if covered else 'none'} statements covered")
    if program.traced:
        written = sorted(folder.glob("*.stf"), key=lambda path: int(path.stem.rpartition("_")[2]))
        return [without_trace(path.read_text()) for path in written]
    return [script for path in sorted(folder.glob("*.py")) for script in record(path.read_text())]


def without_trace(script: str) -> str:
    """A script in STF without its comments; what it says of a mirrored copy becomes a line of its own."""
    lines = [line for line in script.splitlines() if line.strip() and not line.startswith("#")]
    if f"{MIRROR}.emit" in script:
        fields = [f"{name}:{value}" for name, value in re.findall(MIRRORED, script)]
        lines.append(f"mirrored {' '.join(fields)}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


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
    parser.add_argument("--seconds", type=float, default=900, help="for each run (default 900)")
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
        made = []
        for batch in program.batches:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    made += generate(program, batch, Path(folder), given.seconds)
                except (GenerateError, RecordingError) as error:
                    print(error, file=sys.stderr)
                    return 1
        text = "".join(f"{SEPARATOR}{number}\n{shorten(script)}" for number, script in enumerate(made, 1))
        header = "# SPDX-License-Identifier: Apache-2.0\n# Written by p4testgen; see README.md.\n"
        program.scripts.write_text(header + text)
        print(f"{name} -> {program.scripts.relative_to(ROOT)}: {len(made)} tests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
