# SPDX-License-Identifier: Apache-2.0
"""Runs one comparison in network namespaces of its own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from peers import BMV2

SANDBOX = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child"]
TIME_LIMIT_S = 900


def problem() -> str | None:
    """Why there can be no comparison here; None when there can."""
    if shutil.which(BMV2) is None:
        return f"{BMV2} is not on PATH; install p4lang's official packages (https://github.com/p4lang/behavioral-model)"
    allowed = subprocess.run([*SANDBOX, "true"], capture_output=True, text=True)
    if allowed.returncode != 0:
        return f"user namespaces are not allowed here: {allowed.stderr.strip()}"
    return None


def compare(switch: Path, program: str, seed: int, packets: int, folder: Path) -> dict[str, Any]:
    """The fields of compare.Outcome. Raises RuntimeError, with what was printed, when it came to no end."""
    script = Path(__file__).with_name("compare.py")
    command = [*SANDBOX, "--mount-proc", sys.executable, str(script), str(switch), program, str(seed)]
    ended = subprocess.run(
        [*command, str(packets), str(folder)], capture_output=True, text=True, timeout=TIME_LIMIT_S
    )
    if ended.returncode != 0:
        raise RuntimeError(f"{program}, seed {seed}: {ended.stdout}{ended.stderr}")
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found
