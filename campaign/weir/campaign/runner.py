# SPDX-License-Identifier: Apache-2.0
"""Makes the runs that a campaign's folder lacks: starts them, waits, retries, and handles signals.

waiting ─► .partial/ ─┬─► finished    no error, manifest and result complete
                      ├─► failed/     any error: waiting again, until its attempts are used up
                      └─► discarded   stopped by a signal, or the disk is full: no run starts any more
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from weir.campaign.executors.executor import Execution, Executor
from weir.campaign.identity import identity_of
from weir.campaign.load import PlannedRun
from weir.campaign.store import Store
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest_file import ManifestFile
from weir.runner.prepare import OnTestbed, prepare

_TICK_S = 0.5
_FULL = (errno.ENOSPC, errno.EDQUOT)
GIVE_UP_AFTER = 5
"""Failures in a row for each attempt that a run has; so many have a common cause."""


class Watcher(Protocol):
    """Receives the events of a campaign."""

    def run_started(self, run: PlannedRun) -> None:
        """A run's process has started."""

    def run_finished(self, run: PlannedRun, path: Path, wall_s: float) -> None:
        """A run is complete and in its final directory."""

    def run_failed(self, run: PlannedRun, path: Path, error: str, again: bool) -> None:
        """A run has failed; `path` has its logs, `again` is whether it will be retried."""

    def stopping(self) -> None:
        """No more runs are started; the running ones get SIGTERM."""

    def tick(self) -> None:
        """Called about twice a second."""


@dataclass
class Ending:
    """The reasons why a campaign ended before all its runs were complete."""

    failed: list[str] = field(default_factory=list)
    """Runs that used up their attempts."""
    stopped_by: signal.Signals | None = None
    gave_up: bool = False
    """Whether it ended because too many runs in a row had failed."""
    disk_full: str | None = None
    """The error of a full disk, which ended the campaign: each further run would fail too."""


@dataclass
class _Started:
    run: PlannedRun
    partial: Path
    execution: Execution
    started_at: float
    testbed: OnTestbed | None


class Runner:
    """Makes the runs that a store lacks. Call from the main thread, which receives signals."""

    def __init__(
        self, store: Store, executor: Executor, watcher: Watcher, testbeds: Sequence[OnTestbed] = ()
    ) -> None:
        """Start runs with `executor` and report them to `watcher`.

        Each run takes place on one of the `testbeds`, if there are any, which has one run at a time.
        """
        self._store, self._executor, self._watcher = store, executor, watcher
        self._testbeds = testbeds
        self._started: dict[int, _Started] = {}
        self._ending = Ending()
        self._failed_in_a_row = 0

    def run(self) -> Ending:
        """Run until all runs are done or a signal arrives; raises what the store raises."""
        failures = dict(self._store.failures())
        attempts = self._store.campaign.attempts
        done = self._store.done()
        self._store.keep_file()
        left = [run for run in self._store.campaign.runs if run.key not in done]
        self._ending.failed = [run.key for run in left if failures.get(run.key, 0) >= attempts]
        # Repeat by repeat over all cells, so that a stopped campaign has runs of every cell.
        waiting = deque(
            sorted((run for run in left if failures.get(run.key, 0) < attempts), key=lambda run: run.repeat)
        )
        with _signals() as wake, selectors.DefaultSelector() as selector:
            selector.register(wake, selectors.EVENT_READ)
            try:
                while (waiting and self._may_start) or self._started:
                    while waiting and self._may_start and self._is_free():
                        with self._ending_at_full_disk():
                            started = self._start(waiting.popleft())
                            selector.register(started.execution.fd, selectors.EVENT_READ)
                    for key, _events in selector.select(_TICK_S):
                        if key.fd == wake:
                            self._stop(os.read(wake, 64))
                            continue
                        selector.unregister(key.fd)
                        started = self._started.pop(key.fd)
                        error: str | None = None
                        with self._ending_at_full_disk():
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
        ending = self._ending
        return ending.stopped_by is None and not ending.gave_up and ending.disk_full is None

    @contextlib.contextmanager
    def _ending_at_full_disk(self) -> Iterator[None]:
        """A full disk in the block is the campaign's end; the run's directory stays in .partial/."""
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self._ending.disk_full = f"{error.filename or self._store.folder}: {error.strerror}"

    def _is_full_disk(self, error: str) -> bool:
        """Whether a run failed by the campaign's own disk, not that of a worker or of a testbed's host."""
        here = self._executor.writes_here and not self._testbeds
        return here and any(os.strerror(number) in error for number in _FULL)

    def _start(self, run: PlannedRun) -> _Started:
        partial = self._store.begin(run)
        identity = identity_of(run, self._store.made_by)
        testbed = self._free_testbed()
        prepare(
            partial,
            run.experiment if testbed is None else testbed.use(run.experiment),
            run.text.encode(),
            run.inputs,
            campaign=identity,
            virtual_time=run.virtual_time,
            testbed=testbed,
            keep_raw=self._store.campaign.keep == "all",
        )
        started = _Started(run, partial, self._executor.start(run, partial), time.monotonic(), testbed)
        self._started[started.execution.fd] = started
        self._watcher.run_started(run)
        return started

    def _is_free(self) -> bool:
        return self._executor.is_free() and (not self._testbeds or self._free_testbed() is not None)

    def _free_testbed(self) -> OnTestbed | None:
        """A testbed without a run that has traffic; None if the runs need none."""
        busy = [one.testbed for one in self._started.values() if one.execution.is_measuring()]
        return next((testbed for testbed in self._testbeds if testbed not in busy), None)

    def _end(self, started: _Started) -> str | None:
        """Move the run of an ended process to its final directory; returns why it failed, or None."""
        error = started.execution.finish()
        if self._ending.stopped_by is not None and error is not None:
            self._store.discard(started.partial)
            return None
        if error is not None and self._is_full_disk(error):
            # It is no failure of the run, whose attempts are for other errors.
            self._ending.disk_full = error
            self._store.discard(started.partial)
            return None
        if error is not None:
            return error
        file = ManifestFile.load(started.partial)
        campaign = file.manifest.campaign
        complete = file.state == "complete" and RunDirectory(started.partial).result.is_file()
        if not complete or campaign is None:
            return f"ended without an error, but its state is {file.state!r}"
        wall_s = time.monotonic() - started.started_at
        measured = {"wall_s": round(wall_s, 3), "jobs": self._executor.jobs}
        file.update(campaign=campaign.model_copy(update=measured))
        file.rewrite()
        self._failed_in_a_row = 0
        self._watcher.run_finished(started.run, self._store.finish(started.run, started.partial), wall_s)
        return None

    def _fail(self, started: _Started, error: str, again: bool, waiting: deque[PlannedRun]) -> None:
        path = self._store.fail(started.run, started.partial)
        self._watcher.run_failed(started.run, path, error, again)
        self._failed_in_a_row += 1
        self._ending.gave_up = self._failed_in_a_row >= GIVE_UP_AFTER * self._store.campaign.attempts
        if again:
            waiting.append(started.run)
        else:
            self._ending.failed.append(started.run.key)

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
        # Their directories stay in .partial/, which the next start clears.
        for started in self._started.values():
            started.execution.send_signal(signal.SIGKILL)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """A descriptor that delivers the numbers of stop signals; they have no other effect meanwhile."""
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    # A signal that is ignored (nohup, a shell's background job) stays ignored.
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
