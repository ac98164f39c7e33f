# SPDX-License-Identifier: Apache-2.0
"""The load and steal time of all processors of the machine, from /proc/stat (proc(5))."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

MEASURED_OVER_S = 1.0

_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice
_STOLEN = 7
_COUNTED = 8  # user and nice include guest and guest_nice


@dataclass(frozen=True)
class Shares:
    """Shares of all processors' time; 0 if no time has passed."""

    busy: float
    """Time that was neither idle nor iowait, including steal time."""
    stolen: float
    """Steal time: something was ready to run, but the host of this virtual machine ran others."""


class ShareMeter:
    """Sums the processors' time between each `begin` and `end`."""

    def __init__(self) -> None:
        """Start with no time."""
        self._since: list[int] = []
        self._spent = [0] * _COUNTED

    def begin(self) -> None:
        """Start an interval."""
        self._since = clock_ticks()

    def end(self) -> None:
        """End the interval and add it."""
        now = clock_ticks()
        self._spent = [sum(its) - before for *its, before in zip(self._spent, now, self._since, strict=True)]

    @property
    def shares(self) -> Shares:
        """The shares over all intervals."""
        return shares_between([0] * _COUNTED, self._spent)


def clock_ticks() -> list[int]:
    """The processors' time since boot by state, in clock ticks."""
    return _ticks(_STAT.read_text())


def shares_between(before: list[int], after: list[int]) -> Shares:
    """The shares of the time between two readings."""
    spent = [later - earlier for earlier, later in zip(before, after, strict=True)]
    whole, idle = sum(spent), sum(spent[index] for index in _IDLE)
    return Shares((whole - idle) / whole, spent[_STOLEN] / whole) if whole > 0 else Shares(0.0, 0.0)


def busy_share(over_s: float = MEASURED_OVER_S) -> float:
    """The share of all processors' time that is not idle during the next `over_s` seconds."""
    before = clock_ticks()
    time.sleep(over_s)
    return shares_between(before, clock_ticks()).busy


def _ticks(stat: str) -> list[int]:
    return [int(ticks) for ticks in stat.partition("\n")[0].split()[1 : _COUNTED + 1]]
