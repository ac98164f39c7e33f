# SPDX-License-Identifier: Apache-2.0
"""Compile a program for Tofino with the p4c-barefoot and bfas on PATH, and read the resources that it uses.

The compiler alone proves little: the assembler finds what does not fit. Neither may print an error.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
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
"""Bits of the architecture's types in weir's headers."""
PARSERS = {"ingress": ("WeirIngressParser", "parse_ethernet"), "egress": ("WeirEgressParser", "start")}
"""By direction: the parser, and its first state after the metadata that the hardware puts before a packet."""
WITHOUT_VALID_BIT = {"ingress": frozenset[str](), "egress": frozenset({"bridge"})}
"""Headers whose validity is never read: a packet in egress begins with either `mirror` or this header."""
METER = "WeirIngress.police.policer"
METER_FIELDS = {"green": "0", "yellow": "1", "red": "2", "color_aware": "true", "count": "bytes"}
PRE_COLOUR = "meta.shared.colour_before(0..1)"
COLOUR_AWARE = 6
"""The assembler's number of the meter access with a packet colour as input."""
STAGE_PARTS = {
    "rams": ("srams", "srams"),
    "map_rams": ("maprams", "map_rams"),
    "tcams": ("tcams", "tcams"),
    "meter_alus": ("meters", "meter_alus"),
    "statistic_alus": ("stats", "statistics_alus"),
    "gateways": ("gateways", "gateways"),
    "logical_tables": ("ids", "logical_tables"),
}
"""Parts of a stage: by name in the compiler's file, the name of its list, and the name here."""


class TofinoError(Exception):
    """The compiler or the assembler is missing, or refused the program; the message says which and why."""


@dataclass(frozen=True)
class Chip:
    """A Tofino chip, by the compiler's and the assembler's names."""

    target: str
    arch: str
    number: int
    """The architecture's `__TARGET_TOFINO__`."""


TOFINO1 = Chip("tofino", "tna", 1)
TOFINO2 = Chip("tofino2", "t2na", 2)


def on_path() -> bool:
    """Whether both tools are on PATH."""
    return shutil.which(COMPILER) is not None and shutil.which(ASSEMBLER) is not None


def version() -> str:
    """The compiler's name and the version that it prints."""
    done = subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True)
    match = re.search(r"^Version\s+(.*)", done.stdout + done.stderr, re.MULTILINE)
    return f"{COMPILER} {match.group(1).strip() if match else 'of unknown version'}"


def run(command: list[str], what: str) -> str:
    """Run a tool in the project's folder and return its output.

    Raises TofinoError, with the output, if the tool fails or prints an error.
    """
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode != 0 or re.search(r"\berror:", said):
        raise TofinoError(f"{what}: {command[0]} ends with {done.returncode} and says\n{said}")
    return said


def compile_program(
    source: str, chip: Chip, p4info: Path, folder: Path, defines: tuple[str, ...] = ()
) -> None:
    """Compile and assemble a program of the project into a folder, with bf-rt.json, and write its P4Info."""
    name = Path(source).stem
    command = [COMPILER, "--target", chip.target, "--arch", chip.arch, "--std", "p4-16", "-g", "--verbose"]
    command += [f"-D__TARGET_TOFINO__={chip.number}", *(f"-D{define}" for define in defines)]
    # Meters, counters, registers and digests as P4Runtime's standard entities, as on v1model.
    command += ["--p4runtime-force-std-externs", "--p4runtime-files", str(p4info)]
    command += ["--bf-rt-schema", str(folder / "bf-rt.json")]
    run([*command, "-o", str(folder), source], source)
    pipe = folder / "pipe"
    run([ASSEMBLER, "--target", chip.target, "-o", str(pipe), str(pipe / f"{name}.bfa")], source)
    if not (pipe / f"{chip.target}.bin").is_file():
        raise TofinoError(f"{source}: {ASSEMBLER} made no {chip.target}.bin")


