# SPDX-License-Identifier: Apache-2.0
"""How exactly the policer polices in real time, 1 Mbit/s to 1 Gbit/s, through weir-switch on veths.

    source eth0 ── weir1 [ weir-switch: weir's pipeline, one policer ] weir2 ── eth0 receiver
                     │ capture: arrivals                                          │ capture: what passed

The source sends 1.5 times the burst at once, then 1.5 times the rate. Both captures have the stamps,
which tell arrival and verdict of every packet, and thus:

- the first burst: bytes that passed before the first drop, less what the rate gave meanwhile;
- the long-run rate from the first drop to the last;
- by how many packets the switch was ever ahead of or behind exact arithmetic on the same arrivals.

Usage: python -m weir.bench.policer [options]; the last line is JSON.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from weir.bench import paced_source
from weir.bench.measuring import run, switch_ports
from weir.controlplane.entities import Match, MeterCell, TableEntry
from weir.controlplane.pipeline import load_pipeline
from weir.controlplane.session import Session
from weir.telemetry.captures import read_pcap
from weir.topo.capture import Capture
from weir.topo.hosts import HostPort
from weir.topo.process import run_tool
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchProcess
from weir.topo.testbed import HostSpec, Testbed
from weir_tests.softswitch.token_buckets import Colour, Config, SingleRateTwoColour

FRAME_BYTES = {1_000_000: 250, 10_000_000: 500, 100_000_000: 1250, 1_000_000_000: 9014}
"""By rate in bit/s: short ones where there are few, so that one more or less does not matter; long ones where
source and captures would not keep up otherwise."""
OFFERED = 1.5
BURST_S = 0.05
"""Bucket, as time at the rate: longer than a busy machine keeps the source waiting."""
_CELL, _RED = 7, 2
_SNAP_BYTES = 64
_MTU_BYTES = 9000
_BUFFER_BYTES = 128 << 20


@dataclass(frozen=True)
class Accuracy:
    """The result at one rate."""

    rate_bps: int
    packets: int
    """Packets that arrived."""
    passed: int
    rate_error_percent: float
    """Error of the long-run rate."""
    exact_error_percent: float
    """The same for exact arithmetic: not 0 when the source paused until the bucket was full."""
    burst_error_packets: float
    """Error of the first burst; exact is more than -1 and at most 0: the remainder is less than a packet."""
    packets_off: int
    """Largest difference in packets between the switch and exact arithmetic on the captured arrivals."""
    not_seen: int
    """Packets lost by the switch's ring or a capture, without a verdict."""


class _SwitchSide:
    """The switch's ends of a testbed's links as hosts, to capture arriving packets there."""

    def __init__(self, port: HostPort) -> None:
        self.interface = port.switch_interface

    def host(self, _name: str) -> "_SwitchSide":
        return self

    def command(self, _name: str, argv: list[str]) -> list[str]:
        return argv


