# SPDX-License-Identifier: Apache-2.0
"""`weir run --time virtual` end to end, on the kernel 6.12 of the user's cache (`make kernel`)."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import RawPcapReader

from weir.rundir.digest import digest_of
from weir.rundir.directory import is_held
from weir.topo.sandbox import sandbox_problem
from weir_tests.cli.processes import MARKER, marked_processes, wait_until
from weir_tests.kernel.real_kernel import needs_real_kernel, real_kernel

EXPERIMENT = """
name: virtual
hosts:
  client: {{delay: 5 ms}}
  server1: {{delay: 5 ms}}
  server2: {{delay: 5 ms, packet_cost: 5 us}}
flows:
  - {{name: one, from: server1, to: client, congestion_control: bbr, duration: {duration}, measured: true}}
  - {{name: two, from: server2, to: client, congestion_control: vegas, duration: {duration}, measured: true}}
policers:
  - {{name: common, rate: 10 Mbit/s, burst: 20 ms, match: [{{to: client}}]}}
"""

DATAGRAMS = """
name: virtual
hosts: {client: {delay: 5 ms}, server: {delay: 5 ms}}
flows:
  - {name: other, from: server, to: client, protocol: udp, rate: 100 kbit/s, datagram: 500 B, duration: 2 s}
  - {name: paced, from: server, to: client, protocol: udp, rate: 1 Mbit/s, duration: 1 s, start: 1 s}
"""


pytestmark = [
    needs_real_kernel,
    pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}"),
]


class VirtualRun:
    """`weir run --time virtual` in a folder."""

    def __init__(self, folder: Path, *options: str, duration: str = "6 s", text: str | None = None) -> None:
        self.folder, self.marker = folder, uuid.uuid4().hex
        config = folder / "virtual.yaml"
        config.write_text(text or EXPERIMENT.format(duration=duration))
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


@pytest.fixture(scope="module", name="run")
def _run(tmp_path_factory: pytest.TempPathFactory) -> VirtualRun:
    """A complete run."""
    run = VirtualRun(tmp_path_factory.mktemp("run"))
    code, output = run.end()
    assert code == 0, run.errors
    assert json.loads(output)
    return run


def test_a_run_in_virtual_time_explains_every_loss_and_records_its_kernel(run: VirtualRun) -> None:
    found = real_kernel()
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
    assert result["kernel"] == f"{recorded['name']} ({recorded['version']})"
    assert f"virtual time, kernel {result['kernel']}" in (run.run_dir / "report.html").read_text()
    check_lines(run.run_dir, {host["name"]: host for host in manifest["hosts"]})
    # Nothing is late in virtual time, so nothing is measured inside; the captures show what the switch adds.
    assert "scheduling" not in manifest or manifest["scheduling"] is None
    assert result["switch_lateness"]["max_s"] < 50e-6
    check_switch(run.run_dir, manifest["hosts"][0])


SOURCE, DESTINATION = slice(26, 30), slice(30, 34)
"""The IPv4 addresses in a frame."""


def gaps_ns(capture: Path, which: slice, address: str) -> list[tuple[int, int]]:
    """(bytes of a frame, ns until the next one) of the frames from or to an IPv4 address in a capture."""
    frames = []
    with RawPcapReader(str(capture)) as packets:
        assert packets.nano
        for data, meta in packets:
            if data[12:14] == b"\x08\x00" and data[which] == IPv4Address(address).packed:
                frames.append((meta.wirelen, meta.sec * 10**9 + meta.usec))
    return [(size, then - at) for (size, at), (_, then) in itertools.pairwise(frames)]


def check_lines(run_dir: Path, hosts: Mapping[str, Mapping[str, Any]]) -> None:
    """No frame of a host is closer to the one before than line and host allow; many are just as close."""
    for name, cost_ns in (("client", 0), ("server1", 0), ("server2", 5_000)):
        host = hosts[name]
        assert host["line_rate_bps"] == 10**10
        assert host["packet_cost_s"] == cost_ns / 1e9
        gaps = gaps_ns(run_dir / host["pcap"], SOURCE, host["addresses"][0])
        # 24 bytes of Ethernet's overhead; 0.8 ns a byte.
        closest = min(gap - (size + 24) * 0.8 - cost_ns for size, gap in gaps)
        assert closest >= 0, f"{name}: {-closest:.0f} ns too close"
        if name != "client":
            # The guest's clock has steps of 256 ns, and its timers fire up to two steps late.
            least_ns = 1538 * 0.8 + cost_ns
            window = [gap for size, gap in gaps if size == 1514 and gap <= least_ns + 768]
            print(f"{name}: {len(window)} of {len(gaps)} frames back to back")
            assert len(window) > 100


def check_switch(run_dir: Path, client: Mapping[str, Any]) -> None:
    """Nearly all frames of the switch keep the distance that the line demands; many keep no more."""
    gaps = gaps_ns(run_dir / client["pcap"], DESTINATION, client["addresses"][0])
    spare_ns = [gap - (size + 24) * 0.8 for size, gap in gaps]
    closer = sum(spare < 0 for spare in spare_ns)
    window = sum(0 <= spare <= 768 for spare in spare_ns)
    print(f"switch: {closer} of {len(gaps)} frames too close, {window} back to back")
    assert closer < len(gaps) / 50
    assert window > len(gaps) / 10


def test_a_repeat_in_a_deeper_directory_is_the_same_bytes(run: VirtualRun, tmp_path: Path) -> None:
    deeper = tmp_path / ("deeper" * 9) / "still deeper"
    deeper.mkdir(parents=True)
    repeat = VirtualRun(deeper)
    code, _ = repeat.end()
    assert code == 0, repeat.errors
    first = digest_of(run.run_dir)
    assert first.differing(digest_of(repeat.run_dir)) == []
    assert len(first.files) > 8


def test_ctrl_c_ends_the_guest_and_leaves_nothing(tmp_path: Path) -> None:
    run = VirtualRun(tmp_path, duration="1000 s")
    wait_until(lambda: "flows for" in run.errors, 300, lambda: run.errors)
    assert is_held(run.run_dir)
    run.process.send_signal(signal.SIGINT)
    code, _ = run.end()
    assert code == 130
    assert not is_held(run.run_dir)
    manifest = json.loads((run.run_dir / "manifest.json").read_text())
    assert (manifest["state"], manifest["complete"]) == ("interrupted", False)


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    run = VirtualRun(tmp_path, "--memory", "128")
    code, _ = run.end()
    assert code == 1
    assert any("128 MB are too little memory for the guest" in line for line in run.lines()), run.errors


def test_datagrams_keep_to_their_rate_from_the_start(tmp_path: Path) -> None:
    run = VirtualRun(tmp_path, text=DATAGRAMS)
    code, _ = run.end()
    assert code == 0, run.errors
    records = RawPcapReader(str(run.run_dir / "pcap" / "server.pcap"))
    sent = [(at.sec, at.usec) for _, at in records if at.wirelen == 1514]
    times_s = [sec + nanoseconds / 1e9 for sec, nanoseconds in sent]
    apart_s = 1472 * 8 / 1e6
    ahead = [number - (at_s - times_s[0]) / apart_s for number, at_s in enumerate(times_s)]
    print(f"{len(sent)} datagrams, up to {max(ahead):.2f} ahead of the rate")
    # iperf3 compares its rate after it has sent: for the first two, no time may have passed since its start,
    # and a third is sent when the line has taken the second, before iperf3 compares again. A fourth has to
    # wait.
    assert max(ahead) <= 2.01
    assert len(sent) == pytest.approx(1 / apart_s, abs=2)
