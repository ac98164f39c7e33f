# SPDX-License-Identifier: Apache-2.0
"""The interface through which a run reports its progress: steps, and samples of its counters."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Protocol, TextIO


class Progress(Protocol):
    """Receives the steps of a run."""

    def step(self, text: str) -> None:
        """A step begins, such as "building hosts and links"."""

    def phase(self, name: str, duration_s: float) -> AbstractContextManager[None]:
        """A context manager around a phase, whose flows last about `duration_s` seconds."""


@dataclass(frozen=True)
class Step:
    """One step of a run."""

    text: str

    @property
    def line(self) -> str:
        """The step as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, line: str) -> Step | None:
        """The step that a line contains; None for any other line."""
        try:
            return cls(**json.loads(line))
        except (ValueError, TypeError):
            return None


class LineProgress:
    """Writes each step as a line, which `Step.of` reads."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        self._stream = stream

    def step(self, text: str) -> None:
        """Write the step that begins."""
        self._write(Step(text))

    @contextmanager
    def phase(self, name: str, duration_s: float) -> Iterator[None]:
        """Write that a phase's flows begin."""
        self._write(Step(f"phase {name}: flows for {duration_s:g} s"))
        yield

    def _write(self, step: Step) -> None:
        print(step.line, file=self._stream, flush=True)


@dataclass(frozen=True, slots=True)
class Reading:
    """The switch's counters of one policer, or of one host's shaped queue, since the pipeline was loaded."""

    name: str
    rate_bps: int | None
    """The committed rate, or the queue's; None if it changes during the phase."""
    passed_packets: int
    passed_bytes: int
    dropped_packets: int


@dataclass(frozen=True, slots=True)
class Sample:
    """All readings of a phase at `time_s` (`time.monotonic`)."""

    time_s: float
    readings: tuple[Reading, ...]


Watcher = Callable[[Sample], None]
"""Receives each sample in the thread of the run's event loop, so it only stores it."""
