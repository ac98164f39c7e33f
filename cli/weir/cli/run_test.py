# SPDX-License-Identifier: Apache-2.0
"""`weir run` end to end: namespaces, TCP, switch, collector and captures, with short flows."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from weir.cli.errors import EXIT_DISK
from weir.rundir.directory import is_held
from weir.topo.sandbox import sandbox_problem
from weir.topo.script import Block, Script
from weir.topo.tools import find_tool
from weir_tests.cli.processes import MARKER, marked_processes, wait_until

TCP, UDP = 6, 17
FLOWS = ("one", "two", "three", "four", "five", "six")
REPLAY = Script((Block("client", 0, ((0.0, 200),)), Block("server", 200, ((0.0, 300_000), (1.0, 300_000)))))
CALL = Script(
    (
        Block("client", 0, ((0.0, 100), (1.0, 100))),
        # 2 Mbit/s for three seconds, more than the other flows leave of the policers' 10 Mbit/s.
        Block("server", 0, tuple((round(0.1 + 0.004 * number, 3), 1_000) for number in range(750))),
    ),
    protocol="udp",
)
EXPERIMENT = """
name: short
hosts:
  client: {{delay: 5 ms, address6: "2001:db8::1"}}
  server1: {{delay: 5 ms, address6: "2001:db8::2"}}
  server2: {{delay: 5 ms, address6: "2001:db8::3"}}
flows:
  - {{name: one, from: server1, to: client, congestion_control: bbr, duration: {duration}, measured: true}}
  - {{name: two, from: server2, to: client, ip_version: 6, duration: {duration}, measured: true}}
  - {{name: three, from: server2, to: client, protocol: udp, rate: 1 Mbit/s, duration: {duration}}}
  - {{name: four, from: server1, to: client, protocol: udp, ip_version: 6, rate: 1 Mbit/s,
      duration: {duration}}}
  - {{name: five, from: server2, to: client, duration: {duration}, replay: talk.replay}}
  - {{name: six, from: server1, to: client, protocol: udp, duration: {duration}, replay: call.replay}}
phases:
  - name: shared
    policers:
      - {{name: common, rate: 10 Mbit/s, burst: 20 ms, match: [{{to: client}}]}}
  - name: hashed
    policers:
      - {{name: each, rate: 10 Mbit/s, burst: 50 kB, mode: per_flow_hashed, cells: 64,
          match: [{{to: client}}]}}
    changes:
      - {{at: 2 s, policer: each, burst: 60 kB}}
