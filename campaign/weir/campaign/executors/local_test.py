# SPDX-License-Identifier: Apache-2.0
"""Runs as processes: the next one starts when a run's traffic is over, not when it is analysed."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

from weir.campaign.executors.executor import MEASURING_VARIABLE, Execution
from weir.campaign.executors.local import LocalExecutor
from weir.campaign.load import parse_campaign

TEXT = """
name: one
hosts: {a: {}, b: {}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""
# Measures until a file "over" is there, analyses until a file "end" is there.
RUN = f"""
import os, sys, time
from pathlib import Path
def wait(name):
    while not Path(sys.argv[1], name).exists():
        time.sleep(0.002)
wait("over")
os.close(int(os.environ[{MEASURING_VARIABLE!r}]))
wait("end")
"""


def until(condition: Callable[[], bool]) -> bool:
    """Whether it came true within ten seconds."""
    give_up = time.monotonic() + 10
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.002)
    return condition()


def test_analysis_leaves_room_for_the_next_run_but_not_for_any_number(tmp_path: Path) -> None:
    executor = LocalExecutor(1, lambda run_dir: [sys.executable, "-S", "-c", RUN, str(run_dir)])
    (run,) = parse_campaign(TEXT).runs
    executions: list[Execution] = []

    def start(name: str) -> Path:
        (tmp_path / name).mkdir()
        executions.append(executor.start(run, tmp_path / name))
        return tmp_path / name

    try:
        first = start("first")
        assert not executor.is_free(), "it measures"
        (first / "over").touch()
        assert until(executor.is_free), "it analyses"
        second = start("second")
        assert not executor.is_free()
        (second / "over").touch()
        time.sleep(0.1)
        assert not executor.is_free(), "two are at work, and one may measure"
        (first / "end").touch()
        select.select([executions[0].fd], [], [], 10)
        assert executions.pop(0).finish() is None
        assert until(executor.is_free)
    finally:
        for name in ("first", "second"):
            (tmp_path / name / "over").touch()
            (tmp_path / name / "end").touch()
        before = len(list(Path("/proc/self/fd").iterdir()))
        ends = [execution.finish() for execution in executions]
    assert ends == [None] * len(ends)
    assert len(list(Path("/proc/self/fd").iterdir())) == before - 2 * len(ends), "nothing stays open"


def test_a_run_that_dies_while_it_measures_leaves_room(tmp_path: Path) -> None:
    executor = LocalExecutor(1, lambda _run_dir: [sys.executable, "-S", "-c", "import os; os.abort()"])
    (run,) = parse_campaign(TEXT).runs
    (tmp_path / "only").mkdir()
    work = executor.start(run, tmp_path / "only")
    select.select([work.fd], [], [], 10)
    assert "SIGABRT" in str(work.finish())
    assert executor.is_free()
