# SPDX-License-Identifier: Apache-2.0
"""`weir run` with tuners: a decision each second, by the state of a real flow's socket."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from weir.topo.sandbox import sandbox_problem
from weir_tests.analysis.rtt_classifier import rtt_classifier
from weir_tests.kernel.real_kernel import needs_real_kernel

pytestmark = pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}")

# A setting that every kernel has; what it does to the flows is of no matter here.
EXPERIMENT = """\
name: tuned
hosts:
  client: {{delay: 5 ms, rate: 20 Mbit/s, burst: 5 kB, queue: 100 kB}}
  one: {{delay: 5 ms, tuner: {{flow: near, {tuner}}}}}
  two: {{delay: 95 ms, tuner: {{flow: far, {tuner}, latency: 300 ms}}}}
flows:
  - {{name: near, from: one, to: client, congestion_control: bbr, duration: 5 s}}
  - {{name: far, from: two, to: client, congestion_control: bbr, duration: 5 s}}
  - {{name: other, from: one, to: client, duration: 5 s}}
"""
TUNER = "classifier: rtt.json, sysctl: net.ipv4.tcp_ecn, values: {{near: 0, far: {far}}}"


def weir_run(folder: Path, far: str, *options: str) -> subprocess.CompletedProcess[str]:
    # Between 10 to 50 ms of the near flow, as its queue fills, and at least 190 ms of the far one.
    (folder / "rtt.json").write_text(rtt_classifier(limit_ms=110).model_dump_json())
    (folder / "tuned.yaml").write_text(EXPERIMENT.format(tuner=TUNER.format(far=far)))
    command = [str(Path(sys.executable).with_name("weir")), "run", str(folder / "tuned.yaml")]
    return subprocess.run(
        [*command, *options, "--runs", str(folder / "runs"), "--json"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_each_tuner_names_the_class_of_its_flow_every_second(tmp_path: Path) -> None:
    done = weir_run(tmp_path, far="1")
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    run_dir = tmp_path / "runs" / "tuned" / "latest"
    rows = pq.read_table(run_dir / "tuning.parquet").to_pylist()
    assert [flow["unexplained"] for flow in result["flows"]] == [0, 0, 0]
    for host, flow, predicted, value in (("one", "main/near", "near", "0"), ("two", "main/far", "far", "1")):
        its = [row for row in rows if row["host"] == host]
        assert {row["flow"] for row in its} == {flow}
        assert {(row["predicted"], row["value"]) for row in its} == {(predicted, value)}
        assert all(1 <= row["samples"] <= 10 for row in its)
        # One a second while the socket is there, which may be longer than the flow's five seconds; the first
        # may be late.
        assert len(its) >= 3, its
        assert its[-1]["time_ns"] - its[0]["time_ns"] > (len(its) - 2) * 10**9
    assert (run_dir / "classifiers" / "rtt.json").read_text() == (tmp_path / "rtt.json").read_text()


@needs_real_kernel
def test_a_decision_takes_effect_after_the_latency(tmp_path: Path) -> None:
    """In virtual time, where the computations of both tuners take none."""
    done = weir_run(tmp_path, "1", "--time", "virtual")
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(tmp_path / "runs" / "tuned" / "latest" / "tuning.parquet").to_pylist()
    near, far = ([row["time_ns"] for row in rows if row["host"] == host] for host in ("one", "two"))
    for times in (near, far):
        assert len(times) >= 4
        assert [later - earlier for earlier, later in itertools.pairwise(times)] == pytest.approx(
            [10**9] * (len(times) - 1), abs=10**7
        )
    # Their flows, hence their decisions, begin together.
    assert (far[0] - near[0]) % 10**9 == pytest.approx(300 * 10**6, abs=10**7)


def test_a_value_that_the_kernel_refuses_ends_the_run_before_its_traffic(tmp_path: Path) -> None:
    done = weir_run(tmp_path, far="99")
    assert done.returncode == 1
    assert "host one: the kernel refuses net.ipv4.tcp_ecn = 99" in done.stderr
    assert not (tmp_path / "runs" / "tuned" / "latest" / "tuning.parquet").exists()
