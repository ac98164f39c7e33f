# SPDX-License-Identifier: Apache-2.0
"""Measures a TCP flow through the exercise `basic` of p4lang/tutorials: weir-switch as bmv2, and bmv2.

    h1 eth0 ── weir1 [ s1 ] t1 ─── t2 [ s4 ] t3 ─── t4 [ s2 ] weir2 ── eth0 h4

The path of the exercise's h1 to h4, three switches of its solution. They are started with the options that
the exercises' Mininet classes give them: once bare, once with captures and log as there. A bmv2 that was
built without its log macros logs no packets. WEIR_TUTORIALS names a checkout of p4lang/tutorials; p4c-bm2-ss
compiles the solution. Usage: python -m weir.bench.tutorials [options].
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import finsy
from finsy import P4TableAction, P4TableEntry, P4TableMatch, SwitchOptions

from weir.bench.measuring import run
from weir.bench.switch import introduce, tcp_bits_per_second
from weir.topo.hosts import HostPort
from weir.topo.process import LoggedProcess, run_tool
from weir.topo.stop import StopToken
from weir.topo.testbed import HostSpec, Testbed
from weir.topo.tools import find_own_program

PROGRAM = "exercises/basic/solution/basic.p4"
_READY_S = 30.0
_WIRES = (("t1", "t2"), ("t3", "t4"))
_MODES = ("bare", "as_in_mininet")


class Skipped(Exception):
    """What a measurement lacks, as "WORD: reason"."""


@dataclass(frozen=True)
class Compiled:
    """The solution, compiled."""

    p4info: Path
    json: Path


@dataclass(frozen=True)
class Node:
    """A switch of the path: the interfaces of its ports 1, towards h1, and 2, towards h4."""

    name: str
    interfaces: tuple[str, str]


def bmv2_on_path() -> list[str]:
    """The command of bmv2.

    Raises Skipped without bmv2, or if its name is weir-switch's.
    """
    found = shutil.which("simple_switch_grpc")
    if found is None:
        raise Skipped("bmv2: simple_switch_grpc is not on PATH")
    if Path(found).resolve().name == "weir-switch":
        raise Skipped(f"bmv2: {found} is weir-switch")
    return [found]


def tutorials(environment: Mapping[str, str]) -> Path:
    """The exercise's solution.

    Raises Skipped without a checkout.
    """
    folder = environment.get("WEIR_TUTORIALS")
    if not folder:
        raise Skipped("tutorials: WEIR_TUTORIALS names no checkout of p4lang/tutorials")
    program = Path(folder) / PROGRAM
    if not program.is_file():
        raise Skipped(f"tutorials: WEIR_TUTORIALS has no {program}")
    return program


def compiled(program: Path, folder: Path) -> Compiled:
    """Compile the solution.

    Raises Skipped without the compiler.
    """
    if shutil.which("p4c-bm2-ss") is None:
        raise Skipped("p4c: p4c-bm2-ss is not on PATH")
    out = Compiled(folder / "basic.p4info.txtpb", folder / "basic.json")
    command = ["p4c-bm2-ss", "--p4runtime-files", str(out.p4info), "-o", str(out.json), str(program)]
    subprocess.run(command, check=True)
    return out


@contextlib.contextmanager
def path_of_switches(
    command: list[str], mode: str, hosts: list[HostPort], program: Compiled, folder: Path
) -> Iterator[None]:
    """The three switches, ready to forward between the hosts."""
    near, far = hosts
    for one, other in _WIRES:
        run_tool("ip", "link", "add", one, "type", "veth", "peer", "name", other)
        for end in (one, other):
            run_tool("ip", "link", "set", end, "up")
    nodes = [
        Node("s1", (near.switch_interface, "t1")),
        Node("s4", ("t2", "t3")),
        Node("s2", ("t4", far.switch_interface)),
    ]
    try:
        with contextlib.ExitStack() as running:
            for number, node in enumerate(nodes):
                address = f"127.0.0.1:{50051 + number}"
                arguments = arguments_of(node, number, mode, folder)
                # Its log goes to a file, as in Mininet: nobody reads lines in time.
                to_file = ["sh", "-c", 'exec "$@" > "$0" 2>&1', str(folder / f"{node.name}.log")]
                switch = LoggedProcess(
                    node.name,
                    [*to_file, *command, *arguments, "--grpc-server-addr", address],
                    folder / node.name,
                )
                running.callback(switch.stop)
                _wait_listening(switch, 50051 + number)
                asyncio.run(_forward(address, number, program, hosts))
            yield
    finally:
        for one, _ in _WIRES:
            run_tool("ip", "link", "del", one)


def arguments_of(node: Node, number: int, mode: str, folder: Path) -> list[str]:
    """What the exercises' Mininet classes give a switch, up to its gRPC address."""
    arguments = [f"-i{port}@{interface}" for port, interface in enumerate(node.interfaces, 1)]
    arguments += ["--device-id", str(number), "--thrift-port", str(9090 + number), "--no-p4"]
    if mode == "as_in_mininet":
        captures = folder / f"{node.name}-captures"
        captures.mkdir()
        arguments += [f"--pcap={captures}", "--log-console"]
    return [*arguments, "--"]


