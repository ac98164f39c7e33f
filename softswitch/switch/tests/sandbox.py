# SPDX-License-Identifier: Apache-2.0
"""Runs programs in separate namespaces, where any user may create interfaces."""

import os
import subprocess
import sys
from pathlib import Path

from weir.topo.tools import search_path

_SANDBOX = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child"]


def refusal() -> str | None:
    """The reason why this machine allows no namespaces; None when it does."""
    allowed = subprocess.run([*_SANDBOX, "true"], capture_output=True, text=True)
    if allowed.returncode == 0:
        return None
    return f"user namespaces are not allowed here: {allowed.stderr.strip()}"


def run_sandboxed(
    script: Path, *arguments: object, time_limit_s: float
) -> "subprocess.CompletedProcess[str]":
    """Run a Python program in a sandbox to its end, with the system's sbin folders on its PATH."""
    command = [*_SANDBOX, "--mount-proc", sys.executable, str(script)]
    return subprocess.run(
        [*command, *(str(argument) for argument in arguments)],
        env=os.environ | {"PATH": search_path()},
        capture_output=True,
        text=True,
        timeout=time_limit_s,
    )
