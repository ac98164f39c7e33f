# SPDX-License-Identifier: Apache-2.0
"""Scheduler settings of processes, read back from the kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weir.topo.linux import SLICE_NS


def output_of(code: str) -> list[str]:
    """The words that a new process, which leads a session, prints."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, start_new_session=True
    ).stdout.split()


def test_spare_time_is_the_lowest_policy_for_a_process_and_its_session() -> None:
    policy, *group = output_of(
        "import os; from pathlib import Path; from weir.topo.linux import take_spare_time_only;"
        "take_spare_time_only(); print(os.sched_getscheduler(0));"
        "path = Path('/proc/self/autogroup'); print(path.read_text() if path.exists() else '')"
    )
    assert int(policy) == os.SCHED_IDLE
    assert not group or group[-1] == "19"


@pytest.mark.skipif(
    not Path("/proc/self/sched").exists(), reason="kernel: it does not show a process's time slice"
)
def test_short_slices_are_inherited() -> None:
    taken, nice, *slices = output_of(
        "import os, subprocess; from weir.topo.linux import ask_for_short_slices;"
        "os.nice(5); print(ask_for_short_slices(), os.nice(0), flush=True);"
        "subprocess.run(['grep', '-w', 'se.slice', '/proc/self/sched'])"
    )
    if not slices:
        pytest.skip("kernel: no time slices per process")
    # The tests may run at any niceness; 19 is the largest.
    assert (taken, int(nice)) == ("True", min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5))
    assert int(slices[-1]) == SLICE_NS
