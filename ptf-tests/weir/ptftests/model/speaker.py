# SPDX-License-Identifier: Apache-2.0
"""A program that speaks the harness's language, for tests of its driver; it is no model of anything."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from finsy.proto import p4i
from google.protobuf import text_format

from weir.controlplane.shipped import pipeline_directory
from weir.ptftests.model.chips import Chip
from weir.ptftests.model.program import CONTEXT

SPEAKER = """#!{python}
import os, sys
frames = open(sys.argv[2], "a", buffering=1)
for place, word in enumerate(sys.argv):
    if word == "-l" and not os.path.exists(sys.argv[place + 1]):
        print(f"Can't open {{sys.argv[place + 1]}}", flush=True)
waiting = []
for number, line in enumerate(sys.stdin, 1):
    command, _, rest = line.strip().partition(" ")
    if command == "packet":
        if not rest.startswith("128 "):
            waiting.append(rest)
    elif command == "wait":
        for frame in waiting:
            frames.write(frame.upper() + "\\n")
        waiting.clear()
    elif command in ("load", "add"):
        with open("commands", "a") as log:
            log.write(line)
    elif command == "check_counter":
        print(f"counter {{rest}}(virtual 0): packets=9 bytes=9", flush=True)
        print(f"counter {{rest}}(physical 0): packets=3 bytes=180", flush=True)
    elif command == "say":
        print(rest, flush=True)
    elif command == "abort":
        print("an assertion failed", flush=True)
        os.abort()
    elif command == "end":
        sys.exit(3)
    elif command == "hang":
        sys.stdin.read()
    else:
        print(f"<stdin>:{{number}}: Unknown command {{command}}", file=sys.stderr, flush=True)
"""


def install(chip: Chip, folder: Path) -> None:
    """Put the program into a folder, under the name of a chip's harness."""
    folder.mkdir()
    program = folder / chip.harness
    program.write_text(SPEAKER.format(python=sys.executable))
    program.chmod(0o755)


def read_p4info(chip: Chip) -> p4i.P4Info:
    """The P4Info of a chip's program."""
    return text_format.Parse(p4info_path(chip).read_text(), p4i.P4Info())


def p4info_path(chip: Chip) -> Path:
    """The file of that P4Info."""
    return pipeline_directory() / f"{chip.name}.p4info.txtpb"


def write_program(chip: Chip, folder: Path) -> Path:
    """A binary without content, beside a context with the memories of the program's meters and registers."""
    p4info = read_p4info(chip)
    tables = [_table("meter", meter.preamble.name, range(6, 12)) for meter in p4info.meters]
    tables += [_table("stateful", register.preamble.name, (18, 19)) for register in p4info.registers]
    (folder / CONTEXT).write_text(json.dumps({"tables": tables}))
    binary = folder / chip.binary
    binary.write_bytes(b"")
    return binary


def _table(kind: str, name: str, units: Iterable[int]) -> dict[str, Any]:
    numbered = list(units)
    places = [{"memory_units": numbered, "vpns": list(range(len(numbered)))}]
    stage = {"stage_number": 4, "memory_resource_allocation": {"memory_units_and_vpns": places}}
    return {"name": name, "table_type": kind, "stage_tables": [stage]}
