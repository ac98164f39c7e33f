# SPDX-License-Identifier: Apache-2.0
"""A run whose receivers have queues of their kernel behind their captures, in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scapy.utils import RawPcapReader

from weir.topo.sandbox import sandbox_problem
from weir_tests.cli.one_run import weir_run
from weir_tests.kernel.real_kernel import needs_real_kernel

pytestmark = [
    needs_real_kernel,
    pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}"),
]

EXPERIMENT = """
name: queued
time: virtual
hosts:
  fifo: {delay: 5 ms, receive_queue: {discipline: pfifo limit 100, rate: 10 Mbit/s}}
  codel: {delay: 5 ms, receive_queue: {discipline: codel, rate: 10 Mbit/s}}
  marking:
    delay: 5 ms
    receive_queue: {discipline: fq_codel ecn, rate: 10 Mbit/s}
    sysctl: {net.ipv4.tcp_ecn: 1}
  pie: {delay: 5 ms, receive_queue: {discipline: pie target 15ms, rate: 10 Mbit/s}}
  server: {delay: 5 ms, sysctl: {net.ipv4.tcp_ecn: 1}}
flows:
  - {name: fifo, from: server, to: fifo, duration: 8 s}
  - {name: codel, from: server, to: codel, duration: 8 s}
  - {name: marking, from: server, to: marking, duration: 8 s}
  - {name: pie, from: server, to: pie, duration: 8 s}
analysis: {detectors: []}
"""
QUEUED = ("fifo", "codel", "marking", "pie")


@pytest.fixture(scope="module", name="run_dir")
def _run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queued")
    done = weir_run(folder, EXPERIMENT)
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "queued" / "latest"


@pytest.fixture(scope="module", name="manifest")
def _manifest(run_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run_dir / "manifest.json").read_text())
    assert found["valid"], found["invalid_reasons"]
    return found


def queue_of(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    (host,) = [one for one in manifest["hosts"] if one["name"] == name]
    queue: dict[str, Any] = host["receive_queue"]
    return queue


@pytest.mark.parametrize("name", QUEUED)
def test_each_frame_that_arrived_was_passed_on_dropped_or_waits(
    run_dir: Path, manifest: dict[str, Any], name: str
) -> None:
    queue = queue_of(manifest, name)
    (host,) = [one for one in manifest["hosts"] if one["name"] == name]
    mac = bytes.fromhex("0200" + "".join(f"{int(part):02x}" for part in host["addresses"][0].split(".")))
    with RawPcapReader(str(run_dir / host["pcap"])) as packets:
        arrived = sum(frame[6:12] != mac for frame, _ in packets)
    assert arrived == queue["sent"] + queue["dropped"] + queue["waiting"]
    assert arrived > 5000


def test_the_queues_do_to_tcp_what_their_disciplines_are_for(run_dir: Path, manifest: dict[str, Any]) -> None:
    sockets = pq.read_table(run_dir / "sockets.parquet").to_pandas()
    start_ns = manifest["phases"][0]["start_ns"]
    later = sockets[sockets.time_ns - start_ns > 2e9]
    names = {one["addresses"][0]: one["name"] for one in manifest["hosts"]}
    by_name = {names[address]: its for address, its in later.groupby("dst")}
    rtt_ms = {name: float(np.median(its.rtt_ns)) / 1e6 for name, its in by_name.items()}
    assert rtt_ms["fifo"] > 80  # half of 100 frames at 10 Mbit/s are 60 ms, the base RTT is 10 ms
    assert all(rtt_ms[name] < 35 for name in ("codel", "marking", "pie"))
    assert sorted(by_name) == sorted(QUEUED)
    for name, its in by_name.items():
        rate_mbps = np.ptp(its.delivered) * 1448 * 8 / (np.ptp(its.time_ns) / 1e9) / 1e6
        assert 8.5 < rate_mbps < 9.6, name  # 1448 of 1514 bytes are payload
    for name in ("fifo", "codel", "pie"):
        assert queue_of(manifest, name)["dropped"] > 0
    assert queue_of(manifest, "marking")["dropped"] == 0
    assert queue_of(manifest, "marking")["marked"] > 0


def test_what_a_receive_queue_drops_is_no_loss_of_the_path(run_dir: Path, manifest: dict[str, Any]) -> None:
    law = json.loads((run_dir / "result.json").read_text())["law"]
    assert (law["missing"], law["unexplained"]) == (0, 0)
    notes = [note for note in manifest["notes"] if note.startswith("the receive queue of ")]
    assert [note.split()[4] for note in notes] == list(QUEUED)


def test_a_discipline_that_the_kernel_lacks_is_named(tmp_path: Path) -> None:
    done = weir_run(tmp_path, EXPERIMENT.replace("pfifo limit 100", "frobnicate"))
    assert done.returncode != 0
    (said,) = [line for line in done.stderr.splitlines() if "no receive queue" in line]
    assert "host 'fifo': no receive queue 'frobnicate'" in said
