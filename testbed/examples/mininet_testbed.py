#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A testbed in Mininet: one P4 switch, hosts with an sshd each, and the inventory for `weir run --testbed`.

    sudo ./mininet_testbed.py [simple_switch_grpc | weir-switch]     writes testbed.yaml, waits for Ctrl-C
    sudo weir run experiment.yaml --testbed testbed.yaml             in another terminal

Needs Mininet for the system's Python, openssh-server, and the switch on PATH.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from mininet.link import Link  # type: ignore[import-not-found]
from mininet.net import Mininet  # type: ignore[import-not-found]
from mininet.node import Node, Switch  # type: ignore[import-not-found]

HOSTS = ("client", "server1", "server2", "collector")
P4RUNTIME, THRIFT = "127.0.0.1:9559", 9090
OFFLOADS = "tso off gso off gro off tx off rx off sg off"
FOLDER = Path("mininet-testbed").absolute()


class P4Switch(Switch):  # type: ignore[misc]
    """A switch in the root namespace, without a program: weir loads its own."""

    def __init__(self, name: str, program: str, **options: Any) -> None:
        """`program` is simple_switch_grpc or weir-switch."""
        super().__init__(name, **options)
        self.program = program

    def start(self, _controllers: object) -> None:
        """Start it on Mininet's links."""
        ports = [(number, str(link)) for number, link in self.intfs.items() if number]
        for _, link in ports:
            self.cmd("ethtool", "-K", link, OFFLOADS)
        if self.program == "simple_switch_grpc":
            words = ["--no-p4", "--device-id", "1", "--thrift-port", str(THRIFT)]
            words += [word for number, link in ports for word in ("-i", f"{number}@{link}")]
            words += ["--", "--grpc-server-addr", P4RUNTIME]
        else:
            words = ["--p4runtime", P4RUNTIME, "--device-id", "1"]
            words += [word for number, link in ports for word in ("--port", f"{number}={link}")]
        with (FOLDER / "switch.log").open("w") as log:
            self.process = subprocess.Popen([self.program, *words], stdout=log, stderr=log)

    def stop(self, deleteIntfs: bool = True) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()
        super().stop(deleteIntfs)


def build(program: str) -> tuple[Mininet, str]:
    """The network, and the text of its inventory. Each host has a second link to this machine, for SSH."""
    identity, host_key = FOLDER / "identity", FOLDER / "host_key"
    for key in (identity, host_key):
        if not key.exists():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    net = Mininet(controller=None)
    switch = net.addSwitch("s1", cls=P4Switch, program=program)
    root = Node("root", inNamespace=False)
    target = f"bmv2, thrift_port: {THRIFT}" if program == "simple_switch_grpc" else "softswitch"
    lines = [
        "name: mininet",
        f"ssh: {{user: root, identity_file: {identity}, known_hosts: {FOLDER}/known_hosts}}",
        f"switch: {{address: '{P4RUNTIME}', target: {target}}}",
        "hosts:",
    ]
    known_hosts = ""
    for number, name in enumerate(HOSTS, 1):
        host = net.addHost(name, ip=f"10.0.0.{number}/24", mac=f"02:00:0a:00:00:{number:02x}")
        net.addLink(host, switch, port2=number)
        control = Link(host, root)
        host.setIP(f"10.99.{number}.1/30", intf=control.intf1)
        root.setIP(f"10.99.{number}.2/30", intf=control.intf2)
        lines += [
            f"  {name}:",
            f"    ssh: {{host: 10.99.{number}.1}}",
            f"    interface: {name}-eth0",
            f"    address: 10.0.0.{number}/24",
            f"    switch_port: {number}",
            f"    work_folder: {FOLDER}/{name}",
        ]
        known_hosts += f"10.99.{number}.1 {host_key.with_suffix('.pub').read_text()}"
    (FOLDER / "known_hosts").write_text(known_hosts)
    return net, "\n".join(lines) + "\n"


def main() -> None:
    """Run the network until Ctrl-C or SIGTERM."""
    FOLDER.mkdir(exist_ok=True)
    net, inventory = build(sys.argv[1] if len(sys.argv) > 1 else "simple_switch_grpc")
    net.start()
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for number, host in enumerate(net.hosts, 1):
        host.cmd(
            f"/usr/sbin/sshd -f /dev/null -h {FOLDER}/host_key -o ListenAddress=10.99.{number}.1 "
            f"-o PidFile=none -o StrictModes=no -o AuthorizedKeysFile={FOLDER}/identity.pub "
            "-o PasswordAuthentication=no"
        )
    Path("testbed.yaml").write_text(inventory)
    print("testbed.yaml is written; Ctrl-C ends the network", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        signal.pause()
    except KeyboardInterrupt:
        net.stop()


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("mininet_testbed.py: Mininet needs root; valid: sudo ./mininet_testbed.py")
    main()
