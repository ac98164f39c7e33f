# SPDX-License-Identifier: Apache-2.0
"""`weir campaign` end to end: namespaces, TCP, switch, collector and captures; flows of one second."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from weir.campaign.summary.model import Counts, read_summary
from weir.rundir.campaign_folder import PAGE
from weir.topo.sandbox import sandbox_problem
from weir_tests.cli.processes import MARKER, marked_processes, wait_until

TEXT = """
name: tiny
matrix: {rate: [5 Mbit/s, 10 Mbit/s]}
limits: {scheduling_p99: 10 s, switch_p99: 10 s}
hosts: {client: {delay: 5 ms}, one: {delay: 5 ms}, two: {delay: 5 ms}}
flows:
  - {name: one, from: one, to: client, duration: 1 s, measured: true}
  - {name: two, from: two, to: client, duration: 1 s, measured: true}
background:
  - {name: many, from: two, to: client, duration: 1 s, rate: 2 Mbit/s, mean_size: 20 kB, largest_size: 200 kB}
policers:
  - {name: p, rate: $rate, burst: 20 kB, match: [{to: client}]}
"""

pytestmark = pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}")


def start(folder: Path, marker: str, *options: str) -> subprocess.Popen[str]:
    file = folder / "tiny.yaml"
    file.write_text(TEXT)
    command = [str(Path(sys.executable).with_name("weir")), "campaign", str(file)]
    return subprocess.Popen(
        [*command, "--runs", str(folder / "runs"), "--json", *options],
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr").open("w"),
        text=True,
        env={**os.environ, MARKER: marker},
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str], marker: str) -> None:
    """Kill a campaign's first process, and wait until all others have ended."""
    process.kill()
    process.wait(10)
    wait_until(lambda: not list(marked_processes(marker)), 30, lambda: str(list(marked_processes(marker))))


def finish(folder: Path, *options: str) -> dict[str, Any]:
    process = start(folder, uuid.uuid4().hex, *options)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, (folder / "stderr").read_text()
    answer = json.loads(output.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


def test_a_campaign_killed_again_and_again_is_resumed_and_keeps_its_complete_runs(tmp_path: Path) -> None:
    """Killed ten times at random moments of its first seconds, and once while its second run sends."""
    planned = finish(tmp_path, "--dry-run")
    assert (planned["runs"], planned["complete"], len(planned["plan"])) == (2, 0, 2)
    assert planned["seconds_left"] > 2
    assert not (tmp_path / "runs").exists()

    folder = tmp_path / "runs" / "tiny"
    moments = random.Random(20261122)
    for _ in range(10):
        marker = uuid.uuid4().hex
        process = start(tmp_path, marker)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(moments.uniform(0, 4))
        kill(process, marker)

    marker = uuid.uuid4().hex
    process = start(tmp_path, marker)

    def complete_runs() -> list[Path]:
        return list(folder.glob("*_r001"))

    def second_run_sends() -> bool:
        return bool(complete_runs()) and any(folder.glob(".partial/*/logs/flow-main-one.json"))

    # The first run is analysed in spare time, which a busy machine has little of.
    wait_until(second_run_sends, 600, lambda: (tmp_path / "stderr").read_text())
    kill(process, marker)
    (first,) = complete_runs()
    made_ns = (first / "manifest.json").stat().st_mtime_ns

    answer = finish(tmp_path)
    assert answer == {
        "runs": 2,
        "complete": 2,
        "invalid": 0,
        "failed": 0,
        "unexplained": 0,
        "page": str(folder / PAGE),
    }
    assert (first / "manifest.json").stat().st_mtime_ns == made_ns
    assert sorted(path.name for path in complete_runs()) == sorted(run["run"] for run in planned["plan"])
    assert not list(folder.glob(".partial/*"))
    schedules: list[str] = []
    for path in complete_runs():
        manifest = json.loads((path / "manifest.json").read_text())
        assert manifest["seed"] in [run["seed"] for run in planned["plan"]]
        assert manifest["run_id"] == path.name
        # Some 200 samples per second of traffic.
        assert manifest["scheduling"]["samples"] > 100
        (background,) = manifest["phases"][0]["background"]
        assert background["complete"] + background["cut"] == background["flows"] > 1
        assert background["failed"] == 0
        # Two Mbit/s for a second are 250 kB, in whole bytes per flow.
        assert abs(background["offered_bytes"] - 250_000) <= background["flows"]
        schedules.append(background["schedule_sha256"])
        result = json.loads((path / "result.json").read_text())
        assert result["switch_lateness"]["frames"] > 100
        assert 0 <= result["switch_lateness"]["p50_s"] <= result["switch_lateness"]["max_s"]
        others = [flow for flow in result["other_flows"] if flow["kind"] == "other"]
        # Each background flow in both directions; flows that were cut off before they began have no packets.
        assert len(others) >= background["complete"] * 2
        assert sum(flow["law"]["reported_drops"] for flow in others) > 0
        assert path.name in (folder / PAGE).read_text()
    assert len(set(schedules)) == 2  # each run has a different seed
    summary = read_summary(folder)
    assert summary.counts == Counts(planned=2, complete=2, invalid=0, unexplained=0)
    assert summary.digest is None, "runs in real time never repeat"

    chosen = finish(tmp_path, "--dry-run", "--only", "rate=5 Mbit/s", "--repeats", "3")
    assert (chosen["runs"], chosen["complete"]) == (3, 1)
    assert {(run["cell"]["rate"], run["repeat"]) for run in chosen["plan"]} == {
        ("5 Mbit/s", 2),
        ("5 Mbit/s", 3),
    }

    part = finish(tmp_path, "--only", "rate=5 Mbit/s")
    assert (part["runs"], part["complete"]) == (1, 1)
    assert all(path.name in (folder / PAGE).read_text() for path in complete_runs())
    assert read_summary(folder) == summary
    assert "not of this grid" not in (tmp_path / "stderr").read_text()
