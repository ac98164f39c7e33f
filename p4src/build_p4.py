# SPDX-License-Identifier: Apache-2.0
"""Compile the P4 programs with the p4c on PATH and record where the output came from.

The output is committed, so that nobody needs p4c to run weir. `provenance.json` beside it holds the
compiler's version and the SHA-256 of each source and output; `build_p4_test.py` fails when they disagree.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import release
import tofino

ROOT = Path(__file__).resolve().parent.parent
COMPILER = "p4c-bm2-ss"
PROVENANCE = release.PROVENANCE
RELEASE = ROOT / "target" / "p4"
"""Where the programs for chips are left, a folder each, ready to be loaded; not committed."""


@dataclass(frozen=True)
class Program:
    """A P4 program and the folder of its compiled form, both relative to the project."""

    source: str
    build: str
    accepted: str = ""
    """Text of a compiler warning that cannot be avoided; any other warning is an error."""
    chip: tofino.Chip | None = None
    """The program's Tofino; None for bmv2 and the embedded switch."""

    @property
    def name(self) -> str:
        """The program's name: its file name without the suffix."""
        return Path(self.source).stem

    @property
    def outputs(self) -> tuple[str, ...]:
        """File names: of the BMv2 JSON and the P4Info, or of a chip's resources, P4Info and bf-rt.json."""
        p4info = f"{self.name}.p4info.txtpb"
        if self.chip is None:
            return f"{self.name}.json", p4info
        return f"{self.name}.resources.json", p4info, f"{self.name}.{release.BF_RT}"

    @property
    def compilable(self) -> bool:
        """Whether its compiler is on PATH."""
        return shutil.which(COMPILER) is not None if self.chip is None else tofino.on_path()


PROGRAMS = (
    Program("p4src/v1model/weir.p4", "p4src/build"),
    Program("p4src/tna/tofino1.p4", "p4src/build", chip=tofino.TOFINO1),
    Program("p4src/tna/tofino2.p4", "p4src/build", chip=tofino.TOFINO2),
    Program("softswitch/programs/l2_learning.p4", "softswitch/programs"),
    Program("softswitch/programs/ipv4_router.p4", "softswitch/programs"),
    *(
        Program(f"softswitch/dataplane/tests/programs/{name}.p4", "softswitch/dataplane/tests/programs")
        for name in (
            "arithmetic",
            "checksums",
            "copies",
            "deflection",
            "hashes",
            "logs",
            "matches",
            "parsers",
            "queueing",
            "unions",
            "value_sets",
            "varbits",
        )
    ),
    Program("ptf-tests/example/nat.p4", "ptf-tests/example/build"),
    Program("softswitch/switch/tests/programs/entities.p4", "softswitch/switch/tests/programs"),
    # p4c gives each table with an action profile a default action, and then warns of it.
    Program(
        "softswitch/programs/mixture.p4",
        "softswitch/programs",
        accepted="does not support default_action",
    ),
    Program(
        "softswitch/switch/tests/programs/features.p4",
        "softswitch/switch/tests/programs",
        accepted="does not support default_action",
    ),
)


class CompileError(Exception):
    """p4c is missing or refused a program; the message says which and why."""


def sha256(path: Path) -> str:
    """Digest of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sources(program: Program) -> list[Path]:
    """The program's file and every project file that it includes, directly or not, in order of name."""
    return sources_of(ROOT / program.source)


def sources_of(source: Path) -> list[Path]:
    """As :func:`sources`, for a file."""
    found: set[Path] = set()
    todo = [source]
    while todo:
        path = todo.pop()
        if path in found:
            continue
        found.add(path)
        for name in re.findall(r'^\s*#include\s+"([^"]+)"', path.read_text(), re.MULTILINE):
            todo.append((path.parent / name).resolve())
    return sorted(found)


def digests(program: Program) -> dict[str, str]:
    """SHA-256 of each source, by its path relative to the project."""
    return {str(path.relative_to(ROOT)): sha256(path) for path in sources(program)}


def compiler_version(program: Program) -> str:
    """The name of the compiler on PATH and the version that it prints."""
    if program.chip is not None:
        return tofino.version()
    done = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    said = done.stdout + done.stderr
    match = re.search(r"Version\s+(.*)", said)
    return f"{COMPILER} {match.group(1).strip() if match else said.strip()}"


def compile_program(program: Program, folder: Path) -> None:
    """Write the program's outputs into a folder."""
    if program.chip is not None:
        _compile_for_chip(program, program.chip, folder)
        return
    json_name, p4info_name = program.outputs
    # Relative to the project, so that no path of this machine ends in the output.
    command = [COMPILER, "--std", "p4-16", "-o", str(folder / json_name)]
    command += ["--p4runtime-files", str(folder / p4info_name), program.source]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    warnings = [line for line in done.stderr.splitlines() if "warning:" in line]
    accepted = bool(warnings and program.accepted) and all(program.accepted in line for line in warnings)
    if done.returncode != 0 or (done.stderr.strip() and not accepted):
        raise CompileError(f"{program.source}: {COMPILER} says\n{done.stderr}")


def _compile_for_chip(program: Program, chip: tofino.Chip, folder: Path) -> None:
    resources, _, schema = program.outputs
    report = tofino.build(program.source, chip, sources(program), folder)
    (folder / resources).write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")
    (folder / schema).write_text(tofino.schema_by_line((folder / release.BF_RT).read_text()))


def made_of(program: Program) -> dict[str, Any]:
    """The compiler on PATH, and the digests of the sources."""
    return {"compiler": compiler_version(program), "sources": digests(program)}


def rebuild(program: Program) -> None:
    """Compile a program in place, with its provenance; one for a chip also into :data:`RELEASE`.

    Raises CompileError or TofinoError.
    """
    build = ROOT / program.build
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        compile_program(program, Path(scratch))
        for name in program.outputs:
            shutil.copy(Path(scratch) / name, build / name)
        if program.chip is not None:
            folder = RELEASE / program.name
            release.leave(program.name, program.chip, Path(scratch), folder, made_of(program))
    record = provenance(build)
    record[program.name] = made_of(program) | {
        "outputs": {name: sha256(build / name) for name in program.outputs}
    }
    (build / PROVENANCE).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")


def provenance(build: Path) -> dict[str, Any]:
    """The provenance of the programs compiled into a folder, by program name."""
    path = build / PROVENANCE
    recorded: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return recorded


def main() -> int:
    """Compile all programs in place, with their provenance."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    if shutil.which(COMPILER) is None:
        print(
            f"{COMPILER} is not on PATH; install the package p4lang-p4c (https://github.com/p4lang/p4c)",
            file=sys.stderr,
        )
        return 1
    for program in PROGRAMS:
        if not program.compilable:
            needed = f"{tofino.COMPILER} and {tofino.ASSEMBLER}"
            print(f"{program.source} left as it is: {needed} (p4c with ENABLE_TOFINO) are not on PATH")
            continue
        try:
            rebuild(program)
        except (CompileError, tofino.TofinoError) as error:
            print(error, file=sys.stderr)
            return 1
        left = "" if program.chip is None else f", {(RELEASE / program.name).relative_to(ROOT)}"
        print(f"{program.source} -> {program.build}{left}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
