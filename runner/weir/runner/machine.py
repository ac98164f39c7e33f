# SPDX-License-Identifier: Apache-2.0
"""Whether this machine can make valid runs: its congestion controls, and its lateness during a run."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from pathlib import Path

from weir.rundir.manifest import Scheduling

_MIN_STEAL_SHARE = 0.005
"""Steal time, as a share of the processors' time, above which the reason mentions it."""
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def available() -> str:
    """The congestion controls that the kernel lists, separated by spaces."""
    return _AVAILABLE.read_text().strip()


def offered(names: Iterable[str]) -> set[str]:
    """Those of `names` that the kernel offers; the attempt loads the kernel module, given the permission.

    EPERM counts as offered: a congestion control restricted to CAP_NET_ADMIN is usable in a run's sandbox.
    """
    found = set()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp:
        for name in names:
            try:
                tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            except OSError as error:
                if error.errno == errno.ENOENT:
                    continue
                if error.errno != errno.EPERM:
                    raise
            found.add(name)
    return found


def over_limits(
    scheduling: Scheduling | None,
    switch_p99_s: float | None,
    *,
    scheduling_limit_ns: int,
    switch_limit_ns: int,
) -> list[str]:
    """Reasons why a run is invalid: lateness above a limit, or not measured; empty for a valid run.

    The limits apply to 99th percentiles: of the delay of timed wake-ups, and of the switch's extra delay.
    """
    measured = (
        ("scheduling delay", None if scheduling is None else scheduling.p99_s, scheduling_limit_ns),
        ("lateness of the switch", switch_p99_s, switch_limit_ns),
    )
    reasons = []
    for what, p99_s, limit_ns in measured:
        if p99_s is None:
            reasons.append(f"nobody measured the {what}")
        elif p99_s * 1e9 > limit_ns:
            reasons.append(
                f"the {what} was {p99_s * 1e3:.2f} ms at the 99th percentile (limit {limit_ns / 1e6:g} ms)"
            )
    stolen = 0.0 if scheduling is None else scheduling.stolen_share
    if reasons and stolen >= _MIN_STEAL_SHARE:
        reasons[-1] += f"; the host of this virtual machine kept {stolen:.1%} of the processors' time"
    return reasons
