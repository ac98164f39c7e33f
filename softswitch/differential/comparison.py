# SPDX-License-Identifier: Apache-2.0
"""Runs one comparison in separate network namespaces."""

import json
import shutil
from pathlib import Path
from typing import Any

from peers import BMV2
from sandbox import refusal, run_sandboxed

TIME_LIMIT_S = 900


def problem() -> str | None:
    """The reason why this machine can run no comparison; None when it can."""
    if shutil.which(BMV2) is None:
        return f"bmv2: {BMV2} is not on PATH (https://github.com/p4lang/behavioral-model)"
    reason = refusal()
    return reason and f"kernel: {reason}"


def compare(switch: Path, program: str, seed: int, packets: int, folder: Path) -> dict[str, Any]:
    """The fields of compare.Outcome. Raises RuntimeError, with the output, when the comparison fails."""
    script = Path(__file__).with_name("compare.py")
    arguments = (switch, program, seed, packets, folder)
    ended = run_sandboxed(script, *arguments, time_limit_s=TIME_LIMIT_S)
    if ended.returncode != 0:
        raise RuntimeError(f"{program}, seed {seed}: {ended.stdout}{ended.stderr}")
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found
