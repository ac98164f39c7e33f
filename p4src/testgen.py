# SPDX-License-Identifier: Apache-2.0
"""Have p4testgen write packet tests for each of the pipeline's programs: `make testgen`.

p4testgen executes a program symbolically and writes, for one path after another, entries, a packet and what
must leave. What it wrote is committed in STF, one file for each program, so that nobody needs it to run them;
`provenance.json` beside it holds its version and the SHA-256 of each source and output.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import build_p4
from recorder import RecordingError, record
from tofino import TOFINO1, TOFINO2, Chip

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "p4src" / "generated"
GENERATOR = "p4testgen"
FIXED_ADDRESSES = ("setarch", "--addr-no-randomize")
"""p4testgen's order of paths depends on the addresses of its objects, whatever the seed. So its environment
and the names of its files are always the same too."""
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}
FOLDER = Path("target") / "testgen"
SEED = "1"
PORTS = "1:4"
"""Ports of the switches in the tests."""
MIRROR = "drop_mirror"
"""The mirror of ingress. Its copies appear only in p4testgen's trace."""
MIRRORED = r"\]: tmp_\d+\.(why|tracked|colour) = (\d+);"
"""The copy's fields that a path determines. For others, the trace has values that differ from the test's
entries."""
WHOLE_BITS = "1024:1024"
"""The packet size for which p4src/generated/assumptions.p4 was written."""
REPORT_SESSION, REPORT_PORT = 7, 4
"""Session and port of the mirrored copies in p4src/generated/weir_reports.p4."""
REPORT_NUMBERS = (slice(86, 92), slice(132, 164), slice(188, 196))
"""Digits of a report that depend on the switch's past and its clock: sequence, times, packet number."""
REPORT_FLAGS, DROPPED = slice(106, 107), 8
REPORTING = "WeirEgress.queue.report_enqueues,WeirEgress.queue.report_queue"
"""Tables for which p4testgen makes no entries: it would reach `truncate` after them, and end there."""
SEPARATOR = "# test "


class GenerateError(Exception):
    """p4testgen is missing or failed; the message says which and why."""


@dataclass(frozen=True)
class Batch:
    """Tests that p4testgen writes in one run."""

    source: str
    tests: int
    """The largest number of tests."""
    packet_bits: str = "0:1024"
    options: tuple[str, ...] = ()
    reports: bool = False
    """Whether the expected frame is a report of the packet, on v1model."""


@dataclass(frozen=True)
class Program:
    """A program, and the options of p4testgen for it."""

    name: str
    options: tuple[str, ...]
    batches: tuple[Batch, ...]
    traced: bool = False
    """Whether the tests are those of Tofino: in STF, with p4testgen's trace in comments."""

    @property
    def scripts(self) -> Path:
        """The file of the tests."""
        return SCRIPTS / f"{self.name}.stf"


def tofino(chip: Chip) -> Program:
    """Ingress of a Tofino program: any packets, possible lengths, frames that leave, red packets."""
    source = f"p4src/generated/tofino{chip.number}.p4"
    batches = (
        Batch(source, 40, options=("--disable-assumption-mode", "-DASSUMPTIONS=AssumeLengths")),
        Batch(source, 60, WHOLE_BITS, ("-DASSUMPTIONS=AssumeLengths",)),
        Batch(source, 15, WHOLE_BITS, ("-DASSUMPTIONS=AssumeForwarded",)),
        Batch(source, 10, WHOLE_BITS, ("-DASSUMPTIONS=AssumeRed",)),
    )
    return Program(f"tofino{chip.number}", options_of(chip), batches, traced=True)


def tofino_reports(chip: Chip) -> Program:
    """A Tofino program from the packet to its report: packets that are dropped and packets that pass."""
    source = f"p4src/generated/tofino{chip.number}_reports.p4"
    batches = (
        Batch(source, 50, WHOLE_BITS, ("-DASSUMPTIONS=AssumeLengths",)),
        Batch(source, 10, WHOLE_BITS, ("-DASSUMPTIONS=AssumeRed",)),
        Batch(source, 10, WHOLE_BITS, ("-DASSUMPTIONS=AssumeForwarded",)),
    )
    return Program(f"tofino{chip.number}_reports", options_of(chip), batches, traced=True)


def options_of(chip: Chip) -> tuple[str, ...]:
    """p4testgen's options for a chip; its meters return their input colour."""
    return (
        *("--target", chip.target, "--arch", chip.arch),
        *(f"-D__TARGET_TOFINO__={chip.number}", "-DRED_BEFORE=2"),
    )


V1MODEL_REPORTS = "p4src/generated/weir_reports.p4"
PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        "v1model": Program(
            "weir",
            ("--target", "bmv2", "--arch", "v1model", "--skip-control-plane-entities", REPORTING),
            (
                Batch("p4src/v1model/weir.p4", 150),
                Batch("p4src/generated/weir.p4", 20, WHOLE_BITS, ("-DASSUMPTIONS=AssumeForwarded",)),
                *(
                    Batch(V1MODEL_REPORTS, tests, WHOLE_BITS, (f"-DASSUMPTIONS={name}",), reports=True)
                    for name, tests in (("AssumeLengths", 24), ("AssumeRed", 6), ("AssumeForwarded", 6))
                ),
            ),
        ),
        "tofino1": tofino(TOFINO1),
        "tofino2": tofino(TOFINO2),
        "tofino1_reports": tofino_reports(TOFINO1),
        "tofino2_reports": tofino_reports(TOFINO2),
    }
)


