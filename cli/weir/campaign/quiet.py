# SPDX-License-Identifier: Apache-2.0
"""How busy a machine is with other things, before a campaign begins to measure on it."""

from __future__ import annotations

import time
from pathlib import Path

BUSY_SHARE = 0.15
"""Of all processors' time; beyond it runs are likely to be over their limits (`LimitsConfig`)."""
MEASURED_OVER_S = 1.0

_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # proc(5): user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice
_COUNTED = 8  # guests are within user and nice


def busy_share(over_s: float = MEASURED_OVER_S) -> float:
    """Share of all processors' time that somebody used during the next `over_s` seconds, stolen time too."""
    before = _times(_STAT.read_text())
    time.sleep(over_s)
    return share_between(before, _times(_STAT.read_text()))


def _times(stat: str) -> list[int]:
    """Clock ticks of all processors by what they did, from the text of /proc/stat."""
    return [int(ticks) for ticks in stat.partition("\n")[0].split()[1 : _COUNTED + 1]]


def share_between(before: list[int], after: list[int]) -> float:
    """The busy share of the time between two readings; 0 where no time has passed."""
    spent = [later - earlier for earlier, later in zip(before, after, strict=True)]
    whole, idle = sum(spent), sum(spent[index] for index in _IDLE)
    return (whole - idle) / whole if whole > 0 else 0.0
