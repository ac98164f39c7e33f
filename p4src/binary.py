# SPDX-License-Identifier: Apache-2.0
"""Compile a Tofino program to what a chip or its model loads: `python p4src/binary.py tofino1 FOLDER`.

Nothing is compiled if the folder has the program of these sources already, or if p4c-barefoot or bfas is not
on PATH; what needs the program then says so.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import build_p4
import release
import tofino


def main() -> int:
    """0: the folder has the program, or the tools are missing; 1: it does not compile; 2: bad usage."""
    chips = {program.name: program for program in build_p4.PROGRAMS if program.chip is not None}
    if len(sys.argv) != 3 or sys.argv[1] not in chips:
        print(f"usage: binary.py PROGRAM FOLDER; valid programs: {sorted(chips)}", file=sys.stderr)
        return 2
    program, folder = chips[sys.argv[1]], Path(sys.argv[2])
    if not tofino.on_path():
        return 0
    chip, made_of = program.chip, build_p4.made_of(program)
    assert chip is not None
    if release.is_left(program.name, chip, folder, made_of):
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        p4info = Path(scratch) / f"{program.name}.p4info.txtpb"
        try:
            tofino.compile_program(program.source, chip, p4info, Path(scratch))
        except tofino.TofinoError as error:
            print(error, file=sys.stderr)
            return 1
        release.leave(program.name, chip, Path(scratch), folder, made_of)
    return 0


if __name__ == "__main__":
    sys.exit(main())
