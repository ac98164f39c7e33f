# SPDX-License-Identifier: Apache-2.0
"""Measures the embedded switch beside bare forwarders and bmv2, in one run and on one machine.

    source (10.0.0.1) eth0 ── weir1 [ forwarder ] weir2 ── eth0 receiver (10.0.0.2)
                                       weir3 ── eth0 collector (10.0.0.3), for reports

Packets: a packet socket at the source sends frames of 10,000 flows, of 64 and of 1,514 bytes; the interface
counters of receiver and collector say what arrived. The source sends as fast as it can, except to bmv2, which
forwards more when it is offered less: its best load is looked for first. TCP: one iperf3 flow at MTU 1500.
A bare forwarder does nothing else; it has the switch's own ways in and out, or others. The best of them is
the limit that the switch is held against. Usage: python -m weir.bench.switch [options]; exit code 1 if a
goal is missed on a quiet machine.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from weir.bench.load import fill
from weir.bench.measuring import bench_program, rates, run, sending_s, switch_ports
from weir.topo.hosts import HostPort
from weir.topo.process import LoggedProcess, run_tool
from weir.topo.processors import busy_share
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchProcess
from weir.topo.testbed import HostSpec, Testbed
from weir.topo.tools import find_tool

P4RUNTIME_AT = ("127.0.0.1", 9559)
P4RUNTIME = "{}:{}".format(*P4RUNTIME_AT)
_READY_S = 30.0
_SWEEP_FROM_PPS, _SWEEP_STEP, _SWEEP_S = 10_000, 1.25, 1.0
_SHORT_BYTES, _FULL_BYTES = 64, 1514  # of a frame, without FCS
_SATURATED = 0.7  # of what is offered arrives; at most this much, and more would only be lost

BARE = {
    "bare, the switch's ways": ("--receive", "frames", "--send", "xdp", "--gather-ns", "5000"),
    "bare, without gathering": ("--receive", "frames", "--send", "xdp"),
    "bare, blocks in": ("--receive", "blocks", "--send", "xdp"),
    "bare, packet sockets": ("--receive", "blocks", "--send", "packets"),
}
"""The bare forwarders and their options."""
SAME_WAYS = "bare, the switch's ways"
GOALS = {
    "dataplane_pps": 5e6,
    "l2_pps": 10e6,
    "veth_vs_bare": 0.85,
    "veth_vs_bare_1514": 0.85,
    "tcp_vs_bare": 0.9,
}
SPREAD = (min, median, max)
QUIET = 0.05
"""On a quiet machine, other programs have at most this share of the processors between the rounds."""

Forwarder = Callable[[list[HostPort], Path], contextlib.AbstractContextManager[int]]


def weir_switch(send_threads: int) -> Forwarder:
    """The switch with weir's pipeline under its stated load."""

    @contextlib.contextmanager
    def forward(hosts: list[HostPort], folder: Path) -> Iterator[int]:
        program = os.environ.get("WEIR_SWITCH")
        switch_path = Path(program) if program else None
        threads = ["--send-threads", str(send_threads)] if send_threads else []
        with SwitchProcess(
            switch_ports(hosts), folder, p4runtime=P4RUNTIME, program=switch_path, options=threads
        ) as switch:
            switch.wait_ready()
            asyncio.run(fill(P4RUNTIME, hosts))
            yield switch.pid

    return forward


def bare_forwarder(*ways: str) -> Forwarder:
    """The bare forwarder with options for its ways in and out."""

    @contextlib.contextmanager
    def forward(hosts: list[HostPort], folder: Path) -> Iterator[int]:
        interfaces = [host.switch_interface for host in hosts[:2]]
        argv = [str(bench_program("bare-forwarder")), *interfaces, *ways]
        program = LoggedProcess("bare-forwarder", argv, folder / "bare.log")
        try:
            program.wait_line("forwarding", _READY_S)
            yield program.pid
            program.check_running()
        finally:
            program.stop()

    return forward


@contextlib.contextmanager
def bmv2(hosts: list[HostPort], folder: Path) -> Iterator[int]:
    """simple_switch_grpc with the same pipeline and the same entries."""
    argv = ["simple_switch_grpc", "--no-p4", "--device-id", "1", "--log-level", "off"]
    for host in hosts:
        argv += ["-i", f"{host.switch_port}@{host.switch_interface}"]
    program = LoggedProcess("bmv2", [*argv, "--", "--grpc-server-addr", P4RUNTIME], folder / "bmv2.log")
    try:
        # It buffers its ready message while it writes to a pipe, so the port shows readiness.
        _wait_listening(program)
        asyncio.run(fill(P4RUNTIME, hosts))
        yield program.pid
        program.check_running()
    finally:
        program.stop()