async def configure(address: str, receiver: HostPort, rate_bps: int, burst_bytes: int) -> None:
    """One policer for all traffic to the receiver. Raises ControlPlaneError."""
    mac = int(receiver.mac.replace(":", ""), 16)
    async with Session(address, 1, 1, 20.0) as session:
        await session.push_pipeline(load_pipeline().schema)
        await session.write("modify", [MeterCell("policer", _CELL, rate_bps // 8, burst_bytes)])
        entries = [
            TableEntry("forward", (Match("dst", mac),), "set_egress", (("port", receiver.switch_port),)),
            TableEntry(
                "classify",
                (Match("protocol", 17),),
                "police_shared",
                (("cell", _CELL), ("watched", 0)),
                priority=1,
            ),
            TableEntry("verdict", (Match("colour", _RED),), "drop_packet", priority=1),
        ]
        await session.write("insert", entries)


def measure(rate_bps: int, seconds: float, folder: Path, stop: StopToken) -> Accuracy:
    """Police at one rate for some seconds."""
    length_bytes, burst_bytes = FRAME_BYTES[rate_bps], int(rate_bps / 8 * BURST_S)
    with Testbed([HostSpec("source"), HostSpec("receiver")]) as testbed:
        source, receiver = testbed.host("source"), testbed.host("receiver")
        for host in (source, receiver):
            run_tool("ip", "link", "set", host.switch_interface, "mtu", str(_MTU_BYTES))
            run_tool("ip", "-n", host.namespace, "link", "set", host.interface, "mtu", str(_MTU_BYTES))
        with SwitchProcess(switch_ports((source, receiver)), folder) as switch:
            switch.wait_ready(stop)
            asyncio.run(configure(switch.p4runtime, receiver, rate_bps, burst_bytes))
            side = cast(Testbed, _SwitchSide(source))
            options: dict[str, Any] = {
                "snap_bytes": _SNAP_BYTES,
                "buffer_bytes": _BUFFER_BYTES,
                "filter_expression": "udp",
            }
            with (
                Capture(side, "switch", folder / "in.pcap", folder, **options) as came,
                Capture(testbed, "receiver", folder / "out.pcap", folder, **options) as left,
            ):
                came.wait_ready(stop)
                left.wait_ready(stop)
                # At once, so that a bucket that is full takes in nothing before the burst is over.
                at_once = int(burst_bytes * OFFERED / length_bytes)
                rate = int(rate_bps * OFFERED)
                what = [source.interface, receiver.mac, length_bytes, at_once, rate, seconds]
                command = [sys.executable, str(paced_source.__file__), *map(str, what)]
                sending = testbed.popen("source", command, stdout=subprocess.PIPE, text=True)
                printed, _ = sending.communicate(timeout=seconds + 60)
                lost = came.stop().lost + left.stop().lost
            switch.check_running()
        stats = json.loads((folder / "stats.json").read_text())
    overruns = sum(port["rx_overruns"] + port["tx_errors"] for port in stats["ports"])
    arrivals, passed = numbered(folder / "in.pcap"), numbered(folder / "out.pcap")
    unseen = int(printed) - len(arrivals) + overruns + lost
    return judge(rate_bps, burst_bytes, length_bytes, arrivals, {number for _, number in passed}, unseen)


def numbered(path: Path) -> list[tuple[int, int]]:
    """Time in ns and number of each captured frame, in order of arrival."""
    at = paced_source.NUMBER_AT
    return [
        (record.time_ns, int.from_bytes(record.frame[at : at + 8], "big"))
        for record in read_pcap(path, whole=False)
    ]


def judge(
    rate_bps: int,
    burst_bytes: int,
    length_bytes: int,
    arrivals: list[tuple[int, int]],
    passed: set[int],
    not_seen: int,
) -> Accuracy:
    """Rate, burst and verdicts from arrivals (time in ns, number) and the numbers that passed.

    Raises ValueError when fewer than two packets were dropped: nothing was policed.
    """
    dropped = [time_ns for time_ns, number in arrivals if number not in passed]
    if len(dropped) < 2:
        raise ValueError(
            f"{rate_bps} bit/s: {len(dropped)} of {len(arrivals)} packets dropped; the source was too slow"
        )
    first_ns, last_ns, start_ns = dropped[0], dropped[-1], arrivals[0][0]
    early = sum(number in passed for time_ns, number in arrivals if time_ns < first_ns) * length_bytes
    steady = (
        sum(number in passed for time_ns, number in arrivals if first_ns <= time_ns < last_ns) * length_bytes
    )
    first_burst = early - rate_bps / 8 * (first_ns - start_ns) / 1e9
    exact = SingleRateTwoColour(Config(rate_bps // 8, burst_bytes))
    ahead = furthest = exact_steady = 0
    for time_ns, number in arrivals:
        conforms = exact.colour(length_bytes, time_ns - start_ns) == Colour.GREEN
        ahead += (number in passed) - conforms
        furthest = max(furthest, abs(ahead))
        exact_steady += length_bytes * (conforms and first_ns <= time_ns < last_ns)
    seconds = (last_ns - first_ns) / 1e9
    return Accuracy(
        rate_bps,
        len(arrivals),
        len(passed),
        round((steady * 8 / seconds / rate_bps - 1) * 100, 5),
        round((exact_steady * 8 / seconds / rate_bps - 1) * 100, 5),
        round((first_burst - burst_bytes) / length_bytes, 3),
        furthest,
        not_seen,
    )


def options(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m weir.bench.policer", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of one measurement (default: 10)")
    rates = ", ".join(map(str, FRAME_BYTES))
    parser.add_argument(
        "--rate", type=int, choices=FRAME_BYTES, action="append", help=f"in bit/s (default: {rates})"
    )
    return parser.parse_args(argv)


def main(chosen: argparse.Namespace, stop: StopToken) -> int:
    """Measure inside the sandbox."""
    heads = ("bit/s", "packets", "passed", "rate %", "exact %", "burst pkt", "off pkt", "unseen")
    print("{:>10} {:>8} {:>8} {:>9} {:>9} {:>9} {:>7} {:>6}".format(*heads))
    found: list[dict[str, Any]] = []
    for rate_bps in chosen.rate or FRAME_BYTES:
        with tempfile.TemporaryDirectory() as folder:
            one = measure(rate_bps, chosen.seconds, Path(folder), stop)
        found.append(asdict(one))
        print(
            f"{one.rate_bps:10} {one.packets:8} {one.passed:8} {one.rate_error_percent:+9.4f} "
            f"{one.exact_error_percent:+9.4f} {one.burst_error_packets:+9.3f} "
            f"{one.packets_off:7} {one.not_seen:6}",
            flush=True,
        )
    print(json.dumps({"policer": found}))
    return 0


if __name__ == "__main__":
    run("weir.bench.policer", options, main)
