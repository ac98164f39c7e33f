# SPDX-License-Identifier: Apache-2.0
"""What all processors of the machine did between two moments, from /proc/stat (proc(5))."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

MEASURED_OVER_S = 1.0

_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice
_STOLEN = 7
_COUNTED = 8  # guests are within user and nice


@dataclass(frozen=True)
class Shares:
    """Shares of all processors' time; 0 where no time has passed."""

    busy: float
    """In which somebody used a processor, or kept it from us."""
    stolen: float
    """In which something here wanted a processor, and the host of this virtual machine gave it to others."""


class ShareMeter:
    """Adds up what processors do between each `begin` and `end`."""

    def __init__(self) -> None:
        """Nothing is measured yet."""
        self._since: list[int] = []
        self._spent = [0] * _COUNTED

    def begin(self) -> None:
        """What happens from now on counts."""
        self._since = clock_ticks()

    def end(self) -> None:
        """Until now."""
        now = clock_ticks()
        self._spent = [sum(its) - before for *its, before in zip(self._spent, now, self._since, strict=True)]

    @property
    def shares(self) -> Shares:
        """Of all the time that counts."""
        return shares_between([0] * _COUNTED, self._spent)


def clock_ticks() -> list[int]:
    """The processors' time so far by what they did, in the kernel's ticks."""
    return _ticks(_STAT.read_text())


def shares_between(before: list[int], after: list[int]) -> Shares:
    """What the time between two readings was used for."""
    spent = [later - earlier for earlier, later in zip(before, after, strict=True)]
    whole, idle = sum(spent), sum(spent[index] for index in _IDLE)
    return Shares((whole - idle) / whole, spent[_STOLEN] / whole) if whole > 0 else Shares(0.0, 0.0)


def busy_share(over_s: float = MEASURED_OVER_S) -> float:
    """Share of all processors' time that somebody used during the next `over_s` seconds."""
    before = clock_ticks()
    time.sleep(over_s)
    return shares_between(before, clock_ticks()).busy


def _ticks(stat: str) -> list[int]:
    return [int(ticks) for ticks in stat.partition("\n")[0].split()[1 : _COUNTED + 1]]
