# SPDX-License-Identifier: Apache-2.0
"""A flow that fills a queue of eight seconds, in virtual time: iperf3's last messages wait in it too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weir.topo.sandbox import sandbox_problem
from weir_tests.cli.one_run import weir_run
from weir_tests.kernel.real_kernel import needs_real_kernel

pytestmark = [
    needs_real_kernel,
    pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}"),
]

EXPERIMENT = """
name: deep
time: virtual
hosts:
  client: {delay: 5 ms, rate: 10 Mbit/s, burst: 5 kB, queue: 10 MB}
  server: {delay: 5 ms}
flows: [{name: bulk, from: server, to: client, congestion_control: cubic, duration: 60 s}]
capture: {keep: results}
analysis: {detectors: []}
"""


def test_a_flow_ends_by_itself_behind_a_deep_queue(tmp_path: Path) -> None:
    done = weir_run(tmp_path, EXPERIMENT)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert output["invalid_reasons"] == []
    assert output["law"]["unexplained"] == 0
    # It drops only when it is full, and then its delay is its size by its rate.
    assert output["law"]["missing"] > 0
