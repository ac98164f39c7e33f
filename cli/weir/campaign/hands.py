# SPDX-License-Identifier: Apache-2.0
"""Who makes the runs of a campaign: processes of this machine, or (`remote.py`) workers of others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from weir.campaign.load import PlannedRun

LOG = "run.log"
BUSY_SHARE = 0.15
"""Of a machine's processors' time, used by others; beyond it runs are likely to be over their limits."""
MEASURING_VARIABLE = "WEIR_MEASURING_FD"
"""Names a descriptor that a run holds as long as other traffic would disturb it."""

Command = Callable[[Path], Sequence[str]]
"""The process that makes the run of a directory which has its config and manifest."""


class Work(Protocol):
    """A run that somebody is making."""

    @property
    def fd(self) -> int:
        """Becomes readable once the run has ended."""

    def end(self) -> str | None:
        """Bring what it left into its directory; why it failed, or None. Call once, when it has ended."""

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the run: SIGTERM stops it cleanly, SIGKILL does not ask."""


class Hands(Protocol):
    """Whoever makes runs."""

    @property
    def jobs(self) -> int:
        """Runs that can be at work at a time."""

    def free(self) -> bool:
        """Whether another run can be started; raises InputError when none ever can."""

    def start(self, run: PlannedRun, partial: Path) -> Work:
        """Start a run in its directory, which has config and manifest."""

    def tick(self) -> None:
        """Some time has passed."""


def one_run(run_dir: Path) -> list[str]:
    """The command that makes a run for real."""
    return [sys.executable, "-m", "weir.campaign.one_run", str(run_dir), str(os.getpid())]


def start_process(
    command: Sequence[str], run_dir: Path, measuring: int | None = None
) -> subprocess.Popen[bytes]:
    """Start the process of a run; what it says goes to a log in the run's directory.

    It is given the descriptor `measuring`, and the number of it in `MEASURING_VARIABLE`.
    """
    environment = dict(os.environ)
    if measuring is not None:
        environment[MEASURING_VARIABLE] = str(measuring)
    logs = run_dir / "logs"
    logs.mkdir(exist_ok=True)
    with (logs / LOG).open("wb") as log:
        # A session of its own: Ctrl-C in the terminal comes to the campaign alone, which passes it on.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=() if measuring is None else (measuring,),
            env=environment,
        )


def why_failed(code: int, run_dir: Path) -> str | None:
    """What the exit code and the log of a run's process say went wrong; None when nothing did."""
    if code == 0:
        return None
    how = f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
    return f"{how}; {_last_line(run_dir / 'logs' / LOG)}"


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
    return f"it said: {lines[-1][:200]}" if lines else "it said nothing"


class LocalHands:
    """Processes of this machine: `jobs` measure at a time, while as many more analyse what they measured."""

    def __init__(self, jobs: int, command: Command = one_run) -> None:
        """None is started yet."""
        self.jobs = jobs
        self._command = command
        self._at_work: list[_LocalWork] = []

    def free(self) -> bool:
        """Whether fewer measure, and fewer are at work, than may be."""
        measuring = sum(work.is_measuring() for work in self._at_work)
        return measuring < self.jobs and len(self._at_work) < 2 * self.jobs

    def start(self, run: PlannedRun, partial: Path) -> Work:
        """Start a process."""
        measures, its_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            process = start_process(self._command(partial), partial, its_end)
        except BaseException:
            os.close(measures)
            raise
        finally:
            os.close(its_end)
        self._at_work.append(_LocalWork(self, process, partial, measures))
        return self._at_work[-1]

    def tick(self) -> None:
        """Processes need nothing."""

    def ended(self, work: _LocalWork) -> None:
        """One of them has ended."""
        self._at_work.remove(work)


class _LocalWork:
    def __init__(
        self, hands: LocalHands, process: subprocess.Popen[bytes], partial: Path, measures: int
    ) -> None:
        self._hands, self._process, self._partial, self._measures = hands, process, partial, measures
        self.fd = os.pidfd_open(process.pid)

    def is_measuring(self) -> bool:
        """Whether the run still holds its end of the pipe."""
        try:
            return os.read(self._measures, 1) != b""
        except BlockingIOError:
            return True

    def end(self) -> str | None:
        os.close(self.fd)
        os.close(self._measures)
        self._hands.ended(self)
        return why_failed(self._process.wait(), self._partial)

    def tell(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