def build(
    source: str, chip: Chip, sources: Sequence[Path], folder: Path, defines: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Compile, assemble and check a program; its resources, and how much of its parsers was checked.

    The folder has the compiler's output then, with P4Info and bf-rt.json.
    """
    name = Path(source).stem
    compile_program(source, chip, folder / f"{name}.p4info.txtpb", folder, defines)
    written = folder / "pipe" / f"{name}.bfa"
    check_meter(written.read_text())
    found = assembly.read_assembly(written)
    return resources(folder) | {"parsers": check_parsers(sources, found)}


def schema_by_line(text: str) -> str:
    """A bf-rt.json with one table on a line: a third of the size, and a change is the table's line."""
    parts: dict[str, Any] = json.loads(text)
    lines = []
    for key, value in parts.items():
        rows = value if isinstance(value, list) else None
        shown = [json.dumps(row, separators=(",", ":")) for row in rows or ()]
        lines.append(
            f"{json.dumps(key)}:" + (json.dumps(value) if rows is None else "[\n" + ",\n".join(shown) + "\n]")
        )
    return "{" + ",\n".join(lines) + "}\n"


def check_meter(text: str) -> None:
    """Check in an assembly that the policers' meter is colour-aware and has the colour codes of reports.

    Raises TofinoError for a meter that would ignore a packet's colour, or whose codes differ from those of
    reports.
    """
    block = re.search(rf"^  meter \S*{re.escape(METER)}:\n((?:    .*\n)+)", text, re.MULTILINE)
    if block is None:
        raise TofinoError(f"the assembly has no meter {METER}")
    fields = dict(re.findall(r"^    (\w+): (.*)$", block.group(1), re.MULTILINE))
    if {name: fields.get(name) for name in METER_FIELDS} != METER_FIELDS or "pre_color" not in fields:
        raise TofinoError(f"meter {METER} of the assembly has {fields}, not {METER_FIELDS} and pre_color")
    if f": {PRE_COLOUR}\n" not in text or f"{METER}({COLOUR_AWARE}, $hash_dist)" not in text:
        raise TofinoError(f"meter {METER} of the assembly does not have {PRE_COLOUR} as input")


def check_parsers(
    sources: Sequence[Path], compiled: dict[str, assembly.AssemblyParser]
) -> dict[str, dict[str, int]]:
    """Compare the parsers of an assembly with their source: one packet for each path through each parser.

    Raises TofinoError for an arm of a select that no packet takes, and for a path that differs.
    """
    source = parser_paths.read_source(sources, WIDTHS)
    text = next(path for path in sources if path.name == "parser.p4")
    report = {}
    for gress, (name, start) in PARSERS.items():
        states = parser_paths.read_parser(text, name, source)
        paths = list(parser_paths.all_paths(states, source, start))
        taken = {arm for path in paths for arm in path.arms}
        wanted = {
            (state.name, index)
            for state in states.values()
            for index, arm in enumerate(state.arms)
            if arm.target != "reject" and state.name in reachable(states, start)
        }
        if wanted - taken:
            raise TofinoError(f"{name}: no packet was found for {sorted(wanted - taken)}")
        without = {header for path in paths for header in path.headers} - compiled[gress].valid_bits.keys()
        if without != WITHOUT_VALID_BIT[gress]:
            raise TofinoError(f"{name}: the assembly has no valid bits for {sorted(without)}")
        for path in paths:
            made = compiled[gress].parse(path.packet)
            wanted_headers = path.headers - without
            if made != (wanted_headers, path.header_bytes):
                raise TofinoError(
                    f"{name}: on path {path.arms} the source extracts {sorted(wanted_headers)},"
                    f" {path.header_bytes} bytes, the assembly {sorted(made[0])}, {made[1]} bytes"
                )
        report[gress] = {"arms": len(wanted), "ways": len(paths), "selects": compiled[gress].selects()}
    return report


def reachable(states: dict[str, parser_paths.State], start: str) -> set[str]:
    """The states that a parser can reach from a start state."""
    found: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in states and name not in found:
            found.add(name)
            todo.extend(arm.target for arm in states[name].arms)
    return found


def resources(folder: Path) -> dict[str, Any]:
    """Resources of a compiled program, per stage and in total."""
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
    """Number of each part that one stage uses."""
    return {ours: len(stage[part][items]) for part, (items, ours) in STAGE_PARTS.items()}
