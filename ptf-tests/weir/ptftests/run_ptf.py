# SPDX-License-Identifier: Apache-2.0
"""Run weir's PTF tests on a running switch: load the program, then run every test."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from finsy import P4Schema

from weir.controlplane.config.values import BFRUNTIME
from weir.ptf.program import PtfRun, find_ptf
from weir.ptf.switch import push
from weir.ptftests import bfruntime_control
from weir.ptftests.config import RunConfig
from weir.ptftests.control import credentials
from weir.topo.stop import StopToken

TESTS = Path(__file__).resolve().parents[2] / "tests"
# Frames that may wait at a port until the test reads them; PTF discards older ones.
_QUEUE_FRAMES = 20_000


def ptf_program() -> Path:
    """PTF's script in this Python's environment. Raises PtfMissingError."""
    return find_ptf(Path(sys.executable), "make ptf")


def run_ptf(config: RunConfig, tests: Sequence[str], logs: Path, stop: StopToken | None = None) -> int:
    """PTF's exit code: 0 when no test failed.

    Raises PtfMissingError, and ControlPlaneError if the switch refuses the program.
    """
    if config.address.startswith(BFRUNTIME):
        bfruntime_control.push(config)
    else:
        schema = P4Schema(Path(config.p4info), Path(config.program))
        push(config.address, config.device_id, schema, credentials(config.tls))
    settings = logs / "run.json"
    config.save(settings)
    run = PtfRun(
        python=Path(sys.executable),
        ptf=ptf_program(),
        tests=TESTS,
        ports=config.ports,
        params={"config": repr(str(settings))},
        logs=logs,
        names=tests,
        options=("--qlen", str(_QUEUE_FRAMES)),
        socket=config.packet_socket,
    )
    return run.run({"PYTHONPATH": os.pathsep.join(sys.path)}, stop)
