# SPDX-License-Identifier: Apache-2.0
"""What the programs of a run may do: the lists of docs/privileges.md, read from /proc."""

import re
from pathlib import Path

import pytest

from weir_tests.topo.runner import Runner

NUMBERS = {
    **{
        "CAP_CHOWN": 0,
        "CAP_DAC_OVERRIDE": 1,
        "CAP_FOWNER": 3,
        "CAP_KILL": 5,
        "CAP_SETGID": 6,
        "CAP_SETUID": 7,
    },
    **{"CAP_SETPCAP": 8, "CAP_NET_BIND_SERVICE": 10, "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13},
    **{
        "CAP_IPC_LOCK": 14,
        "CAP_SYS_CHROOT": 18,
        "CAP_SYS_PTRACE": 19,
        "CAP_SYS_ADMIN": 21,
        "CAP_SYS_NICE": 23,
        "CAP_SYS_RESOURCE": 24,
    },
}
"""As in <linux/capability.h>."""


def documented(program: str) -> int:
    """The capabilities that the page lists for a program, as /proc writes them."""
    page = (Path(__file__).parents[3] / "docs" / "privileges.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {program} |")]
    return sum(1 << NUMBERS[name] for name in re.findall(r"`(CAP_\w+)`", row))


@pytest.mark.parametrize(
    ("scenario", "program"), [("switch_life", "`weir-switch`"), ("collector_life", "`weir-collector`")]
)
def test_no_thread_has_a_capability_that_the_page_does_not_list(
    runner: Runner, scenario: str, program: str
) -> None:
    threads = runner.result(scenario)["privileges"]
    assert threads
    allowed = documented(program)
    for thread in threads:
        name = thread["Name"]
        for kind in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(thread[kind], 16) & ~allowed == 0, f"{program}, thread {name}: {kind}"
        assert int(thread["CapInh"], 16) == 0
        assert (thread["NoNewPrivs"], thread["Seccomp"]) == ("1", "2"), f"{program}, thread {name}"


def test_the_sandbox_cannot_gain_what_the_page_does_not_list(any_runner: Runner) -> None:
    any_runner.run("describe")
    threads = any_runner.report()["privileges"]
    assert threads
    for thread in threads:
        assert int(thread["CapBnd"], 16) & ~documented("sandbox") == 0
        assert int(thread["CapEff"], 16) & 1 << NUMBERS["CAP_NET_ADMIN"]
