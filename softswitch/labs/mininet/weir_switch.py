#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""weir-switch as a switch of Mininet, and a network of two hosts around it.

    weir bmv2 install ~/p4/bin && export PATH=~/p4/bin:$PATH
    sudo env PATH=$PATH ./weir_switch.py                 Mininet's prompt; `pingall`
    sudo env PATH=$PATH ./weir_switch.py pingall         one command, then the end

`class WeirSwitch` is all that another network needs. bmv2 in the place of weir-switch works too.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mininet.cli import CLI  # type: ignore[import-not-found]
from mininet.net import Mininet  # type: ignore[import-not-found]
from mininet.node import Switch  # type: ignore[import-not-found]

LABS = Path(__file__).resolve().parents[1]
PROGRAM, COMMANDS = LABS.parent / "programs" / "ipv4_router.json", LABS / "commands.txt"
READY_S = 30.0


class WeirSwitch(Switch):  # type: ignore[misc]
    """A P4 switch in the root namespace, with the output of `p4c-bm2-ss` and a file of commands."""

    def __init__(
        self, name: str, program: Path, commands: Path | None = None, thrift_port: int = 9090, **options: Any
    ) -> None:
        """Each switch of a network needs a `thrift_port` of its own."""
        super().__init__(name, **options)
        self.program, self.commands, self.thrift_port = program, commands, thrift_port

    def start(self, _controllers: object) -> None:
        """Start it on Mininet's links, wait until it takes commands, and give it those of the file."""
        words = [
            "simple_switch",
            "--thrift-port",
            str(self.thrift_port),
            "--device-id",
            str(self.thrift_port),
        ]
        for number, link in self.intfs.items():
            if number:
                words += ["-i", f"{number}@{link}"]
        with Path(f"/tmp/{self.name}.log").open("w") as log:
            self.process = subprocess.Popen([*words, str(self.program)], stdout=log, stderr=log)
        give_up = time.monotonic() + READY_S
        while (said := self.runtime("")).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"{self.name}: see /tmp/{self.name}.log; {said.stdout}{said.stderr}")
            time.sleep(0.1)
        if self.commands is not None:
            print(self.runtime(self.commands.read_text()).stdout)

    def runtime(self, commands: str) -> subprocess.CompletedProcess[str]:
        """Give the switch lines of simple_switch_CLI."""
        program = ["simple_switch_CLI", "--thrift-port", str(self.thrift_port)]
        return subprocess.run(program, input=commands, capture_output=True, text=True, check=False)

    def stop(self, deleteIntfs: bool = True) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()
        super().stop(deleteIntfs)


def main(command: str | None) -> None:
    """Run the network until its end at the prompt, or for one command of the prompt."""
    net = Mininet(controller=None)
    switch = net.addSwitch("s1", cls=WeirSwitch, program=PROGRAM, commands=COMMANDS)
    for number in (1, 2):
        host = net.addHost(
            f"h{number}", ip=f"10.0.{number}.{number}/24", mac=f"02:00:00:00:{number:02x}:{number:02x}"
        )
        net.addLink(host, switch, port2=number)
    net.start()
    # The program answers no ARP, so the hosts know their router.
    for number, host in enumerate(net.hosts, 1):
        host.cmd(f"ip route add default via 10.0.{number}.254")
        host.cmd(f"ip neigh add 10.0.{number}.254 lladdr 02:00:00:00:00:{number:02x} dev h{number}-eth0")
    try:
        if command is None:
            CLI(net)
        elif net.pingAll() > 0:
            sys.exit("packets were lost")
    finally:
        net.stop()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
