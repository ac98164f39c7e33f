# SPDX-License-Identifier: Apache-2.0
"""A flow with 20,000 packets in flight, in virtual time: TCP has the memory to keep what it acknowledged."""

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

# BBR's start loses half of what it sends. A guest of 1 GB with Linux's own limit of TCP's memory threw away
# acknowledged segments by the third second.
EXPERIMENT = """
name: long
time: virtual
hosts:
  client: {delay: 100 ms, rate: 500 Mbit/s, burst: 5 kB, queue: 100 kB, jitter: 100 us}
  server: {delay: 100 ms, jitter: 100 us}
flows: [{name: bulk, from: server, to: client, congestion_control: bbr, duration: 5 s}]
capture: {keep: results}
analysis: {detectors: []}
"""


def test_a_long_fat_path_does_not_exhaust_tcps_memory(tmp_path: Path) -> None:
    done = weir_run(tmp_path, EXPERIMENT)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert output["invalid_reasons"] == []
    assert output["law"]["unexplained"] == 0
    assert output["law"]["missing"] > 20_000
