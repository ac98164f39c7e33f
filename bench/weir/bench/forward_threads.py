# SPDX-License-Identifier: Apache-2.0
"""Measures a router on several forwarding threads, beside the same switch on one thread.

    west 10.4.0.0/14 ── weir1 [ weir-switch ] weir2 ── east 10.0.0.0/14

Both hosts send 64-byte frames of 10,000 flows as fast as they can; the interface counters of the hosts say
what arrived. Usage: python -m weir.bench.forward_threads [options].
"""

import argparse
import asyncio
import json
import logging
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import finsy
from finsy import P4TableAction, P4TableEntry, P4TableMatch, SwitchOptions

from weir.bench.measuring import ROOT, bench_program, rates, run, sending_s, switch_ports
from weir.topo.hosts import HostPort
from weir.topo.processors import busy_share
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchProcess
from weir.topo.testbed import HostSpec, Testbed

P4RUNTIME = "127.0.0.1:9559"
WAYS: Mapping[str, tuple[str, ...]] = {
    "one thread": (),
    "one thread, two send threads": ("--send-threads", "2"),
    "two forwarding threads": ("--forward-threads", "2"),
}
PEER = "one thread"
_PROGRAM = ROOT / "softswitch" / "programs"
_NETWORKS = {"10.0.0.0/14": 0, "10.4.0.0/14": 1024}
"""Network, and the number of its first destination; east's, then west's."""
_SPREAD = (min, median, max)


async def fill(hosts: list[HostPort]) -> None:
    """Load the router, with a route and a next hop for each host."""
    options = SwitchOptions(
        p4info=_PROGRAM / "ipv4_router.p4info.txtpb", p4blob=_PROGRAM / "ipv4_router.json"
    )
    entries = []
    for host, network in zip(reversed(hosts), _NETWORKS, strict=True):
        port = host.switch_port
        hop = P4TableAction("rewrite", port=port, src=10, dst=int(host.mac.replace(":", ""), 16))
        route = P4TableAction("set_next_hop", next_hop=port)
        entries += [
            P4TableEntry("next_hop", match=P4TableMatch({"meta.next_hop": port}), action=hop),
            P4TableEntry("route", match=P4TableMatch({"hdr.ipv4.dst": network}), action=route),
        ]
    async with finsy.Switch("router", P4RUNTIME, options) as connected:
        await connected.insert(entries)


def forwarded(testbed: Testbed, hosts: list[HostPort], pid: int, seconds: float) -> dict[str, float]:
    """Frames per second that arrived at both hosts, and the processor time of each in ns."""
    sources = []
    for host, first in zip(hosts, _NETWORKS.values(), strict=True):
        command = [str(bench_program("packet-source")), host.interface, "--first", str(first)]
        command += ["--seconds", str(sending_s(seconds))]
        sources.append(testbed.popen(host.name, command, stdout=subprocess.DEVNULL))
    kinds = ("packets_per_s", "ns_per_packet", "busiest_thread_ns_per_packet")
    return dict(zip(kinds, rates(sources, hosts, pid, seconds), strict=True))


def measure(chosen: argparse.Namespace) -> tuple[dict[str, list[dict[str, float]]], float]:
    """The figures of each way, in rounds in which they alternate, and the processor share that others had."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    others = busy_share()
    program = os.environ.get("WEIR_SWITCH")
    for _ in range(chosen.rounds):
        for way, options in WAYS.items():
            with (
                Testbed([HostSpec(host) for host in ("west", "east")]) as testbed,
                tempfile.TemporaryDirectory() as folder,
            ):
                hosts = [testbed.host(host) for host in ("west", "east")]
                with SwitchProcess(
                    switch_ports(hosts),
                    Path(folder),
                    p4runtime=P4RUNTIME,
                    program=Path(program) if program else None,
                    options=list(options),
                ) as switch:
                    switch.wait_ready()
                    asyncio.run(fill(hosts))
                    figures = forwarded(testbed, hosts, switch.pid, chosen.seconds)
            found[way].append(figures)
            print(
                f"{way:28} {figures['packets_per_s']:9.0f} packets/s {figures['ns_per_packet']:6.0f} ns of "
                f"processor each, {figures['busiest_thread_ns_per_packet']:6.0f} of them in one thread",
                flush=True,
            )
        others = max(others, busy_share())
    return found, others


def summary(found: Mapping[str, list[dict[str, float]]], others: float) -> dict[str, Any]:
    """Least, median and most of each figure, and of the packets per second beside one thread."""
    peer = median(figures["packets_per_s"] for figures in found[PEER])
    ways = {
        way: {kind: [round(of(one[kind] for one in rounds)) for of in _SPREAD] for kind in rounds[0]}
        for way, rounds in found.items()
    }
    beside = {
        way: [round(of(one["packets_per_s"] for one in rounds) / peer, 3) for of in _SPREAD]
        for way, rounds in found.items()
    }
    return {"vs_one_thread": beside, "processors_busy_with_others": round(others, 3), "figures": ways}


def options(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m weir.bench.forward_threads", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement (default: 3)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds; the median counts (default: 5)")
    return parser.parse_args(argv)


def main(chosen: argparse.Namespace, _stop: StopToken) -> int:
    """Measure inside the sandbox."""
    logging.getLogger("finsy").setLevel(logging.ERROR)  # it warns of a switch without gNMI
    print(json.dumps(summary(*measure(chosen))))
    return 0


if __name__ == "__main__":
    run("weir.bench.forward_threads", options, main)
