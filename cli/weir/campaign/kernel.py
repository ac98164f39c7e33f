# SPDX-License-Identifier: Apache-2.0
"""Which congestion controls this machine's kernel offers."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from pathlib import Path

from weir.campaign.load import Campaign

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def offered(names: Iterable[str]) -> set[str]:
    """Those of `names` that a TCP socket takes; asking also loads the kernel's module where we may.

    EPERM counts: what the kernel keeps from ordinary users it lets them use in the sandbox of a run.
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


def without_lacking(campaign: Campaign) -> tuple[Campaign, str]:
    """The campaign as this kernel can run it, and what to say about the rest; empty where it can all."""
    kept = campaign.offered_by(offered(set().union(*(run.congestion_controls for run in campaign.runs))))
    if not kept.left_out:
        return kept, ""
    lacking = ", ".join(f"{runs} with {name}" for name, runs in kept.left_out.items())
    return kept, f"left out, because this kernel lacks it: {lacking}; it has {_AVAILABLE.read_text().strip()}"
