# SPDX-License-Identifier: Apache-2.0
"""`weir run --testbed` with real sshds and weir-switch known by its address; see `testbed_scenario.py`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weir.analysis.result import analyse
from weir.testbed.restoring import restore
from weir.testbed.scripts import module_command
from weir.topo.tools import search_path
from weir_tests.analysis.shifted_clock import Clock, copy_run
from weir_tests.cli.explained import assert_every_packet_is_explained
from weir_tests.topo.sandboxed import result_of

Seen = dict[str, Any]


@pytest.fixture(scope="module", name="every")
def _every(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    for name, package in {"sshd": "openssh-server", "sudo": "sudo"}.items():
        if shutil.which(name, path=search_path()) is None:
            pytest.skip(f"not installed: {name}; sudo apt-get install {package}")
    return result_of("weir_tests.cli.testbed_scenario", tmp_path_factory.mktemp("testbed"))


def error_of(run: Seen) -> str:
    """The one line that says what went wrong, which the manifest has too."""
    lines = [line for line in run["stderr"].splitlines() if line.startswith("weir: ")]
    lines = [line for line in lines if "what it wrote is in" not in line and "press Ctrl-C" not in line]
    assert len(lines) == 1, run["stderr"]
    if "manifest" in run:
        assert not run["manifest"]["complete"]
        assert lines[0].removeprefix("weir: ") in run["manifest"]["error"]
    return str(lines[0])


def test_every_packet_is_explained_on_a_testbed(every: Seen) -> None:
    assert_every_packet_is_explained(every["whole"]["first"])


def test_clocks_as_ntp_keeps_them_change_no_count(every: Seen, tmp_path: Path) -> None:
    clocks = {
        "server1": Clock(1_000_000, 50.0, ((2.0, 3_000_000),)),
        "server2": Clock(-1_000_000, -50.0, ((4.0, -4_000_000),)),
        "client": Clock(500_000, 30.0, ((3.0, 2_000_000),)),
    }
    run_dir = tmp_path / "run"
    start_ns = copy_run(Path(every["whole"]["run_dir"]), run_dir, clocks)
    manifest = json.loads((run_dir / "manifest.json").read_text())
    for host in manifest["hosts"]:
        for reading in host["clock"]:
            at_ns = np.array([reading["at_ns"]])
            reading["offset_s"] += float(clocks[host["name"]].stamps(at_ns, start_ns)[0] - at_ns[0]) / 1e9
    (run_dir / "manifest.json").write_text(json.dumps(manifest))
    law, result = every["whole"]["first"]["output"]["law"], analyse(run_dir)
    assert result.valid, result.invalid_reasons
    assert result.law.unexplained == 0
    for key in ("sent", "received", "missing", "reported_drops", "explained"):
        assert getattr(result.law, key) == law[key]
    found = {clock.host: clock for clock in result.host_clocks}
    assert all(len(found[host].steps) == 1 for host in clocks)


def test_headers_give_the_result_of_whole_captures(every: Seen, tmp_path: Path) -> None:
    whole, run_dir = Path(every["whole"]["run_dir"]), tmp_path / "run"
    shutil.copytree(whole, run_dir, ignore=shutil.ignore_patterns("result.json", "*.parquet"))
    shutil.copy(whole / "telemetry.parquet", run_dir)
    shutil.copy(whole / "sockets.parquet", run_dir)
    sizes = [0, 0]
    for capture in (run_dir / "pcap").iterdir():
        sizes[0] += capture.stat().st_size
        subprocess.run(module_command("weir.testbed.remote.headers", [str(capture)]), check=True)
        reduced = capture.with_name(f"{capture.name}.headers")
        sizes[1] += reduced.stat().st_size
        restore(reduced, capture)
        reduced.unlink()
    print(f"{sizes[0]} bytes of captures, {sizes[1]} of headers")
    analyse(run_dir)
    for name in ("result.json", "flows.parquet", "series.parquet", "features.parquet"):
        assert (run_dir / name).read_bytes() == (whole / name).read_bytes()


def test_a_run_that_keeps_results_explains_every_packet_without_captures(every: Seen) -> None:
    run = every["results"]["run"]
    assert_every_packet_is_explained(run)
    assert [name for name in every["results"]["files"] if "pcap" in name] == []
    assert "telemetry.parquet" in every["results"]["files"]
    for host in run["manifest"]["hosts"]:
        assert 0 < host["fetched_bytes"] < host["capture_bytes"] / 8, host
    assert "`capture: {keep: results}` of an experiment" in every["results"]["again"]


def test_every_packet_is_explained_over_ipv6(every: Seen) -> None:
    run = every["six"]["run"]
    assert_every_packet_is_explained(run)
    flows = [flow for flow in run["output"]["flows"] if flow["src"].startswith("fd00::")]
    assert len(flows) == 3
    assert all(flow["sent"] > 100 for flow in flows)


def test_the_manifest_names_the_testbed_but_not_how_to_log_in(every: Seen) -> None:
    manifest = every["whole"]["first"]["manifest"]
    assert manifest["testbed"] == {
        "name": "rack",
        "switch": "127.0.0.1:9600",
        "ports": {"client": 1, "server1": 2, "server2": 3, "collector": 4},
    }
    for host in manifest["hosts"]:
        assert len(host["clock"]) == 2
        assert all(abs(reading["offset_s"]) <= reading["error_s"] + 1e-3 for reading in host["clock"])


@pytest.mark.parametrize(
    "name", ["whole", "results", "six", "lost", "interrupted", "killed", "restarted", "full", "refused"]
)
def test_hosts_are_as_before_however_a_run_ends(every: Seen, name: str) -> None:
    assert every[name]["same"]


@pytest.mark.parametrize("name", ["results", "lost", "interrupted", "restarted"])
def test_no_capture_stays_on_the_hosts(every: Seen, name: str) -> None:
    assert every[name]["run"]["left"] == []


def test_a_host_whose_connection_breaks_ends_the_run_at_once(every: Seen) -> None:
    assert error_of(every["lost"]["run"]) == (
        "weir: server1: the connection was lost; valid: a host that stays reachable"
    )


def test_a_switch_that_is_restarted_ends_the_run(every: Seen) -> None:
    assert error_of(every["restarted"]["run"]).startswith("weir: no P4Runtime at 127.0.0.1:9600")


def test_nothing_listens_but_on_loopback_and_the_addresses_of_the_testbed(every: Seen) -> None:
    listening = every["interrupted"]["listening"]
    assert "10.0.0.1" in listening, "no server of a flow was seen"
    assert all(address.startswith(("127.0.0.", "10.0.0.", "192.168.50.")) for address in listening), listening


def test_ctrl_c_is_in_the_manifest(every: Seen) -> None:
    run = every["interrupted"]["run"]
    assert run["code"] == 130
    assert run["manifest"]["state"] == "interrupted"


def test_after_kill_9_the_next_run_is_whole(every: Seen) -> None:
    following = every["killed"]["next"]
    assert following["code"] == 0, following["stderr"]
    assert following["output"]["valid"], following["output"]["invalid_reasons"]
    assert following["output"]["law"]["unexplained"] == 0
    deleted = re.compile(r"(1 file of an earlier run is|\d+ files of an earlier run are) deleted$")
    assert any(deleted.search(note) for note in following["manifest"]["notes"])


def test_a_full_disk_of_a_host_ends_the_run(every: Seen) -> None:
    assert "weir: server1: " in error_of(every["full"]["run"])
    assert "bytes are free in" in error_of(every["full"]["run"])


def test_a_capture_stops_at_the_disk_limit_of_its_host(every: Seen) -> None:
    run = every["full"]["limited"]
    assert run["code"] == 1
    assert "client: a file reached the disk_limit of 200000 bytes" in run["manifest"]["error"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("interface", 'server1: `ip -json address show dev eth7`: Device "eth7" does not exist'),
        ("address", "hosts.server2.address: host 'client' has the address 10.0.0.1 too"),
        ("space", "server1: "),
        ("mac", "server1: exp0 has the MAC address 02:00:00:00:00:02, not 02:00:00:00:00:77"),
        ("stamps", "server1: exp0 makes no time stamps of its own; valid: time_stamps: host"),
        ("offloads", "server1: offloads of lo cannot be turned off"),
        ("tool", "server2: tcpdump not installed; valid: sudo apt-get install tcpdump"),
        ("iperf3", "server2: its iperf3 has no --connect-timeout; valid: a newer version of iperf3"),
        ("sudo", "server2: `sudo -n` is refused"),
    ],
)
def test_what_is_wrong_with_a_host_is_one_line(every: Seen, name: str, said: str) -> None:
    if name == "sudo" and os.geteuid() != 0:
        pytest.skip("user: only root can log in as another user")
    run = every["refused"][name]
    assert run["code"] != 0
    assert said in error_of(run)
