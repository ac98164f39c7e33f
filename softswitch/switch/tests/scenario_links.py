# SPDX-License-Identifier: Apache-2.0
"""Links between the switch (ends s1, s2, …) and the test (e1, e2, …) inside a sandbox."""

import subprocess


def run(*command: str) -> str:
    """Run a command to its end; return its output."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def add_veth(*ends: str, mtu_bytes: int = 1500) -> None:
    """Make a link between two interfaces on which the kernel itself sends nothing."""
    first, second = ends
    run("ip", "link", "add", first, "type", "veth", "peer", "name", second)
    for name in ends:
        run("sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
        run("ip", "link", "set", name, "mtu", str(mtu_bytes), "up")


def add_link(number: int) -> None:
    """Make the link of one port."""
    add_veth(f"s{number}", f"e{number}")


def add_two_links() -> None:
    """Make links 1 and 2, and bring the loopback up."""
    run("ip", "link", "set", "lo", "up")
    add_link(1)
    add_link(2)
