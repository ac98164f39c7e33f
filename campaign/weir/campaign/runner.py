# SPDX-License-Identifier: Apache-2.0
"""Works through what is left of a campaign: has runs made, waits for them, and says what became of each.

waiting ─► .partial/ ─┬─► whole       no error, manifest and result complete
                      ├─► failed/     anything else: waits again until its attempts are used up
                      └─► discarded   told to stop
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from weir.campaign.executors.executor import Execution, Executor
from weir.campaign.identity import identity_of
from weir.campaign.load import PlannedRun
from weir.campaign.store import Store
from weir.run.prepare import prepare
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest_file import ManifestFile

_TICK_S = 0.5
GIVE_UP_AFTER = 5
"""Runs in a row that used up all their attempts: then the fault is not theirs."""


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
class _Started:
    run: PlannedRun
    partial: Path
    execution: Execution
    begun: float


class Runner:
    """Works through the runs that a store lacks. Call from the main thread, which gets the signals."""

    def __init__(self, store: Store, executor: Executor, watcher: Watcher) -> None:
        """Have `executor` make the runs, as many at a time as they can."""
        self._store, self._executor, self._watcher = store, executor, watcher
        self._started: dict[int, _Started] = {}
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
                while (waiting and self._may_start) or self._started:
                    while waiting and self._may_start and self._executor.is_free():
                        started = self._start(waiting.popleft())
                        selector.register(started.execution.fd, selectors.EVENT_READ)
                    for key, _events in selector.select(_TICK_S):
                        if key.fd == wake:
                            self._stop(os.read(wake, 64))
                            continue
                        selector.unregister(key.fd)
                        started = self._started.pop(key.fd)
                        error = self._end(started)
                        if error is None:
                            continue
                        failures[started.run.key] = failures.get(started.run.key, 0) + 1
                        self._fail(started, error, failures[started.run.key] < attempts, waiting)
                    self._executor.tick()
                    self._watcher.tick()
            finally:
                self._kill()
        return self._ending

    @property
    def _may_start(self) -> bool:
        return self._ending.stopped_by is None and not self._ending.gave_up

    def _start(self, run: PlannedRun) -> _Started:
        partial = self._store.begin(run)
        identity = identity_of(run, self._store.made_by)
        prepare(partial, run.experiment, run.text.encode(), run.replays, campaign=identity)
        started = _Started(run, partial, self._executor.start(run, partial), time.monotonic())
        self._started[started.execution.fd] = started
        self._watcher.begun(run)
        return started

    def _end(self, started: _Started) -> str | None:
        """Make the run of an ended process whole; the reason of its failure, or None."""
        error = started.execution.finish()
        if self._ending.stopped_by is not None and error is not None:
            self._store.discard(started.partial)
            return None
        if error is not None:
            return error
        file = ManifestFile.load(started.partial)
        campaign = file.manifest.campaign
        whole = file.state == "complete" and RunDirectory(started.partial).result.is_file()
        if not whole or campaign is None:
            return f"ended as if whole, but its state is {file.state!r}"
        wall_s = time.monotonic() - started.begun
        done = {"wall_s": round(wall_s, 3), "jobs": self._executor.jobs}
        file.update(campaign=campaign.model_copy(update=done))
        file.write()
        self._failed_in_a_row = 0
        self._watcher.whole(started.run, self._store.finish(started.run, started.partial), wall_s)
        return None

    def _fail(self, started: _Started, error: str, again: bool, waiting: deque[PlannedRun]) -> None:
        path = self._store.fail(started.run, started.partial)
        self._watcher.failed(started.run, path, error, again)
        if again:
            waiting.append(started.run)
            return
        self._ending.failed.append(started.run.key)
        self._failed_in_a_row += 1
        self._ending.gave_up = self._failed_in_a_row >= GIVE_UP_AFTER

    def _stop(self, numbers: bytes) -> None:
        for number in (byte for byte in numbers if byte in _SIGNALS):
            if self._ending.stopped_by is None:
                self._ending.stopped_by = signal.Signals(number)
                self._watcher.stopping()
                for started in self._started.values():
                    started.execution.send_signal(signal.SIGTERM)
            elif number != signal.SIGHUP:
                self._kill()

    def _kill(self) -> None:
        # Their directories stay in .partial, which the next start clears.
        for started in self._started.values():
            started.execution.send_signal(signal.SIGKILL)


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
