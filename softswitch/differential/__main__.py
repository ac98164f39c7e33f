# SPDX-License-Identifier: Apache-2.0
"""Compare weir-switch with bmv2 over several seeds: `python softswitch/differential --seeds 5`."""

import argparse
import json
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from comparison import compare, problem
from subjects import REPOSITORY, SUBJECTS

COUNTED = ("entries", "packets", "frames", "counters", "digests", "colours")


def main() -> int:
    """0 when there was no difference or could be no comparison, which is said; 1 when there was one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many, one after the other (default 3)")
    parser.add_argument("--first-seed", type=int, help="the first (default: drawn at random, and printed)")
    parser.add_argument("--packets", type=int, default=1000, help="per program and seed (default 1000)")
    parser.add_argument("--program", choices=sorted(SUBJECTS), action="append", help="default: all")
    parser.add_argument("--switch", type=Path, help="the weir-switch binary (default: the one installed)")
    given = parser.parse_args()
    why_not = problem()
    if why_not is not None:
        print(json.dumps({"skipped": why_not}))
        return 0
    found = shutil.which("weir-switch") or REPOSITORY / ".venv" / "bin" / "weir-switch"
    switch, first = given.switch or Path(found), given.first_seed
    first = secrets.randbelow(1_000_000) if first is None else first
    totals = dict.fromkeys(("comparisons", *COUNTED, "differences"), 0)
    for seed in range(first, first + given.seeds):
        for program in given.program or SUBJECTS:
            with tempfile.TemporaryDirectory() as folder:
                outcome = compare(switch.resolve(), program, seed, given.packets, Path(folder))
            differences = outcome["differences"]
            for key in COUNTED:
                totals[key] += outcome[key]
            totals["comparisons"] += 1
            totals["differences"] += len(differences)
            print(
                f"{program:12} seed {seed}: {outcome['entries']} entries, {outcome['packets']} packets in, "
                f"{outcome['frames']} out, {outcome['counters']} counters, {outcome['digests']} digests, "
                f"{outcome['colours']} colours of refilling meters (and {outcome['open_colours']} open): "
                f"{len(differences)} differences",
                flush=True,
            )
            for difference in differences:
                print(f"  {difference}")
    print(json.dumps(totals))
    return 1 if totals["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
