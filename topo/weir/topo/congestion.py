# SPDX-License-Identifier: Apache-2.0
"""Whether a kernel has a congestion control. Runs on hosts with Python 3.9 and its standard library."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def congestion_problem(name: str) -> str | None:
    """None if a TCP socket of this namespace can use `name`, else an error with the available ones.

    The test sets it on a socket, which also loads the kernel module where that is permitted. Raises OSError.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EPERM):
                raise
            return (
                f"congestion control {name!r} is not available; this kernel has: "
                f"{', '.join(_AVAILABLE.read_text().split())}; "
                f"its module may load with: sudo modprobe tcp_{name}"
            )
    return None
