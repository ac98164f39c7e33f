# SPDX-License-Identifier: Apache-2.0
"""The links between PTF and the switch: a veth pair for each port.

PTF ── p0 ═ s0 ── port 0 ┐
PTF ── p1 ═ s1 ── port 1 ┤ switch
        …                ┘
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from weir.topo.process import run_tool


@dataclass(frozen=True, slots=True)
class Port:
    """One port: the tests' number, the switch's, and the interface at the other end of its link.

    A packet port has no interface; its name is empty.
    """

    number: int
    p4_port: int
    interface: str


def make_links(numbers: Iterable[int]) -> tuple[Port, ...]:
    """A veth pair for each port, in this network namespace; the kernel itself sends nothing on them.

    Raises ProcessError.
    """
    ports = []
    for number in numbers:
        port = Port(number, number, f"p{number}")
        inner = switch_interface(number)
        run_tool("ip", "link", "add", inner, "type", "veth", "peer", "name", port.interface)
        for name in (inner, port.interface):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            run_tool("ip", "link", "set", name, "up")
        ports.append(port)
    return tuple(ports)


def packet_ports(numbers: Iterable[int]) -> tuple[Port, ...]:
    """Ports whose frames are messages on one socket, so that they need no links."""
    return tuple(Port(number, number, "") for number in numbers)


def switch_interface(number: int) -> str:
    """The switch's end of a port's link."""
    return f"s{number}"
