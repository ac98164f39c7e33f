# SPDX-License-Identifier: Apache-2.0
"""Run by `elsewhere_test.py` as root in a sandbox, which is the machine: switches that others have started.

    card1 ═══ sw1 ┐
    card2 ═══ sw2 ├ weir-switch or bmv2, known to `weir run` by its P4Runtime address
    card3 ═══ sw3 │
    card4 ═══ sw4 ┘

Usage in the sandbox: `python -m weir_tests.cli.elsewhere_scenario FOLDER`. Writes FOLDER/result.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from weir.topo.bmv2proc import THRIFT_PORT, Bmv2Process, bmv2_problem
from weir.topo.linux import NETNS_FOLDER
from weir.topo.process import run_tool
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess
from weir.topo.testbed import turn_offloads_off
from weir_tests.controlplane.other_program import COOKIE, load_other_program, running_cookie

ADDRESS, DEVICE = "127.0.0.1:9600", 7
HOSTS = ("client", "server1", "server2", "collector")
FIRST_PORT = 101
EXPERIMENT = """\
name: {name}
switch:
  target: {target}
  address: {address}
  device_id: {device}
  {thrift}
  ports:
{ports}
hosts:
  client: {{delay: 5 ms{queue}}}
  server1: {{delay: 5 ms}}
  server2: {{}}
flows:
  - {{name: one, from: server1, to: client, duration: 6 s, measured: true}}
  - {{name: two, from: server2, to: client, duration: 6 s, measured: true}}
  - {{name: datagrams, from: server2, to: client, protocol: udp, rate: 2 Mbit/s, duration: 5 s}}
policers:
  - {{name: common, rate: 10 Mbit/s, burst: 20 ms, match: [{{from: [server1, server2], to: client}}]}}
"""
Switch = AbstractContextManager[Any]


class Lab:
    """The machine: its cards, and a folder for files."""

    def __init__(self, folder: Path, stop: StopToken) -> None:
        """Plug the cards in; `folder` is for files."""
        self.folder, self.stop = folder, stop
        NETNS_FOLDER.mkdir(exist_ok=True)
        for number in range(1, len(HOSTS) + 1):
            run_tool("ip", *f"link add card{number} type veth peer name sw{number}".split())
            turn_offloads_off([], f"sw{number}")
            for end in (f"card{number}", f"sw{number}"):
                run_tool("ip", "link", "set", end, "up")
        # As a card of the machine is before a run.
        run_tool("ethtool", "-K", "card1", "tso", "on")

    def embedded(self) -> SwitchProcess:
        """A weir-switch without a program, started by others."""
        ports = [SwitchPort(FIRST_PORT + index, f"sw{index + 1}") for index in range(len(HOSTS))]
        switch = SwitchProcess(
            ports,
            self.folder / "switch",
            p4runtime=ADDRESS,
            device_id=DEVICE,
            options=["--send-threads", "0"],
        )
        switch.wait_ready(self.stop)
        return switch

    def bmv2(self) -> Bmv2Process:
        """A bmv2 without a program, started by others."""
        ports = {FIRST_PORT + index: f"sw{index + 1}" for index in range(len(HOSTS))}
        switch = Bmv2Process(ports, self.folder / "switch", p4runtime=ADDRESS, device_id=DEVICE)
        switch.wait_ready(self.stop)
        return switch

    def weir(self, command: str, name: str, target: str, queue: str = "", *options: str) -> dict[str, Any]:
        """Run a command of weir on an experiment; returns its exit code and what it said."""
        ports = "\n".join(
            f"    {host}: {{port: {FIRST_PORT + index}, interface: card{index + 1}}}"
            for index, host in enumerate(HOSTS)
        )
        config = self.folder / f"{name}.yaml"
        config.write_text(
            EXPERIMENT.format(
                name=name,
                target=target,
                address=ADDRESS,
                device=DEVICE,
                thrift=f"thrift_port: {THRIFT_PORT}" if target == "bmv2" else "",
                ports=ports,
                queue=queue,
            )
        )
        runs = ["--runs", str(self.folder / "runs")] if command == "run" else []
        done = subprocess.run(
            [str(Path(sys.executable).with_name("weir")), command, str(config), *runs, *options, "--json"],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        found: dict[str, Any] = {"code": done.returncode, "stderr": done.stderr}
        if done.stdout.strip():
            found["output"] = json.loads(done.stdout)
        if command == "run" and (self.folder / "runs" / name).exists():
            latest = self.folder / "runs" / name / "latest" / "manifest.json"
            found["manifest"] = json.loads(latest.read_text())
        return found

    def cards(self) -> dict[str, Any]:
        """State of the cards as the machine sees them."""
        shown = {link["ifname"]: link for link in json.loads(run_tool("ip", "-json", "link", "show"))}
        return {
            "up": sorted(
                name for name, link in shown.items() if name.startswith("card") and "UP" in link["flags"]
            ),
            "offloads": json.loads(run_tool("ethtool", "--json", "-k", "card1"))[0][
                "tcp-segmentation-offload"
            ]["active"],
        }


def on(lab: Lab, target: str, start: Callable[[], Switch]) -> dict[str, Any]:
    """Runs on a switch of one kind: policed, with a queue, twice; then it is still there."""
    queue = ", rate: 11 Mbit/s, queue_packets: 4"
    with start():
        before = lab.cards()
        first = lab.weir("run", f"{target}-policed", target)
        second = lab.weir("run", f"{target}-queued", target, queue)
        after = lab.cards()
        status = lab.weir("status", f"{target}-queued", target, queue)
    return {"before": before, "first": first, "second": second, "after": after, "status": status}


def foreign(lab: Lab, cookie: int | None) -> dict[str, Any]:
    """A run on a weir-switch that runs another controller's program."""
    with lab.embedded():
        load_other_program(ADDRESS, DEVICE, cookie)
        run = lab.weir("run", f"foreign-{cookie}", "softswitch")
        return run | {"cookie": running_cookie(ADDRESS, DEVICE), "cards": lab.cards()}


def main(stop: StopToken) -> int:
    """Write what was seen to FOLDER/result.json."""
    lab = Lab(Path(sys.argv[1]), stop)
    result: dict[str, Any] = {"absent": lab.weir("run", "absent", "softswitch"), "cards": lab.cards()}
    run_tool("ip", "address", "add", "192.0.2.9/24", "dev", "card2")
    result["in_use"] = lab.weir("run", "in-use", "softswitch")
    run_tool("ip", "address", "flush", "dev", "card2")
    result["foreign"] = [foreign(lab, cookie) for cookie in (COOKIE, None)]
    result["softswitch"] = on(lab, "softswitch", lab.embedded)
    if bmv2_problem() is None:
        result["bmv2"] = on(lab, "bmv2", lab.bmv2)
    (lab.folder / "result.json").write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    inside(main)