def _wait_listening(switch: LoggedProcess, port: int) -> None:
    give_up = time.monotonic() + _READY_S
    while True:
        switch.check_running()
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=_READY_S).close()
            return
        if time.monotonic() > give_up:
            raise TimeoutError(f"{switch.tail()}\ndid not listen on port {port} within {_READY_S:g} s")
        time.sleep(0.05)


async def _forward(address: str, number: int, program: Compiled, hosts: list[HostPort]) -> None:
    """Load the program, and forward each host's address to its side."""
    options = SwitchOptions(p4info=program.p4info, p4blob=program.json, device_id=number)
    async with asyncio.timeout(_READY_S), finsy.Switch(f"s{number}", address, options) as switch:
        entries = [
            +P4TableEntry(
                "MyIngress.ipv4_lpm",
                match=P4TableMatch({"hdr.ipv4.dstAddr": f"{host.address}/32"}),
                action=P4TableAction("MyIngress.ipv4_forward", dstAddr=host.mac, port=port),
            )
            for port, host in enumerate(hosts, 1)
        ]
        await switch.write(entries)


def measure(
    switches: Mapping[str, list[str]], options: argparse.Namespace, program: Compiled
) -> dict[str, dict[str, float]]:
    """Bit/s of each switch in each mode: the median of rounds, in which they alternate."""
    found: dict[str, dict[str, list[float]]] = {name: {mode: [] for mode in _MODES} for name in switches}
    for _ in range(options.rounds):
        for name, command in switches.items():
            for mode in _MODES:
                with (
                    Testbed([HostSpec("h1"), HostSpec("h4")]) as testbed,
                    tempfile.TemporaryDirectory() as folder,
                ):
                    hosts = [testbed.host("h1"), testbed.host("h4")]
                    introduce(hosts)
                    with path_of_switches(command, mode, hosts, program, Path(folder)):
                        bps = tcp_bits_per_second(testbed, hosts, options.seconds)
                print(f"{name:5} {mode:14} {bps / 1e6:8.1f} Mbit/s", flush=True)
                found[name][mode].append(bps)
    return {name: {mode: median(bps) for mode, bps in of.items()} for name, of in found.items()}


def summary(results: Mapping[str, Mapping[str, float]]) -> dict[str, float | None]:
    """The figures and their ratios; null without bmv2."""
    line: dict[str, float | None] = {}
    for mode in _MODES:
        line[f"{mode}_bps"] = round(results["weir"][mode])
        peer = results.get("bmv2")
        line[f"{mode}_vs_bmv2"] = round(results["weir"][mode] / peer[mode], 3) if peer else None
    return line


def options(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m weir.bench.tutorials", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement (default: 3)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts (default: 3)")
    return parser.parse_args(argv)


def main(chosen: argparse.Namespace, _stop: StopToken) -> int:
    """Measure inside the sandbox; 0 also if there is nothing to measure with."""
    switches = {"weir": [str(find_own_program("weir-switch")), "as-bmv2"]}
    with tempfile.TemporaryDirectory() as folder:
        try:
            program = compiled(tutorials(os.environ), Path(folder))
        except Skipped as lacking:
            print(f"SKIP {lacking}", file=sys.stderr)
            print("null")
            return 0
        try:
            switches["bmv2"] = bmv2_on_path()
        except Skipped as lacking:
            print(f"SKIP {lacking}", file=sys.stderr)
        print(json.dumps(summary(measure(switches, chosen, program))))
    return 0


if __name__ == "__main__":
    run("weir.bench.tutorials", options, main)
