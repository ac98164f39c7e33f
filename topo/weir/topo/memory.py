# SPDX-License-Identifier: Apache-2.0
"""The memory that programs can still get on this machine, from /proc/meminfo (proc(5)) and its cgroup."""

from __future__ import annotations

import re
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_OWN_CGROUP = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
_MB = 1_048_576


def available_mb(meminfo: Path = _MEMINFO, own_cgroup: Path = _OWN_CGROUP, cgroups: Path = _CGROUPS) -> int:
    """Memory in MB that is free, or used as cache only; at most what the limits of the cgroup leave (v2)."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo.read_text(), re.MULTILINE)
    free = int(found[1]) // 1024 if found else 0
    for folder in _folders(own_cgroup, cgroups):
        try:
            limit = int((folder / "memory.max").read_text())
            used = int((folder / "memory.current").read_text())
            cache = re.search(r"^inactive_file (\d+)$", (folder / "memory.stat").read_text(), re.MULTILINE)
        except (OSError, ValueError):  # no such file, or "max"
            continue
        free = min(free, max(0, limit - used + (int(cache[1]) if cache else 0)) // _MB)
    return free


def _folders(own_cgroup: Path, cgroups: Path) -> list[Path]:
    """The folders of this process's cgroup and of those around it."""
    try:
        found = re.search(r"^0::/(.*)$", own_cgroup.read_text(), re.MULTILINE)
    except OSError:
        found = None
    own = cgroups / (found[1] if found else "")
    return [own, *(folder for folder in own.parents if folder.is_relative_to(cgroups))]
