# SPDX-License-Identifier: Apache-2.0
"""A run whose link changes while a flow runs: rate and delay of the frames to a host, in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from weir.topo.sandbox import sandbox_problem
from weir_tests.cli.one_run import weir_run
from weir_tests.kernel.real_kernel import needs_real_kernel

pytestmark = [
    needs_real_kernel,
    pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}"),
]

EXPERIMENT = """
name: changing
time: virtual
hosts:
  client: {delay: 5 ms, rate: 20 Mbit/s, burst: 3 kB, queue: 50 kB, jitter: 20 ms, reorder: true}
  server: {delay: 5 ms}
flows: [{name: bulk, from: server, to: client, congestion_control: bbr, duration: 9 s}]
capture: {sockets: 10 ms}
phases:
  - name: main
    changes:
      - {at: 500 ms, host: client, jitter: 0 s}
      - {at: 4 s, host: client, rate: 5 Mbit/s}
      - {at: 7 s, host: client, delay: 45 ms}
analysis: {detectors: []}
"""


@pytest.fixture(scope="module", name="run_dir")
def _run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("changing")
    done = weir_run(folder, EXPERIMENT)
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "changing" / "latest"


def phase_of(run_dir: Path) -> dict[str, Any]:
    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert manifest["valid"], manifest["invalid_reasons"]
    (phase,) = manifest["phases"]
    return dict(phase)


def test_each_change_is_recorded_with_the_link_as_it_is_from_then_on(run_dir: Path) -> None:
    changes = phase_of(run_dir)["link_changes"]
    assert [(one["at_s"], one["host"], one["rate_bps"], one["delay_s"]) for one in changes] == [
        (0.5, "client", 20_000_000, 0.005),
        (4.0, "client", 5_000_000, 0.005),
        (7.0, "client", 5_000_000, 0.045),
    ]
    assert all(one["updates"] == 1 for one in changes)
    hosts = {host["name"]: host for host in json.loads((run_dir / "manifest.json").read_text())["hosts"]}
    assert (hosts["client"]["jitter_s"], hosts["client"]["reorder"]) == (0.02, True)


def test_the_flow_has_the_rate_and_the_delay_of_its_link_and_no_packet_is_unexplained(run_dir: Path) -> None:
    sockets = pq.read_table(run_dir / "sockets.parquet").to_pandas()
    at_s = (sockets.time_ns - phase_of(run_dir)["start_ns"]) / 1e9
    assert float(np.median(np.diff(at_s))) == pytest.approx(0.01, rel=1e-3)

    def between(begin_s: float, end_s: float) -> Any:
        return sockets[(at_s >= begin_s) & (at_s < end_s)]

    def payload_mbps(begin_s: float, end_s: float) -> float:
        its = between(begin_s, end_s)
        return float(np.ptp(its.delivered) * 1448 * 8 / (np.ptp(its.time_ns) / 1e9) / 1e6)

    assert payload_mbps(2, 4) == pytest.approx(20 * 1448 / 1514, rel=0.03)
    assert payload_mbps(5, 7) == pytest.approx(5 * 1448 / 1514, rel=0.05)
    least_ms = [float(between(*times).rtt_ns.min()) / 1e6 for times in ((2, 4), (7.5, 9))]
    assert 10 <= least_ms[0] <= 20
    assert 50 <= least_ms[1] <= 60
    (flow,) = json.loads((run_dir / "result.json").read_text())["flows"]
    assert flow["unexplained"] == 0


def test_jitter_with_reorder_changes_the_order_of_frames(run_dir: Path) -> None:
    # Retransmissions before anything was lost: by 0.5 s only reordering can have caused them.
    sockets = pq.read_table(run_dir / "sockets.parquet").to_pandas()
    at_s = (sockets.time_ns - phase_of(run_dir)["start_ns"]) / 1e9
    assert float(sockets[at_s >= 0.5].retrans_total.iloc[0]) > 0
    (flow,) = json.loads((run_dir / "result.json").read_text())["flows"]
    assert flow["spurious_retransmissions"] > 0
