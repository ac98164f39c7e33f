# SPDX-License-Identifier: Apache-2.0
"""Run by `testbed_run_test.py` in a sandbox, the network: `weir run --testbed`, with a real sshd per host.

    server1, server2, client, collector (namespaces of network, mount and PID, each with its sshd)
        │ control network: the sshds, and this process
        └ one link each ══ weir-switch, known to weir by its P4Runtime address

Usage in the sandbox: `python -m weir_tests.cli.testbed_scenario FOLDER [NAME…]`. Writes FOLDER/result.json.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from weir.topo.linux import NETNS_FOLDER
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess
from weir.topo.testbed import turn_offloads_off
from weir_tests.testbed.control_scenarios import state
from weir_tests.testbed.lab import Lab, descendants

ADDRESS, DEVICE = "127.0.0.1:9600", 7
EXPERIMENT_NETWORK = "10.0.0.0/24"
HOSTS = ("client", "server1", "server2", "collector")
EXPERIMENT = """\
name: {name}
hosts:
  client: {{delay: 5 ms}}
  server1: {{delay: 5 ms}}
  server2: {{}}
flows:
  - {{name: one, from: server1, to: client, congestion_control: bbr, duration: {seconds} s, measured: true}}
  - {{name: two, from: server2, to: client, congestion_control: cubic, duration: {seconds} s, measured: true}}
  - {{name: datagrams, from: server2, to: client, protocol: udp, rate: 2 Mbit/s, duration: {seconds} s}}
{more}
policers:
  - {{name: common, rate: 10 Mbit/s, burst: 20 ms, match: [{{from: [server1, server2], to: client}}]}}
"""
BACKGROUND = """\
background:
  - name: noise
    from: server2
    to: client
    congestion_control: cubic
    rate: 2 Mbit/s
    pacing: 5 Mbit/s
    duration: 5 s
