# SPDX-License-Identifier: Apache-2.0
"""Compile a Tofino program to what a chip or its model loads: `python p4src/binary.py tofino1 FOLDER`.

Nothing is compiled if the folder has the program of these sources already, or if p4c-barefoot or bfas is not
on PATH; what needs the program then says so.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import build_p4
import tofino

SOURCES = "sources.json"
"""In the folder: the digests of the sources and the compiler that it was made of."""


def main() -> int:
    """0: the folder has the program, or the tools are missing; 1: it does not compile; 2: bad usage."""
    chips = {program.name: program for program in build_p4.PROGRAMS if program.chip is not None}
    if len(sys.argv) != 3 or sys.argv[1] not in chips:
        print(f"usage: binary.py PROGRAM FOLDER; valid programs: {sorted(chips)}", file=sys.stderr)
        return 2
    program, folder = chips[sys.argv[1]], Path(sys.argv[2])
    if not tofino.on_path():
        return 0
    made_of = {"compiler": tofino.version(), "sources": build_p4.digests(program)}
    record = folder / SOURCES
    if record.is_file() and json.loads(record.read_text()) == made_of:
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    assert program.chip is not None
    try:
        tofino.compile_program(
            program.source, program.chip, folder.resolve() / program.outputs[1], folder.resolve()
        )
    except tofino.TofinoError as error:
        print(error, file=sys.stderr)
        return 1
    record.write_text(json.dumps(made_of, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