"""

IPV6 = Path("/proc/sys/net/ipv6").exists()
if not IPV6:
    EXPERIMENT = re.sub(r', address6: "[^"]*"|, ip_version: 6', "", EXPERIMENT)
needs_ipv6 = pytest.mark.skipif(not IPV6, reason="kernel: no IPv6")
needs_sandbox = pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}")
pytestmark = needs_sandbox


@dataclass(frozen=True)
class Run:
    run_dir: Path
    result: dict[str, Any]
    manifest: dict[str, Any]


def start(
    folder: Path, marker: str, *, duration: str = "6 s", text: str = EXPERIMENT
) -> "subprocess.Popen[str]":
    config = folder / "short.yaml"
    (folder / "talk.replay").write_text(REPLAY.text)
    (folder / "call.replay").write_text(CALL.text)
    config.write_text(text.format(duration=duration))
    command = [
        str(Path(sys.executable).with_name("weir")),
        "run",
        str(config),
        "--runs",
        str(folder / "runs"),
        "--json",
    ]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr").open("w"),
        text=True,
        env={**os.environ, MARKER: marker},
        start_new_session=True,
    )


def run(folder: Path, **options: str) -> Run:
    marker = uuid.uuid4().hex
    process = start(folder, marker, **options)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 0, (folder / "stderr").read_text()
    assert_nothing_is_left(marker)
    run_dir = folder / "runs" / "short" / "latest"
    return Run(run_dir, json.loads(output), json.loads((run_dir / "manifest.json").read_text()))


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("short"))


def test_every_packet_of_every_flow_is_explained(short_run: Run) -> None:
    flows = short_run.result["flows"]
    names = {f"{phase}/{flow}" for phase in ("shared", "hashed") for flow in FLOWS}
    assert names == {flow["id"] for flow in flows}
    for flow in flows:
        assert flow["unexplained"] == 0, flow
        explained = flow["reported_drops"] + flow["reports_lost"] + flow["in_flight"]
        assert flow["sent"] - flow["received"] == explained, flow
    assert sum(flow["reported_drops"] for flow in flows) > 50, (
        "the policers dropped too little to prove anything"
    )


def test_the_run_is_complete_and_valid(short_run: Run) -> None:
    assert short_run.manifest["complete"] is True
    assert short_run.manifest["state"] == "complete"
    assert short_run.result["complete"] is True
    assert short_run.result["valid"] is True, short_run.result["invalid_reasons"]


def test_colours_add_up_to_the_packets_that_met_each_policer(short_run: Run) -> None:
    for phase in short_run.manifest["phases"]:
        for policer in phase["policers"]:
            colours = sum(policer["counters"][colour]["packets"] for colour in ("green", "yellow", "red"))
            assert colours == policer["packets_met"] > 0


def test_reports_equal_what_the_switch_counted_red(short_run: Run) -> None:
    red = sum(
        policer["counters"]["red"]["packets"]
        for phase in short_run.manifest["phases"]
        for policer in phase["policers"]
    )
    accounting = json.loads((short_run.run_dir / "collector.json").read_text())
    assert red == short_run.manifest["switch"]["reports_sent"] == accounting["received"]
    assert accounting["malformed"] == accounting["lost"] == accounting["kernel_drops"] == 0


def test_the_inference_finds_the_drops_of_the_switch(short_run: Run) -> None:
    # Flows end cleanly, so the last losses are also repaired, and thus inferred.
    flows = [flow for flow in short_run.result["flows"] if flow["measured"]]
    for flow in flows:
        print(
            flow["id"], {name: flow[name] for name in ("true_positive", "false_positive", "false_negative")}
        )
        print(flow["false_inferences"])
        assert flow["true_positive"] >= 20
    found, wrong, missed = (
        sum(flow[name] for flow in flows) for name in ("true_positive", "false_positive", "false_negative")
    )
    assert found >= 0.998 * (found + wrong)
    assert found >= 0.998 * (found + missed)


def test_datagram_counts_agree_with_iperf3(short_run: Run) -> None:
    flows = [flow for flow in short_run.result["flows"] if flow["id"].endswith(("three", "four"))]
    for flow in flows:
        log = short_run.run_dir / "logs" / f"flow-{flow['id'].replace('/', '-')}.json"
        ended = json.loads(log.read_text().partition("\n{")[2].join(("{", "")))["end"]
        print(flow["id"], flow["sent"], flow["reported_drops"], ended["sum_received"])
        # iperf3 does not count its first datagram, a greeting.
        assert ended["sum_sent"]["packets"] == flow["sent"] - 1
        # The receiver cannot detect losses after the last datagram that it received.
        assert ended["sum_received"]["lost_packets"] <= flow["reported_drops"]
        assert flow["inferred_lost"] == 0
    assert sum(flow["reported_drops"] for flow in flows) > 0


def test_replays_are_recorded_and_analysed_as_flows(short_run: Run) -> None:
    for phase in short_run.manifest["phases"]:
        played, called = (flow["script"] for flow in phase["flows"] if "script" in flow)
        assert (played["sha256"], played["client_bytes_sent"]) == (REPLAY.sha256, 200)
        found = next(flow for flow in short_run.result["flows"] if flow["id"] == f"{phase['name']}/five")
        assert (found["protocol"], found["cc"]) == (TCP, "cubic")
        assert found["received"] * 1448 > 100_000
        # Its last data was acknowledged, so each loss was repaired and inferred.
        assert found["false_negative"] <= 1

        assert (called["sha256"], called["whole"], called["writes"]) == (CALL.sha256, True, 752)
        found = next(flow for flow in short_run.result["flows"] if flow["id"] == f"{phase['name']}/six")
        assert (found["protocol"], found["sent"]) == (UDP, 750)
        assert found["received"] == 750 - found["reported_drops"]


@needs_ipv6
def test_both_versions_of_ip_are_sent_lost_and_sampled(short_run: Run) -> None:
    versions = dict(zip(FLOWS, (4, 6, 4, 6, 4, 4), strict=True))
    for phase in short_run.manifest["phases"]:
        for flow in phase["flows"]:
            assert (
                ip_address(flow["src"]).version == ip_address(flow["dst"]).version == versions[flow["name"]]
            )
    lost = [flow["id"] for flow in short_run.result["flows"] if flow["reported_drops"]]
    assert {versions[name.partition("/")[2]] for name in lost} == {4, 6}
    sampled = pq.read_table(short_run.run_dir / "sockets.parquet", columns=["src"])["src"].unique()
    assert {ip_address(src.as_py()).version for src in sampled} == {4, 6}


def test_delivery_rates_from_captures_agree_with_the_kernel(short_run: Run) -> None:
    weir_core = pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    sockets = pq.read_table(short_run.run_dir / "sockets.parquet").to_pandas()
    compared = 0
    for host, its in sockets[sockets.delivery_rate_bps > 0].groupby("host"):
        capture = weir_core.read_losses(short_run.run_dir / "pcap" / f"{host}.pcap")
        ends = ["src", "dst", "src_port", "dst_port"]
        flows = capture.flows.to_pandas().set_index(ends)["flow"]
        rates = capture.delivery_rates.to_pandas().sort_values("time_ns")
        for key, samples in its.groupby(ends):
            mine = rates[rates.flow == flows[key]]
            at = np.searchsorted(mine.time_ns, samples.time_ns, side="right") - 1
            known = (at >= 0) & (samples.state == "ESTABLISHED").to_numpy()
            if np.count_nonzero(known) < 50:
                continue
            ratio = mine.rate_bps.to_numpy()[at[known]] / samples.delivery_rate_bps.to_numpy()[known]
            # Kernel and capture differ by some 100 µs at both ends of intervals of at least 10 ms.
            assert float(np.median(ratio)) == pytest.approx(1, abs=0.02), key
            compared += 1
    assert compared >= 4


@needs_ipv6
def test_hosts_with_ipv6_send_only_the_traffic_of_flows(short_run: Run) -> None:
    for host in ("client", "server1", "server2"):
        command = [find_tool("tcpdump"), "-n", "-r", str(short_run.run_dir / "pcap" / f"{host}.pcap")]
        alien = [*command, "ip6 and not host 2001:db8::1 or ip6 and not tcp and not udp"]
        done = subprocess.run(alien, capture_output=True, text=True, check=True)
        assert done.stdout == ""


def test_a_change_during_a_phase_is_recorded_with_the_clock_of_the_switch(short_run: Run) -> None:
    (change,) = short_run.manifest["phases"][1]["changes"]
    assert (change["name"], change["at_s"], change["burst_bytes"]) == ("each", 2.0, 60_000)
    # One update per meter cell.
    assert change["updates"] == 64
    before_ns, after_ns = change["switch_clock_ns"]
    assert 0 < before_ns <= after_ns <= short_run.manifest["switch"]["stats"]["uptime_ns"]
    assert change["realtime_ns"][0] - short_run.manifest["phases"][1]["start_ns"] >= 2 * 10**9


def test_read_back_rates_and_bursts_are_recorded(short_run: Run) -> None:
    for phase in short_run.manifest["phases"]:
        for policer in phase["policers"]:
            assert policer["read_back_rate_bps"] == policer["effective_rate_bps"] == policer["rate_bps"]
            assert policer["read_back_burst_bytes"] == policer["burst_bytes"]


def test_the_truth_of_each_phase_follows_from_its_policers(short_run: Run) -> None:
    truths = {pair["flows"][0].split("/")[0]: pair["truth"] for pair in short_run.result["pairs"]}
    assert truths["shared"] == "shared"
    assert set(truths) == {"shared", "hashed"}


def test_all_files_of_the_run_exist_and_none_is_partial(short_run: Run) -> None:
    names = {
        str(path.relative_to(short_run.run_dir)) for path in short_run.run_dir.rglob("*") if path.is_file()
    }
    wanted = {"config.yaml", "manifest.json", "collector.json", "telemetry.parquet", "sockets.parquet"}
    wanted |= {"flows.parquet", "result.json", "report.html"}
    wanted |= {f"pcap/{host}.pcap" for host in ("client", "server1", "server2")}
    assert wanted <= names
    assert not [name for name in names if name.endswith(".part")]


# Datagrams at twice the rates and more: a bucket of 0.2 s is never full again, even if the sender waits.
RATES = """\
name: short
hosts: {{a: {{}}, b: {{}}}}
flows: [{{name: f, from: a, to: b, protocol: udp, rate: 40 Mbit/s, duration: {duration}}}]
phases:
  - {{name: slower, policers: [{{name: p, rate: 10 Mbit/s, burst: 200 ms, match: [{{to: b}}]}}]}}
  - {{name: faster, policers: [{{name: p, rate: 20 Mbit/s, burst: 200 ms, match: [{{to: b}}]}}]}}
