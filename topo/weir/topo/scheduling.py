# SPDX-License-Identifier: Apache-2.0
"""Measures the wake-up latency of the machine, the delay of every timed action of a run.

A separate process, which nothing but the scheduler delays, sleeps until every fifth millisecond and records
how late it wakes up. A stall over several of these times counts as late for each, so a share of the samples
is a share of the time.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PERIOD_NS = 5_000_000
_READY_S = 10.0


@dataclass(frozen=True)
class Lateness:
    """A distribution of delays in seconds, with nearest-rank percentiles."""

    samples: int
    p50_s: float
    p99_s: float
    p999_s: float
    max_s: float


def lateness_of(delays_ns: Sequence[int]) -> Lateness | None:
    """The distribution of the delays; None without a delay."""
    if not delays_ns:
        return None
    ordered = sorted(delays_ns)

    def rank(thousandths: int) -> float:
        return ordered[max(0, -(-len(ordered) * thousandths // 1000) - 1)] / 1e9

    return Lateness(len(ordered), rank(500), rank(990), rank(999), ordered[-1] / 1e9)


def wake_ups(
    due: int, clock_ns: Callable[[], int], sleep: Callable[[float], None], stopped: Callable[[], bool]
) -> tuple[array[int], array[int]]:
    """Sleep until every period after `due` until stopped; returns the due times and their delays in ns."""
    moments, delays = array("q"), array("q")
    while True:
        now = clock_ns()
        if now >= due + PERIOD_NS:
            due += PERIOD_NS
            moments.append(due)
            delays.append(now - due)
        elif stopped():
            return moments, delays
        else:
            sleep((due + PERIOD_NS - now) / 1e9)


class SchedulingProbe:
    """The measuring process of one run; a context manager that always ends it."""

    def __init__(self, folder: Path) -> None:
        """Start it; its results and log go to `folder`. Raises ProcessError."""
        # Imported here because the measuring process runs this file without the package.
        from weir.topo.process import LoggedProcess
        from weir.topo.processors import ShareMeter

        self._shares = ShareMeter()
        self._output = folder / "scheduling.json"
        self._phases: list[tuple[str, int, int]] = []
        self._begun: tuple[str, int] | None = None
        argv = [sys.executable, __file__, str(self._output)]
        self._process = LoggedProcess("scheduling probe", argv, folder / "scheduling.log")
        self._process.wait_line("measuring", _READY_S)

    def begin(self, phase: str) -> None:
        """Start a phase: its flows run from now on."""
        self._begun = phase, time.monotonic_ns()
        self._shares.begin()

    def end(self) -> None:
        """End the phase: its flows have ended."""
        if self._begun is not None:
            self._phases.append((*self._begun, time.monotonic_ns()))
            self._shares.end()
            self._begun = None

    def stop(self) -> dict[str, Any] | None:
        """End the process; returns the distribution over all phases and over each, or None without a sample.

        `stolen_share` is the steal time of a virtual machine as a share of all processors' time. Raises
        ProcessError if the process had ended before.
        """
        self._process.check_running()
        code = self._process.stop()
        if code != 0:
            raise self._process.error(f"ended with exit code {code}")
        measured = json.loads(self._output.read_text())
        found = summary(measured["moments_ns"], measured["delays_ns"], self._phases)
        return found and found | {"stolen_share": self._shares.shares.stolen}

    def __enter__(self) -> Self:
        """Do nothing: the constructor has started it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it if `stop` has not."""
        self._process.stop()


def summary(
    moments_ns: Sequence[int], delays_ns: Sequence[int], phases: Sequence[tuple[str, int, int]]
) -> dict[str, Any] | None:
    """The delays within the phases (name, begin, end; CLOCK_MONOTONIC), over all and over each."""
    by_phase = {
        name: [late for at, late in zip(moments_ns, delays_ns, strict=True) if begin <= at < end]
        for name, begin, end in phases
    }
    together = lateness_of([late for delays in by_phase.values() for late in delays])
    if together is None:
        return None
    each = {name: asdict(found) for name, delays in by_phase.items() if (found := lateness_of(delays))}
    return asdict(together) | {"period_s": PERIOD_NS / 1e9, "phases": each}


def main() -> None:
    """The measuring process: measures until SIGTERM, then writes the samples to the file of its argument."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: ended.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    begin = time.monotonic_ns()
    print("measuring", flush=True)
    moments, delays = wake_ups(begin, time.monotonic_ns, time.sleep, lambda: bool(ended))
    output = Path(sys.argv[1])
    output.write_text(json.dumps({"moments_ns": list(moments), "delays_ns": list(delays)}))


if __name__ == "__main__":
    main()
