# SPDX-License-Identifier: Apache-2.0
"""weir-switch and bmv2 do the same with random entries and packets, where bmv2 is on PATH."""

import os
import random
import shutil
import sys
from pathlib import Path

import pytest

# With importlib's import mode pytest puts no test folder on the path.
sys.path.insert(0, str(Path(__file__).parent))

from comparison import compare, problem
from subjects import REPOSITORY, SUBJECTS

PACKETS = 200


@pytest.mark.parametrize("program", SUBJECTS)
def test_both_switches_give_the_same_packets_counters_and_colours(program: str, tmp_path: Path) -> None:
    why_not = problem()
    if why_not is not None:
        pytest.skip(why_not)
    named = os.environ.get("WEIR_SWITCH") or shutil.which("weir-switch")
    switch = Path(named or REPOSITORY / ".venv" / "bin" / "weir-switch")
    if not switch.exists():
        pytest.skip(f"{switch} is missing; `make setup` builds it, or WEIR_SWITCH names one")
    seed = random.randrange(1_000_000)
    print(f"seed {seed}; again: make differential ARGS='--first-seed {seed} --seeds 1 --program {program}'")
    outcome = compare(switch.resolve(), program, seed, PACKETS, tmp_path)
    print({key: value for key, value in outcome.items() if key != "differences"})
    assert outcome["differences"] == []
    assert outcome["packets"] >= PACKETS
    assert outcome["entries"] > 0