def generate(program: Program, batch: Batch, folder: Path, timeout_s: float) -> list[str]:
    """Run p4testgen with a folder of the project; its scripts, in its order."""
    shutil.rmtree(ROOT / folder, ignore_errors=True)
    (ROOT / folder).mkdir(parents=True)
    command = [*FIXED_ADDRESSES, shutil.which(GENERATOR) or GENERATOR, *program.options, "--std", "p4-16"]
    command += ["--test-backend", "STF" if program.traced else "PTF"]
    command += ["--seed", SEED, "--max-tests", str(batch.tests), "--port-ranges", PORTS]
    command += ["--packet-size-range", batch.packet_bits, *batch.options, "--track-coverage", "STATEMENTS"]
    command += ["--path-selection", "GREEDY_STATEMENT_SEARCH", "--out-dir", str(folder), batch.source]
    said = ROOT / folder / "said"
    with said.open("w") as file:
        try:
            code = subprocess.run(
                command, cwd=ROOT, env=ENVIRONMENT, stdout=file, stderr=file, timeout=timeout_s
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise GenerateError(
                f"{batch.source}: {GENERATOR} takes longer than {timeout_s:.0f} s; valid: a larger --seconds"
            ) from error
    if code != 0:
        raise GenerateError(f"{batch.source}: {GENERATOR} ends with {code}\n{said.read_text()}")
    covered = re.findall(r"Nodes covered: [\d.]+ \((\d+/\d+)\)", said.read_text())
    print(f"{batch.source}: {covered[-1] if covered else 'none'} statements covered", flush=True)
    if program.traced:
        written = sorted(said.parent.glob("*.stf"), key=lambda path: int(path.stem.rpartition("_")[2]))
        return [without_trace(path.read_text()) for path in written]
    scripts = [script for path in sorted(said.parent.glob("*.py")) for script in record(path.read_text())]
    return [for_real_switches(script) for script in scripts] if batch.reports else scripts


def for_real_switches(script: str) -> str:
    """A v1model script with a report, for real switches: with session and packet, without exact times."""
    match = re.fullmatch(rf"(.*)expect {REPORT_PORT} (\S+)\$\n", script, re.DOTALL)
    if match is None:
        raise RecordingError(f"no report leaves through port {REPORT_PORT}:\n{script}")
    # Every packet is reported, so that a flow's count from an earlier script does not matter.
    before, report = re.sub(r"\bevery:\w+", "every:0x1", match.group(1)), list(match.group(2))
    lines = [f"mirroring_add {REPORT_SESSION} {REPORT_PORT}\n{before}"]
    if not int("".join(report[REPORT_FLAGS]), 16) & DROPPED:
        (port,) = re.findall(r"\.set_(?:numbered_)?egress\(port:(\w+)\)", before)
        lines.append(f"expect {int(port, 0)}\n")
    for digits in REPORT_NUMBERS:
        report[digits] = "*" * (digits.stop - digits.start)
    return f"{''.join(lines)}expect {REPORT_PORT} {''.join(report)}$\n"


def without_trace(script: str) -> str:
    """A script in STF without its comments; the fields of a mirrored copy become a separate line."""
    lines = [line for line in script.splitlines() if line.strip() and not line.startswith("#")]
    if f"{MIRROR}.emit" in script:
        fields = [f"{name}:{value}" for name, value in re.findall(MIRRORED, script)]
        lines.append(f"mirrored {' '.join(fields)}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def shorten(script: str) -> str:
    """The script with hexadecimal digits instead of bits where no digit has both fixed and free bits."""
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


def sources(program: Program) -> dict[str, str]:
    """SHA-256 of each source of a program's tests, by its path relative to the project."""
    files = {batch.source for batch in program.batches}
    paths = {path for file in files for path in build_p4.sources_of(ROOT / file)}
    return {str(path.relative_to(ROOT)): build_p4.sha256(path) for path in sorted(paths)}


def version() -> str:
    """The version that p4testgen prints, which can be none, and therefore that of the p4c on PATH too."""
    done = subprocess.run(
        [GENERATOR, "--target", "bmv2", "--arch", "v1model", "--version"], capture_output=True, text=True
    )
    match = re.search(r"^Version (.*)", done.stdout + done.stderr, re.MULTILINE)
    said = match.group(1).strip() if match else "<null>"
    if shutil.which(build_p4.COMPILER) is None:
        return f"{GENERATOR} {said}"
    beside = subprocess.run([build_p4.COMPILER, "--version"], capture_output=True, text=True, check=True)
    of_p4c = re.search(r"Version\s+(.*)", beside.stdout + beside.stderr)
    return f"{GENERATOR} {said}, beside {build_p4.COMPILER} {of_p4c.group(1).strip() if of_p4c else '<null>'}"


def main() -> int:
    """Write the tests of the selected programs, with their provenance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", choices=sorted(PROGRAMS), action="append", help="default: all")
    parser.add_argument("--seconds", type=float, default=1800, help="for each run (default 1800)")
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
        for number, batch in enumerate(program.batches, 1):
            try:
                made += generate(program, batch, FOLDER / f"{name}-{number}", given.seconds)
            except (GenerateError, RecordingError) as error:
                print(error, file=sys.stderr)
                return 1
        text = "".join(f"{SEPARATOR}{number}\n{shorten(script)}" for number, script in enumerate(made, 1))
        header = "# SPDX-License-Identifier: Apache-2.0\n# Written by p4testgen; see README.md.\n"
        program.scripts.write_text(header + text)
        recorded = build_p4.provenance(SCRIPTS)
        recorded[name] = {
            "generator": version(),
            "seed": SEED,
            "sources": sources(program),
            "outputs": {program.scripts.name: build_p4.sha256(program.scripts)},
        }
        (SCRIPTS / build_p4.PROVENANCE).write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
        print(f"{name} -> {program.scripts.relative_to(ROOT)}: {len(made)} tests", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
