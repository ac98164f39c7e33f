# SPDX-License-Identifier: Apache-2.0
"""Run PTF on a running switch: load the program, then run every test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from weir.ptftests.config import RunConfig
from weir.ptftests.control import Control
from weir.topo.stop import StopToken

TESTS = Path(__file__).resolve().parents[2] / "tests"
# Frames that may wait at a port until the test reads them; PTF discards older ones.
_QUEUE_FRAMES = 20_000


def ptf_program() -> Path:
    """PTF's script, in the folder of the Python for which it is installed."""
    return Path(sys.executable).with_name("ptf")


def run_ptf(config: RunConfig, tests: Sequence[str], logs: Path, stop: StopToken | None = None) -> int:
    """PTF's exit code: 0 when no test failed. Raises ControlPlaneError if the switch refuses the program."""
    control = Control(config)
    control.push()
    control.close()
    settings = logs / "run.json"
    config.save(settings)
    command = [sys.executable, str(ptf_program()), "--test-dir", str(TESTS), "--allow-user"]
    command += ["--test-params", f"config={str(settings)!r}", "--qlen", str(_QUEUE_FRAMES)]
    command += ["--log-file", str(logs / "ptf.log"), "--debug", "info"]
    for port in config.ports:
        command += ["--interface", f"0-{port.number}@{port.interface}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen([*command, *tests], env=environment)
    forget = stop.on_stop(process.terminate) if stop is not None else None
    code = process.wait()
    if forget is not None:
        forget()
    if stop is not None:
        stop.raise_if_stopped()
    return code
