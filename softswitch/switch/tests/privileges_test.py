# SPDX-License-Identifier: Apache-2.0
"""The privileges of each thread of a switch: the list of docs/privileges.md, read from /proc.

The options are those that add threads.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from scenarios import run_scenario

PAGE = Path(__file__).parents[3] / "docs" / "privileges.md"
# As in <linux/capability.h>.
NUMBERS = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_NET_ADMIN": 12,
    "CAP_NET_RAW": 13,
    "CAP_IPC_LOCK": 14,
}
ROLES = ["`weir-switch`", "`weir-switch wire`", "`weir-switch` under bmv2's name"]


def documented(program: str) -> int:
    """The capabilities that the page lists for a program, as /proc writes them."""
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {program} |")]
    named = [*re.findall(r"`(CAP_\w+)`", row)]
    if "as `weir-switch`" in row:
        named += [name for name, bit in NUMBERS.items() if documented("`weir-switch`") >> bit & 1]
    return sum({1 << NUMBERS[name] for name in named})


@pytest.fixture(scope="module")
def found(weir_switch: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What /proc says of each thread, by the role of the switch."""
    return run_scenario("privileges_scenario.py", weir_switch, tmp_path_factory.mktemp("privileges"))


@pytest.mark.parametrize("program", ROLES)
def test_no_thread_has_a_capability_that_the_page_does_not_list(found: dict[str, Any], program: str) -> None:
    assert len(found[program]) > 2
    allowed = documented(program)
    for thread in found[program]:
        for kind in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(thread[kind], 16) & ~allowed == 0, f"thread {thread['Name']}: {kind} {thread[kind]}"
        assert int(thread["CapInh"], 16) == 0
        assert (thread["NoNewPrivs"], thread["Seccomp"]) == ("1", "2"), f"thread {thread['Name']}"
