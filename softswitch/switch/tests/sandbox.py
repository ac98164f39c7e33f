# SPDX-License-Identifier: Apache-2.0
"""Runs programs in separate namespaces, where any user may create interfaces."""

import os
import subprocess
import sys
from pathlib import Path

from weir.topo.tools import search_path

_NAMESPACES = ["--net", "--mount", "--pid", "--fork", "--kill-child"]
_SANDBOX = ["unshare", "--user", "--map-root-user", *_NAMESPACES]
# The machine's root, who alone may load programs into its kernel, in separate namespaces of all else.
_ROOT_SANDBOX = ["unshare", *_NAMESPACES]


CAP_NET_ADMIN, CAP_BPF = 12, 39  # linux/capability.h


def _may_load_programs() -> bool:
    """Whether this process has the needed capabilities, and not only in a user namespace."""
    status = Path("/proc/self/status").read_text()
    held = int(status.split("CapEff:")[1].split()[0], 16)
    every_user = Path("/proc/self/uid_map").read_text().split() == ["0", "0", str(2**32 - 1)]
    return every_user and all(held >> capability & 1 for capability in (CAP_NET_ADMIN, CAP_BPF))


def refusal(*, root: bool = False) -> str | None:
    """The reason for a skip where this machine allows no sandbox, or none of its root; None when it does."""
    if root and not _may_load_programs():
        return "user: only the machine's root may load an XDP program"
    sandbox = _ROOT_SANDBOX if root else _SANDBOX
    allowed = subprocess.run([*sandbox, "true"], capture_output=True, text=True)
    if allowed.returncode == 0:
        return None
    return f"kernel: namespaces are not allowed here: {allowed.stderr.strip()}"


def run_sandboxed(
    script: Path, *arguments: object, time_limit_s: float, root: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run a Python program in a sandbox to its end, with the system's sbin folders on its PATH."""
    command = [*(_ROOT_SANDBOX if root else _SANDBOX), "--mount-proc", sys.executable, str(script)]
    return subprocess.run(
        [*command, *(str(argument) for argument in arguments)],
        env=os.environ | {"PATH": search_path()},
        capture_output=True,
        text=True,
        timeout=time_limit_s,
    )