def _wait_listening(program: LoggedProcess) -> None:
    """Wait until P4Runtime's port accepts a connection."""
    give_up = time.monotonic() + _READY_S
    while True:
        program.check_running()
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(P4RUNTIME_AT, timeout=_READY_S).close()
            return
        if time.monotonic() > give_up:
            raise TimeoutError(f"{program.tail()}\ndid not listen on {P4RUNTIME} within {_READY_S:g} s")
        time.sleep(0.05)


def packets_per_second(
    testbed: Testbed,
    hosts: list[HostPort],
    seconds: float,
    pid: int,
    offered_pps: int = 0,
    frame_bytes: int = _SHORT_BYTES,
) -> tuple[float, float, float]:
    """Rates at receiver and collector while the source sends `offered_pps` (0: as fast as it can).

    Returns what `rates` does.
    """
    source, receiver, collector = hosts
    command = [str(bench_program("packet-source")), source.interface, "--seconds", str(sending_s(seconds))]
    command += ["--rate", str(offered_pps), "--frame-bytes", str(frame_bytes)]
    sending = testbed.popen(source.name, command, stdout=subprocess.DEVNULL)
    return rates([sending], (receiver, collector), pid, seconds)


def best_load(testbed: Testbed, hosts: list[HostPort], pid: int) -> int:
    """The offered load in packets/s (0: all that the source can) at which the most packets arrive.

    A forwarder that spends its time on packets that it then loses does best with fewer.
    """
    offered_pps, saturated = _SWEEP_FROM_PPS, 0
    arrived = {0: packets_per_second(testbed, hosts, _SWEEP_S, pid)[0]}
    while saturated < 2:  # once may be chance
        arrived[offered_pps] = packets_per_second(testbed, hosts, _SWEEP_S, pid, offered_pps)[0]
        saturated += arrived[offered_pps] < _SATURATED * offered_pps
        offered_pps = int(offered_pps * _SWEEP_STEP)
    return max(arrived, key=lambda load: arrived[load])


