# SPDX-License-Identifier: Apache-2.0
"""`weir campaign` in virtual time end to end, on the kernel 6.12 of the user's cache (`make kernel`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from weir.campaign.summary.model import Counts, read_summary
from weir.campaign.virtual import OUTSIDE_MB, processors
from weir.cli.main import run_cli
from weir.rundir.campaign_folder import PAGE, SUMMARY
from weir.topo.memory import available_mb
from weir.topo.sandbox import sandbox_problem
from weir_tests.cli.processes import MARKER, marked_processes, wait_until
from weir_tests.kernel.real_kernel import needs_real_kernel

MEMORY_MB = 512
# In real time, no run could be within these limits.
TEXT = """
name: tiny
time: virtual
matrix: {kernel: [6.12], cc: [bbr, vegas]}
limits: {scheduling_p99: 1 ns, switch_p99: 1 ns}
hosts: {client: {delay: 5 ms}, one: {delay: 5 ms}, two: {delay: 5 ms}}
flows:
  - {name: one, from: one, to: client, duration: 1 s, measured: true, congestion_control: $cc}
  - {name: two, from: two, to: client, duration: 1 s, measured: true}
policers:
  - {name: p, rate: 5 Mbit/s, burst: 20 kB, match: [{to: client}]}
"""


pytestmark = [
    needs_real_kernel,
    pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}"),
]


class VirtualCampaign:
    """`weir campaign` of a tiny campaign in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        (folder / "tiny.yaml").write_text(TEXT)
        self.marker = ""

    def start(self, *options: str) -> subprocess.Popen[str]:
        self.marker = uuid.uuid4().hex
        command = [str(Path(sys.executable).with_name("weir")), "campaign", "tiny.yaml"]
        return subprocess.Popen(
            [*command, "--memory", str(MEMORY_MB), "--json", *options],
            cwd=self.folder,  # the folder of runs is relative
            stdout=subprocess.PIPE,
            stderr=(self.folder / "stderr").open("w"),
            text=True,
            env={**os.environ, MARKER: self.marker, "TMPDIR": str(self.temporary)},
            start_new_session=True,
        )

    @property
    def errors(self) -> str:
        return (self.folder / "stderr").read_text()

    def running(self) -> list[Path]:
        """The runs whose guests have begun to capture."""
        return list((self.folder / "runs" / "tiny" / ".partial").glob("*/pcap"))

    def wait_for_guests(self, process: subprocess.Popen[str], number: int) -> None:
        wait_until(
            lambda: len(self.running()) >= number or process.poll() is not None, 300, lambda: self.errors
        )
        assert process.poll() is None, self.errors

    def nothing_is_left(self) -> None:
        wait_until(
            lambda: not list(marked_processes(self.marker)),
            60,
            lambda: "left over: " + "\n".join(marked_processes(self.marker)),
        )
        assert list(self.temporary.glob("weir-*")) == []

    def finish(self, *options: str) -> dict[str, Any]:
        process = self.start(*options)
        output, _ = process.communicate(timeout=900)
        assert process.returncode == 0, self.errors
        self.nothing_is_left()
        answer = json.loads(output.splitlines()[-1])
        assert isinstance(answer, dict)
        return answer


def test_a_campaign_in_virtual_time_is_killed_stopped_and_resumed(tmp_path: Path) -> None:
    campaign = VirtualCampaign(tmp_path)
    planned = campaign.finish("--dry-run")
    assert [run["kernel"] for run in planned["plan"]] == ["6.12", "6.12"]
    at_a_time = min(2, processors(), available_mb() // (MEMORY_MB + OUTSIDE_MB))
    assert planned["jobs"] == at_a_time
    assert planned["virtual_seconds_left"] == 2
    assert "assumed, until a run has finished" in planned["seconds_left_assumes"]

    process = campaign.start()
    campaign.wait_for_guests(process, at_a_time)
    process.kill()
    process.communicate(timeout=60)
    campaign.nothing_is_left()

    process = campaign.start()
    wait_until(lambda: not campaign.running(), 60, lambda: campaign.errors)
    campaign.wait_for_guests(process, at_a_time)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130, campaign.errors
    campaign.nothing_is_left()

    folder = tmp_path / "runs" / "tiny"
    assert campaign.finish() == {
        "runs": 2,
        "complete": 2,
        "invalid": 0,
        "failed": 0,
        "unexplained": 0,
        "page": str(Path("runs", "tiny", PAGE)),
    }
    seeds = {run["run"]: run["seed"] for run in planned["plan"]}
    for path in folder.glob("*_r001"):
        manifest = json.loads((path / "manifest.json").read_text())
        assert manifest["seed"] == seeds[path.name]
        assert manifest["campaign"]["cell"]["kernel"] == "6.12"
        assert manifest["campaign"]["jobs"] == at_a_time
        assert manifest["virtual_time"]["memory_mb"] == MEMORY_MB
    assert "virtual time, kernel 6.12 (" in (folder / PAGE).read_text()

    # One run at a time, undisturbed: the summary is the same, digest by digest.
    campaign.finish("--runs", "again", "--jobs", "1")
    repeat = tmp_path / "again" / "tiny"
    assert (repeat / SUMMARY).read_bytes() == (folder / SUMMARY).read_bytes()
    summary = read_summary(repeat)
    assert summary.digest is not None
    assert [kernel.name for kernel in summary.kernels] == ["6.12"]
    assert summary.counts == Counts(planned=2, complete=2, invalid=0, unexplained=0)
    assert run_cli(["campaign", "compare", str(folder), str(repeat)]) == 0
    for run in (run for cell in summary.cells for run in cell.runs):
        assert json.loads((folder / run.run / "manifest.json").read_text())["digest"] == run.digest
