# SPDX-License-Identifier: Apache-2.0
"""Run by `testbed_run_test.py` in a sandbox, which is the network: `weir run --testbed` with a real sshd per host.

    server1, server2, client, collector (namespaces of network, mount and PID, each with its sshd)
        │ control network: the sshds, and this process
        └ one link each ══ weir-switch, known to weir by its P4Runtime address

Usage in the sandbox: `python -m weir_tests.cli.testbed_scenario FOLDER [NAME…]`. Writes FOLDER/result.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from weir.topo.linux import NETNS_FOLDER
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess
from weir.topo.testbed import turn_offloads_off
from weir_tests.testbed.control_scenarios import state
from weir_tests.testbed.lab import Lab

ADDRESS, DEVICE = "127.0.0.1:9600", 7
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
  - {name: noise, from: server2, to: client, congestion_control: cubic, rate: 2 Mbit/s, pacing: 5 Mbit/s, duration: 5 s}
"""
Scenario = Callable[["Rack"], dict[str, Any]]


class Rack:
    """Hosts with sshd, cabled to a switch."""

    def __init__(self, folder: Path, stop: StopToken) -> None:
        """Start nothing yet."""
        self.folder, self.stop = folder, stop
        self.lab = Lab(folder / "lab")
        self.options: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Rack:
        """Start hosts and switch."""
        self.lab.__enter__()
        for name in HOSTS:
            self.lab.add(name, **self.options.get(name, {}))
            turn_offloads_off([], f"{name}-exp")
            # As a card of a machine is before a run.
            self.lab.hosts[name].run("ethtool", "-K", "exp0", "tso", "on")
        self.switch = self.start_switch()
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        self.switch.__exit__(None, None, None)
        self.lab.__exit__()

    def start_switch(self) -> SwitchProcess:
        """A weir-switch without a program."""
        ports = [SwitchPort(host.number, f"{name}-exp") for name, host in self.lab.hosts.items()]
        folder = self.folder / f"switch-{time.monotonic_ns()}"
        switch = SwitchProcess(ports, folder, p4runtime=ADDRESS, device_id=DEVICE)
        switch.wait_ready(self.stop)
        return switch

    def write(self, name: str, seconds: int, more: str = "", **changes: Mapping[str, Any]) -> list[str]:
        """Write experiment and testbed; returns the words of `weir run` for them."""
        experiment = self.folder / f"{name}.yaml"
        experiment.write_text(EXPERIMENT.format(name=name, seconds=seconds, more=more))
        data = self.lab.data(**changes)
        data["name"] = "rack"
        data["switch"] = {"address": ADDRESS, "device_id": DEVICE}
        for entry in data["hosts"].values():
            entry.setdefault("disk_limit", "1 MB")
            if entry["disk_limit"] == "1 MB":
                entry["disk_limit"] = "200 MB"
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
        found: dict[str, Any] = {"code": running.returncode, "stderr": stderr, "left": self.left()}
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

    def left(self) -> list[str]:
        """Programs and captures of runs that the hosts still have."""
        files = (path for host in self.lab.hosts.values() for path in (host.folder / "work").glob("run-*"))
        return [
            *(
                f"{name}: {word}"
                for name in HOSTS
                for word in ("iperf3", "tcpdump")
                if self.programs(name, word)
            ),
            *map(str, files),
        ]

    def programs(self, name: str, word: str) -> list[int]:
        """Processes of a host by a word of their command."""
        return self.lab.hosts[name].processes(word)

    def wait_flows(self) -> None:
        """Wait until a flow runs on server1."""
        give_up = time.monotonic() + 60
        while not self.programs("server1", "iperf3 -c") and time.monotonic() < give_up:
            time.sleep(0.05)


def whole(rack: Rack) -> dict[str, Any]:
    """A run, and one with background traffic; hosts are as before."""
    before = rack.state()
    first = rack.run("first", more=BACKGROUND)
    return {"first": first, "same": rack.state() == before}


SCENARIOS: dict[str, Scenario] = {"whole": whole}


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
