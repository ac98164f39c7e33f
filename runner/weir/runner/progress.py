# SPDX-License-Identifier: Apache-2.0
"""The interface through which a run reports its progress, and samples of its counters while flows run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    """Receives the steps of a run."""

    def step(self, text: str) -> None:
        """A step begins, such as "building hosts and links"."""

    def phase(self, name: str, duration_s: float) -> AbstractContextManager[None]:
        """A context manager around a phase, whose flows last about `duration_s` seconds."""


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
