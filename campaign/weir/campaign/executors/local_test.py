# SPDX-License-Identifier: Apache-2.0
"""The next run starts after a run's traffic has ended, while its captures are still analysed."""

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
# Has traffic until a file "over" exists, then analyses until a file "end" exists.
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
    """Wait up to ten seconds for the condition; returns whether it holds."""
    give_up = time.monotonic() + 10
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.002)
    return condition()


def test_at_most_jobs_runs_have_traffic_and_at_most_as_many_more_analyse(tmp_path: Path) -> None:
    executor = LocalExecutor(1, lambda run_dir: [sys.executable, "-S", "-c", RUN, str(run_dir)])
    (run,) = parse_campaign(TEXT).runs
    executions: list[Execution] = []

    def start(name: str) -> Path:
        (tmp_path / name).mkdir()
        executions.append(executor.start(run, tmp_path / name))
        return tmp_path / name

    try:
        first = start("first")
        assert not executor.is_free(), "the first run has traffic"
        (first / "over").touch()
        assert until(executor.is_free), "the first run analyses"
        second = start("second")
        assert not executor.is_free()
        (second / "over").touch()
        time.sleep(0.1)
        assert not executor.is_free(), "two runs analyse, as many as one job allows"
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
    assert len(list(Path("/proc/self/fd").iterdir())) == before - 2 * len(ends), "a descriptor was left open"


def test_a_run_that_dies_during_its_traffic_frees_the_executor(tmp_path: Path) -> None:
    executor = LocalExecutor(1, lambda _run_dir: [sys.executable, "-S", "-c", "import os; os.abort()"])
    (run,) = parse_campaign(TEXT).runs
    (tmp_path / "only").mkdir()
    execution = executor.start(run, tmp_path / "only")
    select.select([execution.fd], [], [], 10)
    assert "SIGABRT" in str(execution.finish())
    assert executor.is_free()
