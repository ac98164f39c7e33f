# SPDX-License-Identifier: Apache-2.0
"""One trial: a run or a campaign, one fault in one of its processes at one moment, and what comes of it."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weir.chaos.faults import FAULTS, Surroundings, with_links
from weir.chaos.judge import fault_of_program, judge_run
from weir.chaos.processes import MARKER, processes_of, wait_for_none

PATIENCE_S = {"run": 120.0, "campaign": 300.0}
"""A run of two seconds, or a campaign of two such runs, that takes longer than this hangs."""
NO_FAULT = "none"
LEFT_S = 40.0
"""After the command has ended: the sandbox ends within the 20 s that a run has to stop."""

_FLOWS = """
hosts: {client: {delay: 5 ms}, server1: {delay: 5 ms}, server2: {delay: 5 ms}}
flows:
  - {name: one, from: server1, to: client, congestion_control: bbr, duration: 2 s, measured: true}
  - {name: two, from: server2, to: client, duration: 2 s, measured: true}
"""
RUN = f"""name: trial
{_FLOWS}
policers: [{{name: all, rate: 10 Mbit/s, burst: 20 ms, match: [{{to: client}}]}}]
"""
CAMPAIGN = f"""name: trial
seed: 1
matrix: {{rate: [5 Mbit/s, 10 Mbit/s]}}
repeats: 1
{_FLOWS}
policers: [{{name: all, rate: $rate, burst: 20 ms, match: [{{to: client}}]}}]
"""


@dataclass(slots=True)
class Trial:
    """A trial: its choices, the fault, and the result."""

    number: int
    subject: str
    fault: str
    at_s: float
    role: str = ""
    did: str = ""
    exit_code: int | None = None
    took_s: float = 0.0
    said: str = ""
    """The state that the run or the campaign reports."""
    last_line: str = ""
    wrong: list[str] = field(default_factory=list)
    """Violated checks; empty if all is well."""


def planned(seed: int, number: int, lengths_s: dict[str, float]) -> Trial:
    """The choices of a trial, by seed and number; `lengths_s`: of an undisturbed run and campaign."""
    draw = random.Random(f"{seed}/{number}")
    subject = "campaign" if draw.random() < 0.2 else "run"
    return Trial(number, subject, draw.choice(list(FAULTS)), round(draw.uniform(0.2, lengths_s[subject]), 2))


def undisturbed_s(subject: str, disk: Path, logs: Path) -> float:
    """How long a run or a campaign takes without a fault. Raises RuntimeError if it is not whole."""
    trial = Trial(0, subject, NO_FAULT, PATIENCE_S[subject])
    perform(trial, 0, disk, logs)
    if trial.wrong or trial.exit_code != 0:
        raise RuntimeError(f"an undisturbed {subject} fails: {trial.last_line or trial.said} {trial.wrong}")
    return trial.took_s


def perform(trial: Trial, seed: int, disk: Path, logs: Path) -> None:
    """Do the trial in the file system `disk`, and write the output of the commands below `logs`."""
    draw = random.Random(f"{seed}/{trial.number}/pick")
    for old in disk.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    (disk / "trial.yaml").write_text(RUN if trial.subject == "run" else CAMPAIGN)
    log = logs / f"{trial.number:04}.log"
    log.unlink(missing_ok=True)  # of the same trial, made earlier
    before = _of_the_machine()
    marker = f"{os.getpid()}-{trial.number}"
    try:
        _run_disturbed(trial, marker, Surroundings(disk, draw), log)
        (disk / "filler").unlink(missing_ok=True)
        if (after := _of_the_machine()) != before:
            left, gone = sorted(after - before), sorted(before - after)
            trial.wrong.append(f"left on the machine: {left}, gone from it: {gone}")
        if fault := fault_of_program(log.read_text(errors="replace")):
            trial.wrong.append(fault)
        _judge(trial, disk, marker, log)
    finally:
        _end(marker)


def _run_disturbed(trial: Trial, marker: str, around: Surroundings, log: Path) -> None:
    began = time.monotonic()
    command = _start(_command(trial.subject, around.disk), around.disk, marker, log)
    with contextlib.suppress(subprocess.TimeoutExpired):
        command.wait(trial.at_s)
    if command.poll() is None and trial.fault != NO_FAULT:
        _disturb(trial, marker, around)
    trial.exit_code = _wait(trial, command, marker)
    trial.took_s = round(time.monotonic() - began, 1)
    trial.last_line = _last_line(log)
    if left := wait_for_none(marker, LEFT_S):
        trial.wrong.append(f"left running: {', '.join(process.role for process in left)}")
        _end(marker)


def _disturb(trial: Trial, marker: str, around: Surroundings) -> None:
    there = processes_of(marker)
    if not there:
        return
    if trial.fault == "cut a link":
        there = with_links(there) or there
    trial.role = around.draw.choice(sorted({process.role for process in there}))
    process = around.draw.choice([process for process in there if process.role == trial.role])
    try:
        trial.did = FAULTS[trial.fault](process, around)
    except (ProcessLookupError, FileNotFoundError):
        trial.did = "the process had just ended"


def _judge(trial: Trial, disk: Path, marker: str, log: Path) -> None:
    weir = _weir()
    runs = disk / "runs" / "trial"
    found = sorted(path.parent for path in runs.glob("*/manifest.json") if not path.parent.is_symlink())
    if trial.subject == "run":
        if not found:
            trial.said = "no run"
            if trial.exit_code == 0:
                trial.wrong.append("exit code 0 without a run")
        for run in found:
            judged = judge_run(run, weir, ended_well=trial.exit_code == 0)
            trial.said, trial.wrong = judged.said, [*trial.wrong, *judged.wrong]
        if trial.exit_code not in (0, None) and not trial.last_line and trial.exit_code > 0:
            trial.wrong.append(f"exit code {trial.exit_code} without a word")
        return
    # The same command, undisturbed, completes the campaign however it ended.
    again = _start(_command("campaign", disk, "--retry"), disk, marker, log)
    try:
        code = again.wait(PATIENCE_S["campaign"])
    except subprocess.TimeoutExpired:
        trial.wrong.append("resumed, the campaign hangs")
        _end(marker)
        code = again.wait()
    if code != 0:
        trial.wrong.append(f"resumed, the campaign ends with exit code {code}: {_last_line(log)}")
    whole = sorted(path.parent for path in runs.glob("*/manifest.json") if not path.parent.is_symlink())
    judged_runs = [judge_run(run, weir, ended_well=True) for run in whole]
    trial.wrong += [wrong for judged in judged_runs for wrong in judged.wrong]
    trial.said = f"resumed: {', '.join(sorted(judged.said for judged in judged_runs))}"
    if len(whole) != 2:
        trial.wrong.append(f"resumed, the campaign has {len(whole)} runs, not 2")


def _command(subject: str, disk: Path, *options: str) -> Sequence[str]:
    jobs = ["--jobs", "1"] if subject == "campaign" else ["--plain"]
    return [str(_weir()), subject, str(disk / "trial.yaml"), "--runs", str(disk / "runs"), *jobs, *options]


def _weir() -> Path:
    return Path(sys.executable).with_name("weir")


def _start(command: Sequence[str], folder: Path, marker: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            env={**os.environ, MARKER: marker},
            start_new_session=True,
        )


def _wait(trial: Trial, command: subprocess.Popen[bytes], marker: str) -> int:
    patience_s = PATIENCE_S[trial.subject]
    try:
        return command.wait(patience_s)
    except subprocess.TimeoutExpired:
        roles = ", ".join(process.role for process in processes_of(marker))
        trial.wrong.append(f"it still ran after {patience_s:g} s: {roles}")
        _end(marker)
        return command.wait()


def _end(marker: str) -> None:
    for process in processes_of(marker):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _of_the_machine() -> frozenset[str]:
    """Interfaces and mounts of the machine, which a trial could leave behind."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return frozenset(
        [*(link.name for link in Path("/sys/class/net").iterdir()), *(line.split()[4] for line in mounts)]
    )
