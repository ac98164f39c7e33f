# SPDX-License-Identifier: Apache-2.0
"""Compile a program for Tofino with the p4c-barefoot and bfas on PATH, and read what it takes of the chip.

The compiler alone proves little: the assembler finds what does not fit. Both must be silent about errors.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import assembly
import parser_paths

ROOT = Path(__file__).resolve().parent.parent
COMPILER = "p4c-barefoot"
ASSEMBLER = "bfas"
WIDTHS = {"PortId_t": 9}
"""Types of the architecture in weir's headers."""
PARSERS = {"ingress": ("WeirIngressParser", "parse_ethernet"), "egress": ("WeirEgressParser", "start")}
"""By direction: the parser, and its first state behind what the hardware puts before a packet."""
WITHOUT_VALID_BIT = {"ingress": frozenset[str](), "egress": frozenset({"bridge"})}
"""Headers whose validity nobody asks for: in front of a packet in egress stands either `mirror` or this."""
METER = "WeirIngress.police.policer"
METER_SAYS = {"green": "0", "yellow": "1", "red": "2", "color_aware": "true", "count": "bytes"}
PRE_COLOUR = "meta.shared.colour_before(0..1)"
COLOUR_AWARE = 6
"""The type of access, in the assembler's numbers, for which the meter takes the packet's colour in."""
STAGE_PARTS = {
    "rams": ("srams", "srams"),
    "map_rams": ("maprams", "map_rams"),
    "tcams": ("tcams", "tcams"),
    "meter_alus": ("meters", "meter_alus"),
    "statistic_alus": ("stats", "statistics_alus"),
    "gateways": ("gateways", "gateways"),
    "logical_tables": ("ids", "logical_tables"),
}
"""Parts of a stage: their name in the compiler's file, that of the list in them, and ours."""


class TofinoError(Exception):
    """The compiler or the assembler is missing, or refused the program; the text says which and why."""


@dataclass(frozen=True)
class Chip:
    """A kind of Tofino, as the compiler and the assembler call it."""

    target: str
    arch: str
    number: int
    """What the architecture's headers want as `__TARGET_TOFINO__`."""


TOFINO1 = Chip("tofino", "tna", 1)
TOFINO2 = Chip("tofino2", "t2na", 2)


def on_path() -> bool:
    """Whether both tools are there."""
    return shutil.which(COMPILER) is not None and shutil.which(ASSEMBLER) is not None


def version() -> str:
    """What the compiler says of its version."""
    done = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    match = re.search(r"^Version\s+(.*)", done.stdout + done.stderr, re.MULTILINE)
    return f"{COMPILER} {match.group(1).strip() if match else 'of unknown version'}"


