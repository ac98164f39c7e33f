# SPDX-License-Identifier: Apache-2.0
"""`weir run --time virtual` end to end, on the kernel 6.12 of the user's cache (`make kernel`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from weir.kernel.errors import KernelInputError
from weir.kernel.source import DEBIAN_SERIES
from weir.kernel.store import KernelStore, StoredKernel, kernels_folder
from weir.topo.sandbox import sandbox_problem
from weir_tests.cli.processes import MARKER, marked_processes, wait_until

EXPERIMENT = """
name: virtual
hosts:
  client: {{delay: 5 ms}}
  server1: {{delay: 5 ms}}
  server2: {{delay: 5 ms}}
flows:
  - {{name: one, from: server1, to: client, congestion_control: bbr, duration: {duration}, measured: true}}
  - {{name: two, from: server2, to: client, congestion_control: vegas, duration: {duration}, measured: true}}
policers:
  - {{name: common, rate: 10 Mbit/s, burst: 20 ms, match: [{{to: client}}]}}
"""


def kernel() -> StoredKernel | None:
    try:
        return KernelStore(kernels_folder()).find(DEBIAN_SERIES)
    except KernelInputError:
        return None


pytestmark = [
    pytest.mark.skipif(kernel() is None, reason="kernel: none of virtual time is built; make kernel"),
    pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}"),
]


class VirtualRun:
    """`weir run --time virtual` in a folder."""

    def __init__(self, folder: Path, *options: str, duration: str = "6 s") -> None:
        self.folder, self.marker = folder, uuid.uuid4().hex
        config = folder / "virtual.yaml"
        config.write_text(EXPERIMENT.format(duration=duration))
        weir = str(Path(sys.executable).with_name("weir"))
        self.process = subprocess.Popen(
            [
                weir,
                "run",
                str(config),
                "--runs",
                str(folder / "runs"),
                "--time",
                "virtual",
                "--json",
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr").open("w"),
            text=True,
            env={**os.environ, MARKER: self.marker},
            start_new_session=True,
        )

    @property
    def run_dir(self) -> Path:
        return self.folder / "runs" / "virtual" / "latest"

    @property
    def errors(self) -> str:
        return (self.folder / "stderr").read_text()

    def end(self) -> tuple[int, str]:
        """Wait for its end; returns exit code and stdout. Nothing is left of it."""
        output, _ = self.process.communicate(timeout=600)
        wait_until(
            lambda: not list(marked_processes(self.marker)),
            30,
            lambda: "left over: " + "\n".join(marked_processes(self.marker)),
        )
        return self.process.returncode, output

    def lines(self) -> list[str]:
        """The error lines."""
        return [line for line in self.errors.splitlines() if line.startswith("weir: ")]


def test_a_run_in_virtual_time_explains_every_loss_and_records_its_kernel(tmp_path: Path) -> None:
    run = VirtualRun(tmp_path)
    code, output = run.end()
    assert code == 0, run.errors
    assert json.loads(output)
    found = kernel()
    assert found is not None
    manifest = json.loads((run.run_dir / "manifest.json").read_text())
    assert manifest["complete"]
    assert manifest["valid"], manifest["invalid_reasons"]
    recorded = manifest["virtual_time"]["kernel"]
    assert recorded["program_sha256"] == found.record.program_sha256
    assert {"bbr", "vegas"} <= set(recorded["congestion_controls"])
    result = json.loads((run.run_dir / "result.json").read_text())
    assert [flow["name"] for flow in result["flows"]] == ["one", "two"]
    for flow in result["flows"]:
        assert flow["reported_drops"] > 0
        assert flow["unexplained"] == 0
    assert (run.run_dir / "report.html").is_file()
    # Nothing is late in virtual time, so nothing is measured inside; the captures show what the switch adds.
    assert "scheduling" not in manifest or manifest["scheduling"] is None
    assert result["switch_lateness"]["p99_s"] < 1e-4


def test_ctrl_c_ends_the_guest_and_leaves_nothing(tmp_path: Path) -> None:
    run = VirtualRun(tmp_path, duration="1000 s")
    wait_until(lambda: "flows for" in run.errors, 300, lambda: run.errors)
    run.process.send_signal(signal.SIGINT)
    code, _ = run.end()
    assert code == 130
    manifest = json.loads((run.run_dir / "manifest.json").read_text())
    assert (manifest["state"], manifest["complete"]) == ("interrupted", False)


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    run = VirtualRun(tmp_path, "--memory", "128")
    code, _ = run.end()
    assert code == 1
    assert any("128 MB are too little memory for the guest" in line for line in run.lines()), run.errors
