# SPDX-License-Identifier: Apache-2.0
"""`weir run` with `switch: {target: bmv2}` end to end, where bmv2 is on PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from weir.topo.bmv2proc import bmv2_problem
from weir.topo.sandbox import sandbox_problem
from weir_tests.cli.processes import MARKER, marked_processes, wait_until

POLICED = """
name: policed
switch: {target: bmv2}
hosts: {client: {delay: 5 ms}, server1: {delay: 5 ms}, server2: {}}
flows:
  - {name: one, from: server1, to: client, duration: 6 s, measured: true}
  - {name: two, from: server2, to: client, duration: 6 s, measured: true}
  - {name: burst, from: server2, to: client, protocol: udp, rate: 2 Mbit/s, duration: 6 s}
phases:
  - name: shared
    policers: [{name: common, rate: 10 Mbit/s, burst: 20 ms, match: [{to: client}]}]
  - name: learned
    policers:
      - {name: each, rate: 4 Mbit/s, burst: 20 ms, mode: per_flow_learned, flows: 16, cells: 16,
         match: [{to: client}]}
"""
# The datagrams end at the rate of the queue and more, so the last of them are dropped behind the last gap.
QUEUED = """
name: queued
switch: {target: bmv2}
hosts:
  client: {delay: 5 ms, jitter: 1 ms, loss: 0.5 %, rate: 8 Mbit/s, queue_packets: 30}
  server1: {delay: 5 ms, line_rate: 100 Mbit/s}
  server2: {}
flows:
  - {name: tcp, from: server1, to: client, duration: 3 s}
  - {name: udp, from: server2, to: client, protocol: udp, rate: 16 Mbit/s, duration: 3 s, start: 1 s}
"""
FLOODED = """
name: flooded
switch: {target: bmv2}
hosts: {client: {}, server: {}}
flows:
  - {name: small, from: server, to: client, protocol: udp, rate: 120 Mbit/s, datagram: 64 B, duration: 3 s}
"""
pytestmark = [
    pytest.mark.skipif(bmv2_problem() is not None, reason=f"bmv2: {bmv2_problem()}"),
    pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}"),
]


@dataclass(frozen=True)
class Run:
    result: dict[str, Any]
    manifest: dict[str, Any]

    def port(self, number: int) -> dict[str, Any]:
        """The counters of a switch port."""
        (found,) = (port for port in self.manifest["switch"]["stats"]["ports"] if port["port"] == number)
        return dict(found)


def run(folder: Path, text: str) -> Run:
    config, runs, marker = folder / "run.yaml", folder / "runs", uuid.uuid4().hex
    config.write_text(text)
    command = [str(Path(sys.executable).with_name("weir")), "run", str(config), "--runs", str(runs), "--json"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, MARKER: marker},
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not list(marked_processes(marker)), 30, lambda: str(list(marked_processes(marker))))
    (manifest,) = runs.glob("*/latest/manifest.json")
    return Run(json.loads(done.stdout), json.loads(manifest.read_text()))


@pytest.fixture(scope="module")
def policed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("policed"), POLICED)


@pytest.fixture(scope="module")
def queued(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("queued"), QUEUED)


def test_every_packet_is_explained_by_the_reports_of_bmv2(policed: Run) -> None:
    assert policed.result["valid"], policed.result["invalid_reasons"]
    law = policed.result["law"]
    print(law)
    assert (law["unexplained"], law["contradictions"]) == (0, 0)
    assert law["reported_drops"] == law["missing"] > 50
    assert policed.result["explained"], policed.result["headline"]


def test_the_clock_of_bmv2_is_pinned_to_those_of_the_hosts(policed: Run) -> None:
    clocks = {clock["host"]: clock for clock in policed.result["clocks"]}
    print({host: clock["residual_ns"] for host, clock in clocks.items()})
    assert set(clocks) == {"server1", "server2"}
    assert all(clock["residual_ns"] < 1_000_000 for clock in clocks.values())


def test_counters_of_policers_agree_with_captures(policed: Run) -> None:
    assert [policer["disagreements"] for policer in policed.result["policers"]] == [[], []]
    assert policed.manifest["phases"][1]["learned"]["each"]["flows_with_cell"] >= 3


def test_ports_count_what_went_through_and_nothing_else_is_set(policed: Run) -> None:
    client = policed.port(1)
    assert client["tx_packets"] > 1_000
    assert (client["rx_overruns"], client["tx_errors"], client["link_lost"]) == (0, 0, 0)
    assert "queue_drops" not in client
    assert any(note.startswith("the switch is bmv2 ") for note in policed.manifest["notes"])


def test_the_drops_of_a_queue_are_counted_to_the_last_packet(queued: Run) -> None:
    client, law = queued.port(1), queued.result["law"]
    print(law, client)
    assert queued.result["valid"], queued.result["invalid_reasons"]
    assert client["queue_drops"] > 500
    assert client["link_lost"] > 0
    # For the captures, a packet dropped in the last moments may as well be in flight.
    assert client["queue_drops"] + client["link_lost"] == law["missing"]
    assert law["emulated_losses"] + law["in_flight"] == law["missing"]
    assert law["in_flight"] <= 5
    assert law["unexplained"] == 0


def test_the_queue_and_what_it_serves_are_recorded(queued: Run) -> None:
    (client,) = (host for host in queued.manifest["hosts"] if host["name"] == "client")
    assert client["queue_packets"] == 30
    assert "queue_bytes" not in client
    assert any("bmv2 serves 661 packets/s" in note for note in queued.manifest["notes"])
    served = sum(flow["received"] for flow in queued.result["flows"])
    # 661 packets/s for the three seconds in which both flows or the datagrams alone fill the queue.
    assert served > 3 * 661 * 0.95


def test_a_switch_that_is_too_slow_makes_the_run_invalid(tmp_path: Path) -> None:
    flooded = run(tmp_path, FLOODED)
    lost, law = flooded.port(2)["rx_overruns"], flooded.result["law"]
    print(law, lost)
    if law["missing"] == 0:
        pytest.skip("kernel: this machine offers no more than bmv2 takes in")
    assert not flooded.result["valid"]
    assert f"switch port 2: {lost:,} frames lost before the switch read them" in "".join(
        flooded.result["invalid_reasons"]
    )
    assert lost == law["missing"]