"""
Scenario = Callable[["Rack"], dict[str, Any]]


class Rack:
    """Hosts with sshd, cabled to a switch."""

    def __init__(self, folder: Path, stop: StopToken, hosts: Sequence[str] = HOSTS) -> None:
        """Start nothing yet."""
        self.folder, self.stop, self.names = folder, stop, hosts
        self.lab = Lab(folder / "lab")
        self.switch_entry: dict[str, Any] = {"address": ADDRESS, "device_id": DEVICE}
        self.options: dict[str, dict[str, Any]] = {"server1": {"tmpfs": "size=60m,mode=0700"}}
        if os.getuid() == 0:
            self.options["server2"] = {"users": ("alice",), "sudoers": "root ALL=(ALL) ALL\n"}

    def __enter__(self) -> Rack:
        """Start hosts and switch."""
        self.lab.__enter__()
        for name in self.names:
            self.lab.add(name, **self.options.get(name, {}))
            turn_offloads_off([], f"{name}-exp")
            # As a card of a machine is before a run.
            self.lab.hosts[name].run("ethtool", "-K", "exp0", "tso", "on")
        # As NetworkManager makes routes: with a metric.
        route = f"{EXPERIMENT_NETWORK} dev exp0 proto kernel scope link src {EXPERIMENT_NETWORK[:-4]}2"
        server = self.lab.hosts[self.names[1]]
        server.run("ip", "route", "delete", *route.split())
        server.run("ip", "route", "add", *route.split(), "metric", "100")
        self.switch = self.start_switch()
        # Hosts that no experiment uses, unless they take another one's name.
        self.lab.add("bare", without=["tcpdump"])
        self.lab.add("early", config=self.lab.old_iperf3())
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        self.switch.__exit__(None, None, None)
        self.lab.__exit__()

    def start_switch(self) -> SwitchProcess:
        """A weir-switch without a program."""
        ports = [
            SwitchPort(host.number, f"{name}-exp")
            for name, host in self.lab.hosts.items()
            if name in self.names
        ]
        folder = self.folder / f"switch-{time.monotonic_ns()}"
        switch = SwitchProcess(ports, folder, p4runtime=ADDRESS, device_id=DEVICE)
        switch.wait_ready(self.stop)
        return switch

    def write(self, name: str, seconds: int, more: str = "", **changes: Mapping[str, Any]) -> list[str]:
        """Write experiment and testbed; returns the words of `weir run` for them."""
        experiment = self.folder / f"{name}.yaml"
        experiment.write_text(EXPERIMENT.format(name=name, seconds=seconds, more=more))
        return self.words(experiment, name, **changes)

    def words(self, experiment: Path, name: str, **changes: Mapping[str, Any]) -> list[str]:
        """The words of `weir run` for an experiment; writes the testbed's file."""
        data = self.lab.data(**changes)
        data["name"] = "rack"
        for name in ("bare", "early"):
            data["hosts"].pop(name, None)
        data["switch"] = dict(self.switch_entry)
        for entry in data["hosts"].values():
            entry.setdefault("disk_limit", "1 MB")
            if entry["disk_limit"] == "1 MB":
                entry["disk_limit"] = "30 MB"
        testbed = self.folder / f"{name}-testbed.yaml"
        with testbed.open("w") as file:
            YAML(typ="safe").dump(data, file)
        words = [str(Path(sys.executable).with_name("weir")), "run", str(experiment)]
        return [*words, "--testbed", str(testbed), "--runs", str(self.folder / "runs"), "--json"]

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        """Start a command of weir."""
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, running: subprocess.Popen[str], name: str) -> dict[str, Any]:
        """Wait for it; returns its exit code, what it said, the manifest, and what it left on the hosts."""
        stdout, stderr = running.communicate(timeout=300)
        found: dict[str, Any] = {"code": running.returncode, "stderr": stderr, "left": self.left_files()}
        if stdout.strip():
            found["output"] = json.loads(stdout)
        latest = self.folder / "runs" / name / "latest" / "manifest.json"
        if latest.exists():
            found["manifest"] = json.loads(latest.read_text())
        return found

    def run(
        self, name: str, seconds: int = 6, more: str = "", **changes: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A run to its end."""
        return self.finish(self.start(self.write(name, seconds, more, **changes)), name)

    def state(self) -> dict[str, list[str]]:
        """All that a run changes of the hosts."""
        return {name: state(host) for name, host in self.lab.hosts.items()}

    def left_programs(self) -> list[str]:
        """Programs of runs that hosts still run."""
        words = ("iperf3", "tcpdump", "python3")
        return [f"{name}: {word}" for name in self.names for word in words if self.programs(name, word)]

    def left_files(self) -> list[str]:
        """Captures of runs that hosts still have."""
        hosts = self.lab.hosts.values()
        return [str(path) for host in hosts for path in (host.folder / "work").glob("run-*")]

    def programs(self, name: str, word: str) -> list[int]:
        """Processes of a host by a word of their command."""
        return self.lab.hosts[name].processes(word)

    def fill(self, name: str) -> None:
        """Fill the disk of a host, as others may."""
        host = self.lab.hosts[name]
        (pid,) = [pid for pid in self.programs(name, "sshd") if "listener" in _command(pid)]
        folder = f"/proc/{pid}/root{host.folder / 'work'}"
        subprocess.run(
            ["sh", "-c", f"cat /dev/zero >{folder}/filler"], stderr=subprocess.DEVNULL, check=False
        )

    def empty(self, name: str) -> None:
        """Take that away."""
        host = self.lab.hosts[name]
        (pid,) = [pid for pid in self.programs(name, "sshd") if "listener" in _command(pid)]
        Path(f"/proc/{pid}/root{host.folder / 'work'}/filler").unlink()

    def listening(self) -> list[str]:
        """Addresses that something listens at: on the hosts, and where weir runs."""
        command = ["ss", "--listening", "--tcp", "--udp", "--numeric", "--no-header"]
        here = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        shown = [here, *(self.lab.hosts[name].run(*command) for name in self.names)]
        return sorted({line.split()[4].rpartition(":")[0] for text in shown for line in text.splitlines()})

    def wait_flows(self) -> None:
        """Wait until a flow runs on server1."""
        give_up = time.monotonic() + 60
        while not self.programs("server1", "iperf3 -c") and time.monotonic() < give_up:
            time.sleep(0.05)


def whole(rack: Rack) -> dict[str, Any]:
    """A run, and one with background traffic; hosts are as before."""
    before = rack.state()
    first = rack.run("first", more=BACKGROUND)
    run_dir = str((rack.folder / "runs" / "first" / "latest").resolve())
    return {"first": first, "same": rack.state() == before, "run_dir": run_dir}


def results(rack: Rack) -> dict[str, Any]:
    """A run of which results alone are kept."""
    before = rack.state()
    found = rack.run("results", more="capture: {keep: results}")
    run_dir = rack.folder / "runs" / "results" / "latest"
    words = [str(Path(sys.executable).with_name("weir")), "report", str(run_dir)]
    again = subprocess.run(words, capture_output=True, text=True, check=False)
    files = sorted(str(path.relative_to(run_dir)) for path in run_dir.rglob("*") if path.is_file())
    return {"run": found, "same": rack.state() == before, "files": files, "again": again.stderr}


def six(rack: Rack) -> dict[str, Any]:
    """A run over IPv6."""
    before = rack.state()
    text = EXPERIMENT.format(name="six", seconds=6, more="").replace(
        "to: client, ", "to: client, ip_version: 6, "
    )
    for number, name in enumerate(("client", "server1", "server2"), 1):
        text = text.replace(f"  {name}: {{", f"  {name}: {{address6: 'fd00::{number}', ").replace(", }", "}")
    experiment = rack.folder / "six.yaml"
    experiment.write_text(text)
    found = rack.finish(rack.start(rack.words(experiment, "six")), "six")
    return {"run": found, "same": rack.state() == before}


def lost(rack: Rack) -> dict[str, Any]:
    """The connection to a host breaks in mid-run."""
    before = rack.state()
    running = rack.start(rack.write("lost", 30))
    rack.wait_flows()
    rack.lab.hosts["server1"].cut()
    found = rack.finish(running, "lost")
    return {"run": found, "same": settled(rack, before)}


def interrupted(rack: Rack) -> dict[str, Any]:
    """Ctrl-C in mid-run."""
    before = rack.state()
    running = rack.start(rack.write("interrupted", 30))
    rack.wait_flows()
    listening = rack.listening()
    running.send_signal(signal.SIGINT)
    found = rack.finish(running, "interrupted")
    return {"run": found, "same": settled(rack, before), "listening": listening}


def killed(rack: Rack) -> dict[str, Any]:
    """`kill -9` of weir in mid-run, of both its processes; then another run."""
    before = rack.state()
    running = rack.start(rack.write("killed", 30))
    rack.wait_flows()
    for pid in [*descendants(running.pid), running.pid]:
        os.kill(pid, signal.SIGKILL)
    found = rack.finish(running, "killed")
    return {"run": found, "same": settled(rack, before), "next": rack.run("after", seconds=2)}


def restarted(rack: Rack) -> dict[str, Any]:
    """The switch is restarted in mid-run."""
    before = rack.state()
    running = rack.start(rack.write("restarted", 15))
    rack.wait_flows()
    rack.switch.kill()
    rack.switch = rack.start_switch()
    found = rack.finish(running, "restarted")
    return {"run": found, "same": settled(rack, before)}


def full(rack: Rack) -> dict[str, Any]:
    """The disk of a host is full in mid-run."""
    before = rack.state()
    running = rack.start(rack.write("full", 30, server1={"disk_limit": "31 MB"}))
    rack.wait_flows()
    rack.fill("server1")
    found = rack.finish(running, "full")
    rack.empty("server1")
    limited = rack.run("limited", seconds=20, client={"disk_limit": "200 kB"})
    return {"run": found, "limited": limited, "same": settled(rack, before)}


def refused(rack: Rack) -> dict[str, Any]:
    """What is wrong before the first packet."""
    before = rack.state()
    found = {
        "interface": rack.run("interface", server1={"interface": "eth7"}),
        "address": rack.run("address", server2={"address": "10.0.0.1/24"}),
        "space": rack.run("space", server1={"disk_limit": "900000 GB"}),
        "mac": rack.run("mac", server1={"mac": "02:00:00:00:00:77"}),
        "stamps": rack.run("stamps", server1={"time_stamps": "nic"}),
        "offloads": rack.run("offloads", server1={"interface": "lo"}),
        "tool": rack.run("tool", server2={"ssh": {"host": rack.lab.hosts["bare"].address}}),
        "iperf3": rack.run("iperf3", server2={"ssh": {"host": rack.lab.hosts["early"].address}}),
    }
    if os.getuid() == 0:
        found["sudo"] = rack.run("sudo", server2={"ssh": {"user": "alice"}, "privileges": "sudo"})
    return {**found, "same": rack.state() == before}


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def settled(rack: Rack, before: dict[str, list[str]]) -> bool:
    """Whether the hosts become as they were: a helper that has lost weir undoes its changes by itself."""
    give_up = time.monotonic() + 30
    while (rack.state() != before or rack.left_programs()) and time.monotonic() < give_up:
        time.sleep(0.1)
    return rack.state() == before and not rack.left_programs()


SCENARIOS: dict[str, Scenario] = {
    "whole": whole,
    "results": results,
    "six": six,
    "lost": lost,
    "interrupted": interrupted,
    "killed": killed,
    "restarted": restarted,
    "full": full,
    "refused": refused,
}


def main(stop: StopToken) -> int:
    """Run the scenarios."""
    folder, names = Path(sys.argv[1]), sys.argv[2:] or list(SCENARIOS)
    NETNS_FOLDER.mkdir(exist_ok=True)
    with Rack(folder, stop) as rack:
        found = {name: SCENARIOS[name](rack) for name in names}
    (folder / "result.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    inside(main)
