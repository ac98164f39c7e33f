# SPDX-License-Identifier: Apache-2.0
"""The next run starts after a run's traffic has ended, while its captures are still analysed.

An analysis that lasts learns that no run measures.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

from weir.campaign.executors.executor import CAMPAIGN_VARIABLE, Execution
from weir.campaign.executors.local import LocalExecutor
from weir.campaign.load import parse_campaign

TEXT = """
name: one
hosts: {a: {}, b: {}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""
# Has traffic until a file "over" exists, then analyses until a file "end" exists. Makes a file "quiet" when
# told that no run measures.
RUN = f"""
import os, socket, sys, threading, time
from pathlib import Path
def wait(name):
    while not Path(sys.argv[1], name).exists():
        time.sleep(0.002)
wait("over")
campaign = socket.socket(fileno=int(os.environ[{CAMPAIGN_VARIABLE!r}]))
campaign.shutdown(socket.SHUT_WR)
def hear():
    if campaign.recv(1):
        Path(sys.argv[1], "quiet").touch()
threading.Thread(target=hear, daemon=True).start()
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


def test_only_while_no_run_measures_the_oldest_analysis_learns_so_and_no_other_run_starts(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-S", "-c", RUN]
    executor = LocalExecutor(2, lambda run_dir: [*command, str(run_dir)], quiet_s=0)
    (run,) = parse_campaign(TEXT).runs
    folders = [tmp_path / name for name in ("first", "second")]
    executions: list[Execution] = []
    try:
        for folder in folders:
            folder.mkdir()
            executions.append(executor.start(run, folder))
        (folders[0] / "over").touch()
        assert until(lambda: not executions[0].is_measuring())
        executor.tick()
        executor.tick()
        assert executor.is_free(), "the second run measures"
        (folders[1] / "over").touch()
        assert until(lambda: not executions[1].is_measuring())
        executor.tick()
        assert executor.is_free(), "the first tick without a run that measures"
        executor.tick()
        assert not executor.is_free()
        assert until((folders[0] / "quiet").exists)
        (folders[0] / "end").touch()
        select.select([executions[0].fd], [], [], 10)
        assert executions.pop(0).finish() is None
        assert executor.is_free(), "the analysis that might be disturbed has ended"
        assert not (folders[1] / "quiet").exists()
    finally:
        for folder in folders:
            (folder / "over").touch()
            (folder / "end").touch()
        ends = [execution.finish() for execution in executions]
    assert ends == [None] * len(ends)
