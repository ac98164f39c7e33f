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

from weir.campaign.hands import Hands, Work
from weir.campaign.identity import identity_of
from weir.campaign.load import PlannedRun
from weir.campaign.outcome import RESULT
from weir.campaign.store import Store
from weir.cli.files import CONFIG_NAME, write_whole
from weir.cli.manifest import ManifestFile
from weir.cli.replays import keep_replays

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
class _Working:
    run: PlannedRun
    partial: Path
    work: Work
    begun: float


class Runner:
    """Works through the runs that a store lacks. Call from the main thread, which gets the signals."""

    def __init__(self, store: Store, hands: Hands, watcher: Watcher) -> None:
        """Have `hands` make the runs, as many at a time as they can."""
        self._store, self._hands, self._watcher = store, hands, watcher
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
                    while waiting and self._may_start and self._hands.free():
                        working = self._start(waiting.popleft())
                        selector.register(working.work.fd, selectors.EVENT_READ)
                    for key, _events in selector.select(_TICK_S):
                        if key.fd == wake:
                            self._stop(os.read(wake, 64))
                            continue
                        selector.unregister(key.fd)
                        working = self._working.pop(key.fd)
                        error = self._end(working)
                        if error is None:
                            continue
                        failures[working.run.key] = failures.get(working.run.key, 0) + 1
                        self._fail(working, error, failures[working.run.key] < attempts, waiting)
                    self._hands.tick()
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
        working = _Working(run, partial, self._hands.start(run, partial), time.monotonic())
        self._working[working.work.fd] = working
        self._watcher.begun(run)
        return working

    def _end(self, working: _Working) -> str | None:
        """Take in what an ended process left; why it failed, or None."""
        error = working.work.end()
        if self._ending.stopped_by is not None and error is not None:
            self._store.discard(working.partial)
            return None
        if error is not None:
            return error
        manifest = ManifestFile.load(working.partial)
        if manifest.state != "complete" or not (working.partial / RESULT).is_file():
            return f"ended as if whole, but its state is {manifest.state!r}"
        wall_s = time.monotonic() - working.begun
        manifest.data["campaign"] |= {"wall_s": round(wall_s, 3), "jobs": self._hands.jobs}
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
                    working.work.tell(signal.SIGTERM)
            elif number != signal.SIGHUP:
                self._kill()

    def _kill(self) -> None:
        # Their directories stay in .partial, which the next start clears.
        for working in self._working.values():
            working.work.tell(signal.SIGKILL)


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
