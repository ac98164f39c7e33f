# SPDX-License-Identifier: Apache-2.0
"""The program that `switch_test.py` runs in a sandbox: weir-switch between raw sockets that stand for hosts.

    a ── port 1 ┐
    b ── port 2 ┼── weir-switch ── port 9 ── collector
    c ── port 3 ┘

Its observations go to `result.json` in the folder given as argument.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from dataclasses import asdict
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import Attachment, CollectorEndpoint, HostPort
from weir.controlplane.config import parse_experiment
from weir.controlplane.phase_plan import FlowKey
from weir.controlplane.plan import Plan, make_plan
from weir.topo.process import run_tool
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess

# 8 kbit/s is one byte per millisecond, so the bucket gains less than a frame during a test.
EXPERIMENT = """\
name: scenario
hosts: {a: {}, b: {}, c: {}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
phases:
  - name: shared
    policers:
      - {name: one, rate: 8 kbit/s, burst: 20 kB, match: [{from: [a, c], to: b}]}
  - name: hashed
    policers:
      - {name: each, rate: 8 kbit/s, burst: 2 kB, mode: per_flow_hashed, cells: 8, match: [{from: a, to: b}]}
"""
FRAME_BYTES = 1000
SHARED_FRAMES = 50
FLOW_PORTS = tuple(range(5001, 5013))
UDP = 17
ETH_P_ALL = 0x0003
REPORT_PORT = 32766
GIVE_UP_S = 20.0
HOSTS = {
    name: HostPort(n, f"02:00:00:00:00:{n:02x}", f"10.0.0.{n}", f"2001:db8::{n}")
    for n, name in enumerate("abc", 1)
}
COLLECTOR = CollectorEndpoint(
    9, "02:00:00:00:00:09", "10.0.0.9", REPORT_PORT, "02:00:00:00:00:fe", "10.0.0.254"
)
ATTACHMENT = Attachment(HOSTS, {"collector": COLLECTOR})


def frame(source: HostPort, destination: HostPort, src_port: int) -> bytes:
    """A UDP frame of FRAME_BYTES without FCS; checksums are zero, which nothing here verifies."""
    macs = bytes.fromhex((destination.mac + source.mac).replace(":", ""))
    addresses = IPv4Address(source.ip).packed + IPv4Address(destination.ip).packed
    ip = struct.pack("!BBHHHBBH", 0x45, 0, FRAME_BYTES - 14, 0, 0, 64, UDP, 0) + addresses
    udp = struct.pack("!HHHH", src_port, 9000, FRAME_BYTES - 34, 0)
    return (macs + b"\x08\x00" + ip + udp).ljust(FRAME_BYTES, b"\0")


def frame6(source: HostPort, destination: HostPort, src_port: int, dst_port: int) -> bytes:
    """The same over IPv6."""
    macs = bytes.fromhex((destination.mac + source.mac).replace(":", ""))
    udp = struct.pack("!HHHH", src_port, dst_port, FRAME_BYTES - 54, 0).ljust(FRAME_BYTES - 54, b"\0")
    addresses = IPv6Address(source.address(6)).packed + IPv6Address(destination.address(6)).packed
    header = struct.pack("!IHBB", 6 << 28, len(udp), UDP, 64) + addresses
    return macs + struct.pack("!H", 0x86DD) + header + udp


def wire(port: int) -> socket.socket:
    """Create the veth pair of a port and open a raw socket on the host's end."""
    near, far = f"near{port}", f"far{port}"
    run_tool("ip", "link", "add", near, "type", "veth", "peer", "name", far)
    for name in (near, far):
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
        run_tool("ip", "link", "set", name, "up")
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    opened.bind((near, ETH_P_ALL))
    opened.setblocking(False)
    return opened


def received(end: socket.socket) -> list[bytes]:
    """Frames received from the switch so far, without those sent to it."""
    frames: list[bytes] = []
    while True:
        try:
            data, address = end.recvfrom(65_536)
        except BlockingIOError:
            return frames
        if address[2] != socket.PACKET_OUTGOING:
            frames.append(data)


async def met(control: SwitchControl, plan: Plan, phase: str, packets: int) -> dict[str, Any]:
    """The phase's counters once its policers have counted so many packets. Raises TimeoutError."""
    async with asyncio.timeout(GIVE_UP_S):
        while True:
            policers = await control.read_policers(plan.phase(phase))
            if sum(policer.packets_met for policer in policers.values()) >= packets:
                return {name: asdict(policer) for name, policer in policers.items()}


async def collect(end: socket.socket, count: int) -> list[bytes]:
    """Wait for `count` frames from the switch. Raises TimeoutError."""
    frames: list[bytes] = []
    async with asyncio.timeout(GIVE_UP_S):
        while len(frames) < count:
            frames += received(end)
            await asyncio.sleep(0)
    return frames


async def scenario(folder: Path) -> dict[str, Any]:
    """Police in both modes; return the switch's counters and the frames that it passed and reported."""
    plan = make_plan(parse_experiment(EXPERIMENT), ATTACHMENT)
    run_tool("ip", "link", "set", "lo", "up")
    ends = {port: wire(port) for port in (1, 2, 3, 9)}
    with SwitchProcess([SwitchPort(port, f"far{port}") for port in ends], folder) as switch:
        switch.wait_ready()
        async with SwitchControl(switch.p4runtime) as control:
            await control.push_pipeline()
            await control.apply(plan.phase("shared"))
            again = len(await control.apply(plan.phase("shared")))
            for number in range(SHARED_FRAMES):
                name, port = ("a", 1) if number % 2 else ("c", 3)
                ends[port].send(frame(HOSTS[name], HOSTS["b"], 4000))
            shared = await met(control, plan, "shared", SHARED_FRAMES)
            red = shared["one"]["red"]["packets"]
            reports = await collect(ends[9], red)
            passed = await collect(ends[2], SHARED_FRAMES - red)

            await control.apply(plan.phase("hashed"))
            for src_port in FLOW_PORTS:
                ends[1].send(frame(HOSTS["a"], HOSTS["b"], src_port))
                ends[1].send(frame6(HOSTS["a"], HOSTS["b"], src_port, 9000))
            hashed = await met(control, plan, "hashed", 2 * len(FLOW_PORTS))
            await collect(ends[9], hashed["each"]["red"]["packets"])
            (policer,) = plan.phase("hashed").policers
            return {
                "again": again,
                "shared": shared,
                "shared_later": {
                    name: asdict(counters)
                    for name, counters in (await control.read_policers(plan.phase("shared"))).items()
                },
                "hashed": hashed,
                "cells": await control.read_packets_met(policer),
                "reports": [data.hex() for data in reports],
                "reports_sent": await control.read_reports_sent(),
                "passed": len(passed),
            }


def expected_cells() -> list[int]:
    """The cell of each flow of the hashed phase, over IPv4 and over IPv6, as the plan computes it."""
    phase = make_plan(parse_experiment(EXPERIMENT), ATTACHMENT).phase("hashed")
    cells = [
        phase.cell_of(FlowKey("a", "b", UDP, port, 9000, ip_version=version))
        for port in FLOW_PORTS
        for version in (4, 6)
    ]
    return [cell for cell in cells if cell is not None]


def main(_stop: StopToken) -> int:
    """Run the scenario."""
    folder = Path(sys.argv[1])
    (folder / "result.json").write_text(json.dumps(asyncio.run(scenario(folder))))
    return 0


if __name__ == "__main__":
    inside(main)