def run(command: list[str], what: str) -> str:
    """Run a tool in the project's folder; what it printed, or an error with it."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode != 0 or re.search(r"\berror:", said):
        raise TofinoError(f"{what}: {command[0]} ends with {done.returncode} and says\n{said}")
    return said


def compile_program(
    source: str, chip: Chip, p4info: Path, folder: Path, defines: tuple[str, ...] = ()
) -> None:
    """Compile and assemble a program of the project into a folder, and write its P4Info."""
    name = Path(source).stem
    command = [COMPILER, "--target", chip.target, "--arch", chip.arch, "--std", "p4-16", "-g", "--verbose"]
    command += [f"-D__TARGET_TOFINO__={chip.number}", *(f"-D{define}" for define in defines)]
    # Meters, counters, registers and digests as P4Runtime itself has them, like on v1model.
    command += ["--p4runtime-force-std-externs", "--p4runtime-files", str(p4info)]
    run([*command, "-o", str(folder), source], source)
    pipe = folder / "pipe"
    run([ASSEMBLER, "--target", chip.target, "-o", str(pipe), str(pipe / f"{name}.bfa")], source)
    if not (pipe / f"{chip.target}.bin").is_file():
        raise TofinoError(f"{source}: {ASSEMBLER} made no {chip.target}.bin")


def build(
    source: str, chip: Chip, sources: Sequence[Path], p4info: Path, defines: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Compile, assemble and check a program; what it takes of the chip, and what of it was checked."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        compile_program(source, chip, p4info, folder, defines)
        written = folder / "pipe" / f"{Path(source).stem}.bfa"
        check_meter(written.read_text())
        found = assembly.read_assembly(written)
        return resources(folder) | {"parsers": check_parsers(sources, found)}


def check_meter(text: str) -> None:
    """Hold the policers' meter in an assembly against what the source asks of it: colours, and one taken in.

    Raises TofinoError for a meter that would be blind to a packet's colour, or give others than reports have.
    """
    block = re.search(rf"^  meter \S*{re.escape(METER)}:\n((?:    .*\n)+)", text, re.MULTILINE)
    if block is None:
        raise TofinoError(f"the assembly has no meter {METER}")
    says = dict(re.findall(r"^    (\w+): (.*)$", block.group(1), re.MULTILINE))
    if {name: says.get(name) for name in METER_SAYS} != METER_SAYS or "pre_color" not in says:
        raise TofinoError(f"meter {METER} of the assembly says {says}")
    if f": {PRE_COLOUR}\n" not in text or f"{METER}({COLOUR_AWARE}, $hash_dist)" not in text:
        raise TofinoError(f"meter {METER} of the assembly does not take {PRE_COLOUR} in")


def check_parsers(
    sources: Sequence[Path], compiled: dict[str, assembly.AssemblyParser]
) -> dict[str, dict[str, int]]:
    """Hold the parsers of an assembly against their source: one packet for each way through each parser.

    Raises TofinoError for a select that has no way into one of its arms, and for a way that differs.
    """
    source = parser_paths.read_source(sources, WIDTHS)
    text = next(path for path in sources if path.name == "parser.p4")
    report = {}
    for gress, (name, start) in PARSERS.items():
        states = parser_paths.read_parser(text, name, source)
        ways = list(parser_paths.ways(states, source, start))
        taken = {arm for way in ways for arm in way.arms}
        wanted = {
            (state.name, index)
            for state in states.values()
            for index, arm in enumerate(state.arms)
            if arm.target != "reject" and state.name in reachable(states, start)
        }
        if wanted - taken:
            raise TofinoError(f"{name}: no packet was found for {sorted(wanted - taken)}")
        without = {header for way in ways for header in way.headers} - compiled[gress].valid_bits.keys()
        if without != WITHOUT_VALID_BIT[gress]:
            raise TofinoError(f"{name}: the assembly has no valid bits for {sorted(without)}")
        for way in ways:
            made = compiled[gress].parse(way.packet)
            wanted_headers = way.headers - without
            if made != (wanted_headers, way.header_bytes):
                raise TofinoError(
                    f"{name}: by {way.arms} the source takes {sorted(wanted_headers)},"
                    f" {way.header_bytes} bytes, the assembly {sorted(made[0])}, {made[1]} bytes"
                )
        report[gress] = {"arms": len(wanted), "ways": len(ways), "selects": compiled[gress].selects()}
    return report


def reachable(states: dict[str, parser_paths.State], start: str) -> set[str]:
    """The states that a parser comes to."""
    found: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in states and name not in found:
            found.add(name)
            todo.extend(arm.target for arm in states[name].arms)
    return found


def resources(folder: Path) -> dict[str, Any]:
    """What a compiled program takes: of each stage, and in all."""
    found = json.loads((folder / "pipe" / "logs" / "resources.json").read_text())["resources"]
    mau = found["mau"]
    stages = [stage_resources(stage) for stage in sorted(mau["mau_stages"], key=lambda s: s["stage_number"])]
    used = [stage for stage in stages if stage["logical_tables"]]
    return {
        "stages": {"used": len(used), "available": mau["nStages"]},
        "total": dict(sum((Counter(stage) for stage in stages), Counter())),
        "per_stage": stages,
        "parser_states": {parser["gress"]: len(parser["states"]) for parser in found["parser"]["parsers"]},
    }


def stage_resources(stage: dict[str, Any]) -> dict[str, int]:
    """How many of each part one stage has in use."""
    return {ours: len(stage[part][items]) for part, (items, ours) in STAGE_PARTS.items()}
