# SPDX-License-Identifier: Apache-2.0
"""Programs in namespaces of their own, where anyone may make interfaces."""

import os
import subprocess
import sys
from pathlib import Path

from weir.topo.tools import search_path

_SANDBOX = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child"]


def refusal() -> str | None:
    """Why there can be no namespaces here; None when there can."""
    allowed = subprocess.run([*_SANDBOX, "true"], capture_output=True, text=True)
    if allowed.returncode == 0:
        return None
    return f"user namespaces are not allowed here: {allowed.stderr.strip()}"


def run_sandboxed(
    script: Path, *arguments: object, time_limit_s: float
) -> "subprocess.CompletedProcess[str]":
    """Run a Python program in a sandbox to its end, with all of the system's programs on its PATH."""
    command = [*_SANDBOX, "--mount-proc", sys.executable, str(script)]
    return subprocess.run(
        [*command, *(str(argument) for argument in arguments)],
        env=os.environ | {"PATH": search_path()},
        capture_output=True,
        text=True,
        timeout=time_limit_s,
    )
