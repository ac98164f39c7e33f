# SPDX-License-Identifier: Apache-2.0
"""The first process of a new kernel: writes what it finds to a file, and powers the kernel off.

Runs without the package (`python -S -E`), so it imports only the standard library.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

_POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF of reboot(2)


def main() -> None:
    """Write `version`, `congestion_controls` and 32 random bytes (`entropy`, hexadecimal) as JSON."""
    if os.getpid() != 1:  # the power-off would be the host's
        sys.exit("this is the first process of a guest")
    libc = ctypes.CDLL(None)
    libc.mount(b"proc", b"/proc", b"proc", 0, None)
    if "User Mode Linux" not in Path("/proc/cpuinfo").read_text():
        sys.exit("this is the first process of a guest")
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text()
    answer = {
        "version": os.uname().release,
        "congestion_controls": available.split(),
        "entropy": os.urandom(32).hex(),
    }
    with Path(sys.argv[1]).open("w") as file:
        json.dump(answer, file)
        file.flush()
        os.fsync(file.fileno())
    libc.reboot(_POWER_OFF)


if __name__ == "__main__":
    main()