def tcp_bits_per_second(testbed: Testbed, hosts: list[HostPort], seconds: float) -> float:
    """Goodput of one TCP flow from source to receiver."""
    source, receiver = hosts[:2]
    iperf3 = find_tool("iperf3")
    server = testbed.popen(
        receiver.name, [iperf3, "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    while "listening" not in server.stdout.readline():
        if server.poll() is not None:
            raise RuntimeError(f"iperf3 -s ended with code {server.returncode}")
    command = [iperf3, "-c", receiver.address, "-t", f"{seconds:g}", "-O", "1", "-J"]
    measured = testbed.popen(source.name, command, stdout=subprocess.PIPE, text=True)
    printed, _ = measured.communicate(timeout=seconds + 30)
    server.communicate(timeout=30)
    return float(json.loads(printed)["end"]["sum_received"]["bits_per_second"])


@dataclass(frozen=True)
class Figures:
    """Rates and processor times of one forwarder; each list has one value per round."""

    pps: list[float] = field(default_factory=list)
    cpu_ns: list[float] = field(default_factory=list)
    busiest_ns: list[float] = field(default_factory=list)
    full_pps: list[float] = field(default_factory=list)
    """With frames of the full length."""
    tcp: list[float] = field(default_factory=list)

    def spread(self) -> dict[str, list[float]]:
        """Least, median and most of each kind."""
        kinds = {
            "packets_per_s": self.pps,
            "ns_per_packet": self.cpu_ns,
            "busiest_thread_ns_per_packet": self.busiest_ns,
            "packets_per_s_1514": self.full_pps,
            "tcp_bps": self.tcp,
        }
        return {kind: [round(of(values)) for of in SPREAD] for kind, values in kinds.items()}


def measure(options: argparse.Namespace) -> tuple[dict[str, Figures], float]:
    """The figures of each forwarder, in rounds in which they alternate.

    Returns also the largest share of the processors that others had between the rounds.
    """
    forwarders = {name: bare_forwarder(*ways) for name, ways in BARE.items()}
    forwarders["weir"] = weir_switch(options.send_threads)
    if shutil.which("simple_switch_grpc"):
        forwarders["bmv2"] = bmv2
    figures = {name: Figures() for name in forwarders}
    others = busy_share()
    for _ in range(options.rounds):
        for name, forwarder in forwarders.items():
            names = ("source", "receiver", "collector")
            with (
                Testbed([HostSpec(host) for host in names]) as testbed,
                tempfile.TemporaryDirectory() as folder,
            ):
                hosts = [testbed.host(host) for host in names]
                introduce(hosts[:2])
                with forwarder(hosts, Path(folder)) as pid:
                    load = best_load(testbed, hosts, pid) if name == "bmv2" else 0
                    pps, cpu_ns, busiest_ns = packets_per_second(testbed, hosts, options.seconds, pid, load)
                    full_pps, _, _ = packets_per_second(
                        testbed, hosts, options.seconds, pid, load, _FULL_BYTES
                    )
                    tcp = tcp_bits_per_second(testbed, hosts, options.seconds)
            of = figures[name]
            for values, value in (
                (of.pps, pps),
                (of.cpu_ns, cpu_ns),
                (of.busiest_ns, busiest_ns),
                (of.full_pps, full_pps),
                (of.tcp, tcp),
            ):
                values.append(value)
            print(
                f"{name:22} {pps:9.0f} packets/s {cpu_ns:6.0f} ns of processor each, "
                f"{busiest_ns:6.0f} of them in one thread, {full_pps:7.0f} packets/s of 1,514 bytes, "
                f"{tcp / 1e9:6.2f} Gbit/s",
                flush=True,
            )
        others = max(others, busy_share())
    return figures, others


def introduce(hosts: list[HostPort]) -> None:
    """Set static neighbour entries on the hosts: no forwarder here floods."""
    for host in hosts:
        for other in hosts:
            if other is not host:
                run_tool(
                    *("ip", "-n", host.namespace, "neigh", "replace", other.address),
                    *("lladdr", other.mac, "dev", host.interface, "nud", "permanent"),
                )


def dataplane_pps(rounds: int) -> dict[str, list[float] | None]:
    """Packets/s of the dataplane alone on one core: least, median and most; None if it is not built.

    `dataplane_pps`: with weir's pipeline; `l2_pps`: with a learning switch.
    """
    program = bench_program("examples/dataplane_pps")
    names = ("dataplane_pps", "l2_pps")
    if not program.exists():
        return dict.fromkeys(names)
    printed = [
        subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
        for _ in range(rounds)
    ]
    found = [json.loads(lines.splitlines()[-1]) for lines in printed]
    return {name: [float(of(one[name] for one in found)) for of in SPREAD] for name in names}


def limit(figures: Mapping[str, Figures], kind: str) -> tuple[str, float]:
    """The best of the bare forwarders, by the median of its rounds, and that median."""
    best = max(BARE, key=lambda name: median(getattr(figures[name], kind)))
    return best, median(getattr(figures[best], kind))


def summary(
    figures: Mapping[str, Figures], others: float, dataplane: Mapping[str, list[float] | None]
) -> dict[str, Any]:
    """The figures and their ratios: least, median and most; null for a peer that is not installed."""

    def against(kind: str, peer: float | None) -> list[float] | None:
        """Least, median and most of the switch's rounds beside a peer's median."""
        values = getattr(figures["weir"], kind)
        return None if peer is None else [round(of(values) / peer, 3) for of in SPREAD]

    def of_bmv2(kind: str) -> float | None:
        return median(getattr(figures["bmv2"], kind)) if "bmv2" in figures else None

    bare = {kind: limit(figures, kind) for kind in ("pps", "full_pps", "tcp")}
    return {
        **dataplane,
        "ns_per_packet": figures["weir"].spread()["ns_per_packet"],
        "veth_vs_bare": against("pps", bare["pps"][1]),
        "veth_vs_same_ways": against("pps", median(figures[SAME_WAYS].pps)),
        "veth_vs_bmv2": against("pps", of_bmv2("pps")),
        "veth_vs_bare_1514": against("full_pps", bare["full_pps"][1]),
        "veth_vs_same_ways_1514": against("full_pps", median(figures[SAME_WAYS].full_pps)),
        "tcp_vs_bare": against("tcp", bare["tcp"][1]),
        "tcp_vs_same_ways": against("tcp", median(figures[SAME_WAYS].tcp)),
        "tcp_vs_bmv2": against("tcp", of_bmv2("tcp")),
        "best_bare": {kind: name for kind, (name, _) in bare.items()},
        "processors_busy_with_others": round(others, 3),
        "figures": {name: of.spread() for name, of in figures.items()},
    }


def missed(found: Mapping[str, Any]) -> list[str]:
    """The goals that the medians miss."""
    medians = {name: found[name][1] for name in GOALS if found[name]}
    return [
        f"{name}: {medians[name]:g}, goal {goal:g}"
        for name, goal in GOALS.items()
        if medians.get(name, goal) < goal
    ]


def options(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m weir.bench.switch", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement (default: 3)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts (default: 3)")
    parser.add_argument(
        "--send-threads", type=int, default=0, help="of weir-switch (default: 0, the forwarding thread sends)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the last line there too")
    return parser.parse_args(argv)


def main(chosen: argparse.Namespace, _stop: StopToken) -> int:
    """Measure inside the sandbox."""
    dataplane = dataplane_pps(chosen.rounds)
    found = summary(*measure(chosen), dataplane)
    goals = missed(found)
    for goal in goals:
        print(f"missed: {goal}")
    busy = found["processors_busy_with_others"] > QUIET
    if busy:
        print("machine busy: other programs had processor time between the rounds, so nothing is judged")
    print(json.dumps(found))
    if chosen.json:
        chosen.json.write_text(json.dumps(found) + "\n")
    return 1 if goals and not busy else 0


if __name__ == "__main__":
    run("weir.bench.switch", options, main)