"""


def test_the_switch_polices_at_the_rate_in_the_file_within_half_a_percent(tmp_path: Path) -> None:
    # A machine that is busy with something else may offer less than the rate: then nothing was measured yet.
    for attempt in range(3):
        (folder := tmp_path / str(attempt)).mkdir()
        policers = run(folder, text=RATES).result["policers"]
        assert [policer["rate_bps"] for policer in policers] == [10e6, 20e6]
        if not any("never without being full" in policer["agreement"] for policer in policers):
            break
    for policer in policers:
        print(f"{policer['rate_bps'] / 1e6:g} Mbit/s: {policer['agreement']}")
        assert policer["agrees"] is True, policer


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_stopped_run_is_recorded_as_interrupted(tmp_path: Path, number: int, code: int) -> None:
    marker = uuid.uuid4().hex
    process = start(tmp_path, marker, duration="60 s")
    run_dir = wait_for_traffic(tmp_path)
    process.send_signal(number)
    assert process.wait(60) == code
    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert manifest["complete"] is False
    assert manifest["state"] == "interrupted"
    assert_nothing_is_left(marker)


def test_sigterm_before_the_sandbox_is_recorded_too(tmp_path: Path) -> None:
    marker = uuid.uuid4().hex
    process = start(tmp_path, marker, duration="60 s")
    runs = tmp_path / "runs" / "short"
    wait_until(lambda: any(runs.glob("2*/manifest.json")), 30, (tmp_path / "stderr").read_text)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) in (130, 143)
    (manifest,) = runs.glob("2*/manifest.json")
    assert json.loads(manifest.read_text())["state"] == "interrupted"
    assert_nothing_is_left(marker)


def test_a_run_killed_with_sigkill_leaves_no_processes_and_is_not_complete(tmp_path: Path) -> None:
    marker = uuid.uuid4().hex
    process = start(tmp_path, marker, duration="60 s")
    run_dir = wait_for_traffic(tmp_path)
    assert is_held(run_dir)
    process.kill()
    process.wait(10)
    assert_nothing_is_left(marker)
    assert not is_held(run_dir)
    assert json.loads((run_dir / "manifest.json").read_text())["complete"] is False


FULL = """\
name: full
hosts: {a: {}, b: {}}
flows: [{name: f, from: a, to: b, protocol: udp, rate: 20 Mbit/s, duration: 3 s}]
policers: [{name: p, rate: 40 Mbit/s, burst: 20 ms, match: [{to: b}]}]
"""
ON_A_SMALL_DISK = """\
import subprocess, sys
from pathlib import Path
from weir.topo.linux import mount
folder, weir = sys.argv[1:]
mount("tmpfs", f"{folder}/runs", "size=300k")
done = subprocess.run([weir, "run", f"{folder}/full.yaml", "--runs", f"{folder}/runs"])
print(Path(folder, "runs/full/latest/manifest.json").read_text())
sys.exit(done.returncode)
"""


def test_a_disk_that_fills_during_a_run_gives_one_line(tmp_path: Path) -> None:
    """The captures fill a file system of 300 kB, mounted only for this process, within a second."""
    (tmp_path / "full.yaml").write_text(FULL)
    (tmp_path / "runs").mkdir()
    marker = uuid.uuid4().hex
    as_user = () if os.geteuid() == 0 else ("--user", "--map-current-user", "--keep-caps")
    program = [
        sys.executable,
        "-c",
        ON_A_SMALL_DISK,
        str(tmp_path),
        str(Path(sys.executable).with_name("weir")),
    ]
    done = subprocess.run(
        [find_tool("unshare"), *as_user, "--mount", "--", *program],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**os.environ, MARKER: marker},
    )
    assert done.returncode == EXIT_DISK, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("weir: ")]
    assert [line.endswith(": No space left on device") for line in lines] == [True, False], done.stderr
    assert lines[1].startswith("weir: the run failed; what it wrote is in ")
    assert "Traceback" not in done.stderr
    manifest = json.loads(done.stdout)
    assert (manifest["complete"], manifest["state"]) == (False, "failed")
    assert "No space left on device" in manifest["error"]
    assert_nothing_is_left(marker)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "{folder}/full.yaml", "--runs", "{folder}/closed"],
        ["report", "{folder}/closed/run"],
        ["watch", "{folder}/full.yaml", "--log", "{folder}/closed/events.jsonl"],
    ],
    ids=lambda words: words[0],
)
def test_a_read_only_directory_gives_one_line(short_run: Run, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "full.yaml").write_text(FULL)
    (tmp_path / "closed").mkdir()
    shutil.copytree(short_run.run_dir, tmp_path / "closed" / "run")
    as_root = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    closed = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    weir = [str(Path(sys.executable).with_name("weir")), *(word.format(folder=tmp_path) for word in words)]
    done = subprocess.run(
        [
            find_tool("unshare"),
            *as_root,
            "--mount",
            "--",
            "sh",
            "-c",
            closed,
            str(tmp_path / "closed"),
            *weir,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == EXIT_DISK, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"weir: {tmp_path}/closed/")
    assert line.endswith(": Read-only file system")


def wait_for_traffic(folder: Path) -> Path:
    """Wait until a flow has been captured; returns the run directory."""
    latest = folder / "runs" / "short" / "latest"

    def captured() -> bool:
        return any(path.stat().st_size > 100_000 for path in latest.glob("pcap/server1.pcap*"))

    wait_until(captured, 60, lambda: (folder / "stderr").read_text())
    return latest.resolve()


def assert_nothing_is_left(marker: str) -> None:
    wait_until(lambda: not list(marked_processes(marker)), 30, lambda: str(list(marked_processes(marker))))
