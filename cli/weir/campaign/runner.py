# SPDX-License-Identifier: Apache-2.0
"""Runs what is left of a campaign: starts processes, waits for them, and says what became of each.

waiting ─► .partial/ ─┬─► whole       exit code 0, manifest and result complete
                      ├─► failed/     anything else: waits again until its attempts are used up
                      └─► discarded   told to stop
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from weir.campaign.identity import identity_of
from weir.campaign.load import PlannedRun
from weir.campaign.outcome import RESULT
from weir.campaign.store import Store
from weir.cli.files import write_whole
from weir.cli.manifest import ManifestFile
from weir.cli.replays import keep_replays
from weir.cli.run import CONFIG_NAME

LOG = "run.log"
_TICK_S = 0.5
GIVE_UP_AFTER = 5
"""Runs in a row that used up all their attempts: then the fault is not theirs."""

Command = Callable[[Path], Sequence[str]]
"""The process that makes the run of a directory which has its config and manifest."""


class Watcher(Protocol):
    """Who is told what happens."""

    def begun(self, run: PlannedRun) -> None:
        """A run's process has started."""

    def whole(self, run: PlannedRun, path: Path, wall_s: float) -> None:
        """A run is finished and counts."""

    def failed(self, run: PlannedRun, path: Path, error: str, again: bool) -> None:
        """A run has failed; `path` has its logs, and `again` says whether it is tried once more."""

    def stopping(self) -> None:
        """No run is started any more; those at work are told to stop."""

    def tick(self) -> None:
        """Some time has passed."""


@dataclass
class Ending:
    """How a campaign's processes ended."""

    failed: list[str] = field(default_factory=list)
    """Runs that used up their attempts."""
    stopped_by: signal.Signals | None = None
    gave_up: bool = False
    """Whether runs were left because too many in a row had failed."""


@dataclass
class _Working:
    run: PlannedRun
    partial: Path
    process: subprocess.Popen[bytes]
    begun: float
    pidfd: int


def one_run(run_dir: Path) -> list[str]:
    """The command that makes a run for real."""
    return [sys.executable, "-m", "weir.campaign.one_run", str(run_dir), str(os.getpid())]


class Runner:
    """Works through the runs that a store lacks. Call from the main thread, which gets the signals."""

    def __init__(self, store: Store, jobs: int, watcher: Watcher, command: Command = one_run) -> None:
        """Have at most `jobs` runs at work at a time."""
        self._store, self._jobs, self._watcher, self._command = store, jobs, watcher, command
        self._working: dict[int, _Working] = {}
        self._ending = Ending()
        self._failed_in_a_row = 0

    def run(self) -> Ending:
        """Work until all is done or a signal comes; raises what the store raises."""
        failures = dict(self._store.failures())
        attempts = self._store.campaign.attempts
        done = self._store.done()
        left = [run for run in self._store.campaign.runs if run.key not in done]
        self._ending.failed = [run.key for run in left if failures.get(run.key, 0) >= attempts]
        # One repeat of every cell before the next, so that a campaign that is stopped has some of each.
        waiting = deque(
            sorted((run for run in left if failures.get(run.key, 0) < attempts), key=lambda run: run.repeat)
        )
        with _signals() as wake, selectors.DefaultSelector() as selector:
            selector.register(wake, selectors.EVENT_READ)
            try:
                while (waiting and self._may_start) or self._working:
                    while waiting and self._may_start and len(self._working) < self._jobs:
                        working = self._start(waiting.popleft())
                        selector.register(working.pidfd, selectors.EVENT_READ)
                    for key, _events in selector.select(_TICK_S):
                        if key.fd == wake:
                            self._stop(os.read(wake, 64))
                            continue
                        selector.unregister(key.fd)
                        working = self._working.pop(key.fd)
                        os.close(working.pidfd)
                        error = self._end(working)
                        if error is None:
                            continue
                        failures[working.run.key] = failures.get(working.run.key, 0) + 1
                        self._fail(working, error, failures[working.run.key] < attempts, waiting)
                    self._watcher.tick()
            finally:
                self._kill()
        return self._ending

    @property
    def _may_start(self) -> bool:
        return self._ending.stopped_by is None and not self._ending.gave_up

    def _start(self, run: PlannedRun) -> _Working:
        partial = self._store.begin(run)
        write_whole(partial / CONFIG_NAME, run.text.encode())
        keep_replays(partial, run.replays)
        ManifestFile.create(partial, run.key, run.experiment, identity_of(run, self._store.made_by))
        logs = partial / "logs"
        logs.mkdir()
        with (logs / LOG).open("wb") as log:
            # A session of its own: Ctrl-C in the terminal comes to this process alone, which passes it on.
            process = subprocess.Popen(
                self._command(partial),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        working = _Working(run, partial, process, time.monotonic(), os.pidfd_open(process.pid))
        self._working[working.pidfd] = working
        self._watcher.begun(run)
        return working

    def _end(self, working: _Working) -> str | None:
        """Take in what an ended process left; why it failed, or None."""
        code = working.process.wait()
        if self._ending.stopped_by is not None and code != 0:
            self._store.discard(working.partial)
            return None
        if code != 0:
            how = f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
            return f"{how}; {_last_line(working.partial / 'logs' / LOG)}"
        manifest = ManifestFile.load(working.partial)
        if manifest.state != "complete" or not (working.partial / RESULT).is_file():
            return f"ended as if whole, but its state is {manifest.state!r}"
        wall_s = time.monotonic() - working.begun
        manifest.data["campaign"] |= {"wall_s": round(wall_s, 3), "jobs": self._jobs}
        manifest.write()
        self._failed_in_a_row = 0
        self._watcher.whole(working.run, self._store.finish(working.run, working.partial), wall_s)
        return None

    def _fail(self, working: _Working, error: str, again: bool, waiting: deque[PlannedRun]) -> None:
        path = self._store.fail(working.run, working.partial)
        self._watcher.failed(working.run, path, error, again)
        if again:
            waiting.append(working.run)
            return
        self._ending.failed.append(working.run.key)
        self._failed_in_a_row += 1
        self._ending.gave_up = self._failed_in_a_row >= GIVE_UP_AFTER

    def _stop(self, numbers: bytes) -> None:
        for number in (byte for byte in numbers if byte in _SIGNALS):
            if self._ending.stopped_by is None:
                self._ending.stopped_by = signal.Signals(number)
                self._watcher.stopping()
                for working in self._working.values():
                    working.process.send_signal(signal.SIGTERM)
            elif number != signal.SIGHUP:
                self._kill()

    def _kill(self) -> None:
        # Their directories stay in .partial, which the next start clears.
        for working in self._working.values():
            working.process.kill()


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """A descriptor from which the numbers of stop signals can be read; they do nothing else meanwhile."""
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    # nohup and shell background jobs ignore signals on purpose; that wish is kept.
    wanted = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in wanted}
    former = signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    try:
        yield wake_read
    finally:
        signal.set_wakeup_fd(former)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(wake_read)
        os.close(wake_write)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
    return f"it said: {lines[-1][:200]}" if lines else "it said nothing"
