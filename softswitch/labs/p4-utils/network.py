#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The network for p4-utils, which starts `simple_switch` and feeds it the file of commands.

sudo env PATH=$PATH python3 network.py                 Mininet's prompt; `pingall`
sudo env PATH=$PATH python3 network.py pingall         one command, then the end
"""

from __future__ import annotations

import sys
from pathlib import Path

from p4utils.mininetlib.network_API import NetworkAPI  # type: ignore[import-not-found]

LABS = Path(__file__).resolve().parents[1]
PROGRAM = LABS.parent / "programs" / "ipv4_router.json"


def main(command: str | None) -> None:
    """Run the network until its end at the prompt, or for one command of the prompt."""
    net = NetworkAPI()
    net.setLogLevel("info")
    # With `setP4Source` in place of the JSON, p4-utils calls p4c.
    net.addP4Switch("s1", json_path=str(PROGRAM), cli_input=str(LABS / "commands.txt"))
    for number in (1, 2):
        host = f"h{number}"
        net.addHost(host)
        net.addLink(host, "s1", port2=number)
        net.setIntfIp(host, "s1", f"10.0.{number}.{number}/24")
        net.setIntfMac(host, "s1", f"02:00:00:00:{number:02x}:{number:02x}")
        # The program answers no ARP, so p4-utils gives each host a MAC address of the router.
        net.setIntfIp("s1", host, f"10.0.{number}.254/24")
        net.setDefaultRoute(host, f"10.0.{number}.254")
    if command is not None:
        net.disableCli()
    net.startNetwork()
    if command is not None:
        hosts = [net.net.get(f"h{number}") for number in (1, 2)]
        try:
            if net.net.ping(hosts) > 0:
                sys.exit("packets were lost")
        finally:
            net.stopNetwork()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
