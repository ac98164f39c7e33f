# SPDX-License-Identifier: Apache-2.0
"""Programs that send traffic, which this folder's tests run in the sandbox; see `scenarios`."""

import contextlib
import json
import socket
import struct
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from weir.topo.background import BackgroundSpec, BackgroundTraffic
from weir.topo.capture import Capture
from weir.topo.hosts import HostPort, TestbedError
from weir.topo.linux import in_network_namespace
from weir.topo.played import PlayedTraffic
from weir.topo.process import run_tool
from weir.topo.script import Block, Script, regular_writes
from weir.topo.stop import Interrupted, StopToken
from weir.topo.tcpdiag import TcpDiag, TcpInfo
from weir.topo.testbed import Testbed
from weir.topo.traffic import FlowResult, FlowSpec, PortAllocator, TrafficResult, data_connection, run_flows
from weir_tests.topo.scenarios import HOSTS, bridge, poll_until

RATE_BPS = 8_000_000


def measured_flows(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Two flows with different congestion controls, captured at both ends."""
    with Testbed(HOSTS) as testbed:
        bridge(testbed)
        flows = _two_flows()
        captures = [
            Capture(testbed, host, folder / "pcap" / f"{host}.pcap", folder / "log")
            for host in ("client", "server1", "server2")
        ]
        for capture in captures:
            capture.wait_ready(stop)
        traffic = run_flows(testbed, flows, folder / "log", stop)
        testbed.silence()
        captured = [capture.stop() for capture in captures]
        drops = testbed.link_drops()
    return {
        "flows": [_summary(result) for result in traffic.flows],
        "start_ns": traffic.start_ns,
        "captures": {
            result.host: {"captured": result.captured, "lost": result.lost, "path": str(result.path)}
            for result in captured
        },
        "drops": {host: [drop.to_switch, drop.from_switch] for host, drop in drops.items()},
        "unfinished": [str(path) for path in folder.rglob("*.part")],
        "iperf3_left": _processes_named("iperf3"),
    }


def played_flows(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Requests and responses; writes at an interval; more data than a paced flow can send; datagrams."""
    talk = Script(
        (
            Block("client", 0, ((0.0, 100),)),
            Block("server", 100, ((0.0, 200_000), (0.2, 1_000))),
            Block("client", 201_000, ((0.1, 300),)),
            Block("server", 400, ((0.0, 5_000),)),
        )
    )
    # The client's last datagram is due when the flow's time is over.
    call = Script(
        (
            Block("client", 0, ((0.0, 1), (0.3, 1_200), (2.0, 100))),
            Block("server", 0, tuple((0.1 + 0.01 * number, 1_000) for number in range(100))),
        ),
        protocol="udp",
    )
    scripts = {
        "talk": (talk, None),
        "call": (call, None),
        "writes": (regular_writes(10_000, 0.02, 1.0, 0.3, 0.2), None),
        "paced": (Script((Block("server", 0, ((0.0, 10**8),)),)), RATE_BPS),
    }
    ports = PortAllocator()
    flows = [
        FlowSpec(
            id=f"main/{name}",
            source="server1",
            destination="client",
            congestion_control="cubic" if script.protocol == "tcp" else None,
            source_port=(pair := ports.next())[0],
            destination_port=pair[1],
            duration_s=2,
            pacing_bps=pacing,
            script=script,
        )
        for name, (script, pacing) in scripts.items()
    ]
    with Testbed(HOSTS) as testbed:
        bridge(testbed)
        capture = Capture(testbed, "client", folder / "client.pcap", folder / "log")
        capture.wait_ready(stop)
        with PlayedTraffic(testbed, flows, folder / "log", stop) as played:
            played.go()
            results = played.finish()
        capture.stop()
    return {
        result.flow.id.partition("/")[2]: {
            **_summary(result),
            **(result.report or {})["script"],
            "seconds": (result.ended_ns - result.launched_ns) / 1e9,
        }
        for result in results
    }


def drawn_datagrams(stop: StopToken, folder: Path) -> dict[str, Any]:
    """A UDP background for one second, captured at the receiver."""
    spec = BackgroundSpec(
        "main/b", "server1", "client", 5202, None, 0.0, 1.0, 4 * 10**6, 20_000, 100_000, 1.2, 1, 10**7
    )
    with Testbed(HOSTS) as testbed:
        bridge(testbed)
        capture = Capture(testbed, "client", folder / "client.pcap", folder / "log")
        capture.wait_ready(stop)
        with BackgroundTraffic(testbed, [spec], folder / "log", stop) as background:
            background.go()
            records, problems = background.finish()
        capture.stop()
    return {"records": records, "problems": problems}


def background_in_threads(stop: StopToken, folder: Path) -> dict[str, Any]:
    """A TCP background with the receiver of virtual time."""
    spec = BackgroundSpec(
        "main/t", "server1", "client", 5203, "cubic", 0.0, 1.0, 4 * 10**6, 20_000, 100_000, 1.2, 1, 10**7
    )
    with Testbed(HOSTS, virtual_time=True) as testbed:
        bridge(testbed)
        with BackgroundTraffic(testbed, [spec], folder / "log", stop) as background:
            background.go()
            records, problems = background.finish()
    return {"records": records, "problems": problems}


def lacking_congestion_control(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Start each kind of traffic with a congestion control that no kernel has."""
    missing = "nosuch"
    script = regular_writes(1, 1.0, 1.0, None, None)
    plain = FlowSpec("main/a", "server1", "client", missing, 20_000, 5201, 1)
    back = BackgroundSpec("main/b", "server1", "client", 5202, missing, 0.0, 1.0, 10**6, 1000, 10**4, 1.2, 1)
    said = {}
    with Testbed(HOSTS) as testbed:
        kinds: dict[str, Callable[[], object]] = {
            "bulk": lambda: run_flows(testbed, [plain], folder, stop),
            "played": lambda: PlayedTraffic(testbed, [replace(plain, script=script)], folder, stop),
            "background": lambda: BackgroundTraffic(testbed, [back], folder, stop),
        }
        for kind, start in kinds.items():
            try:
                start()
            except TestbedError as error:
                said[kind] = str(error)
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return {"said": said, "available": available}


def paced_flow(stop: StopToken, folder: Path) -> dict[str, Any]:
    """One paced flow whose program always has more data than TCP may send, captured at its sender."""
    with Testbed(HOSTS) as testbed:
        bridge(testbed)
        flow = replace(_two_flows(1)[0], rate_bps=None, pacing_bps=RATE_BPS)
        with Capture(testbed, "server1", folder / "pcap" / "server1.pcap", folder / "log") as capture:
            capture.wait_ready(stop)
            traffic = run_flows(testbed, [flow], folder / "log", stop)
            testbed.silence()
            capture.stop()
    return {"flows": [_summary(result) for result in traffic.flows], "notes": traffic.notes}


def sampled_flows(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Two flows whose sockets are sampled."""
    from weir.topo.sockets import SocketSampler  # needs pyarrow, which the system's Python lacks

    with Testbed(HOSTS) as testbed:
        bridge(testbed)
        flows = _two_flows()
        with SocketSampler(testbed, folder / "sockets.parquet") as sampler:
            sampler.watch(flows)
            traffic = run_flows(testbed, flows, folder / "log", stop)
            sampler.stop()
    return {
        "flows": [_summary(result) for result in traffic.flows],
        "samples": sampler.samples,
        "unfinished": [str(path) for path in folder.rglob("*.part")],
    }


def silenced_hosts(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Send on a connected socket before and after its host is silenced."""
    with Testbed(HOSTS) as testbed:
        bridge(testbed)
        client, server = testbed.host("client"), testbed.host("server1")
        listener = in_network_namespace(
            client.namespace, lambda: socket.create_server((client.address, 7000))
        )
        sender = in_network_namespace(
            server.namespace, lambda: socket.create_connection((client.address, 7000))
        )
        receiver, _ = listener.accept()
        with listener, sender, receiver:
            sender.sendall(b"before")
            heard = receiver.recv(100).decode()
            sent = _frames_sent(server)
            sender.sendall(b"more")
            sent_more = _frames_sent(server) - sent
            testbed.silence()
            sent = _frames_sent(server)
            sender.sendall(b"after")
            sent_after = _frames_sent(server) - sent
        report = _deliver_report(client)
    return {"heard": heard, "sent_more": sent_more, "sent_after": sent_after, "report": report}


def _deliver_report(host: HostPort) -> str:
    """Send a UDP datagram like the switch, from an address of no host; returns what the host receives."""
    receiver = in_network_namespace(host.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with receiver, socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as switch:
        receiver.bind((host.address, 7001))
        receiver.settimeout(20)
        payload = b"report"
        # No UDP checksum (0) and a correct IPv4 one: version 4, no options, time to live 64, protocol 17.
        udp = struct.pack("!HHHH", 7001, 7001, 8 + len(payload), 0) + payload
        words = [0x4500, 20 + len(udp), 0, 0, 0x4011, 0]
        words += struct.unpack("!HHHH", socket.inet_aton("10.0.0.254") + socket.inet_aton(host.address))
        total = sum(words)
        words[5] = ~(total + (total >> 16)) & 0xFFFF
        ethernet = bytes.fromhex(host.mac.replace(":", "")) + bytes.fromhex("06000000fffe0800")
        switch.bind((host.switch_interface, 0))
        switch.send(ethernet + struct.pack("!10H", *words) + udp)
        return receiver.recv(100).decode()


def _frames_sent(host: HostPort) -> int:
    shown = run_tool("ip", "-n", host.namespace, "-s", "-json", "link", "show", "dev", host.interface)
    return int(json.loads(shown)[0]["stats64"]["tx"]["packets"])


def cut_flow(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Cut the link of one of two flows while it runs, so that it cannot end by itself."""
    with Testbed(HOSTS) as testbed:
        bridge(testbed)
        flows = _two_flows()
        cut = testbed.host(flows[0].source).switch_interface
        traffic = _run_disturbed(
            testbed, flows, folder, stop, lambda: run_tool("ip", "link", "set", cut, "down")
        )
    return {
        "flows": [_summary(result) for result in traffic.flows],
        "problems": traffic.problems,
        "iperf3_left": _processes_named("iperf3"),
    }


def stopped_flows(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Stop the run while flows are running."""
    inner = StopToken()
    reason = ""
    with Testbed(HOSTS) as testbed:
        bridge(testbed)
        try:
            _run_disturbed(testbed, _two_flows(1000), folder, inner, lambda: inner.stop("interrupted"))
        except Interrupted as error:
            reason = error.reason
        left = _processes_named("iperf3")
    return {"reason": reason, "iperf3_left": left}


def socket_against_ss(stop: StopToken, folder: Path) -> dict[str, Any]:
    """The state of an idle TCP socket as `tcpdiag` and as `ss` read it."""
    with Testbed(HOSTS) as testbed:
        bridge(testbed)
        flow = _two_flows(1000)[0]
        seen: dict[str, Any] = {}
        inner = StopToken()

        def compare() -> None:
            # The link is cut so that between the two reads only the retransmission timer changes.
            try:
                link = testbed.host(flow.source).switch_interface
                run_tool("ip", "link", "set", link, "down")
                seen["info"] = _info_as_ss(_sample(testbed, flow))
                seen["ss"] = subprocess.run(
                    testbed.command(flow.source, ["ss", "-tinHO", "sport", "=", "20000"]),
                    capture_output=True, text=True, check=True,
                ).stdout  # fmt: skip
            finally:
                inner.stop("interrupted")

        with contextlib.suppress(Interrupted):
            _run_disturbed(testbed, [flow], folder, inner, compare)
    return seen


def _two_flows(duration_s: int = 2) -> list[FlowSpec]:
    ports = PortAllocator()
    flows = []
    for name, source, control, start_s in (("a", "server1", "reno", 0.0), ("b", "server2", "cubic", 0.3)):
        source_port, destination_port = ports.next()
        flows.append(
            FlowSpec(
                id=f"main/{name}",
                source=source,
                destination="client",
                congestion_control=control,
                source_port=source_port,
                destination_port=destination_port,
                duration_s=duration_s,
                start_s=start_s,
                rate_bps=RATE_BPS,
            )
        )
    return flows


def _run_disturbed(
    testbed: Testbed,
    flows: list[FlowSpec],
    folder: Path,
    stop: StopToken,
    disturb: Callable[[], object],
) -> TrafficResult:
    """Run the flows, and call `disturb` once the first flow's data connection has carried data."""

    def wait_and_disturb() -> None:
        poll_until(lambda: _carries_data(testbed, flows[0]))
        disturb()

    helper = threading.Thread(target=wait_and_disturb, daemon=True)
    helper.start()
    try:
        return run_flows(testbed, flows, folder / "log", stop, grace_s=1.0)
    finally:
        helper.join()


def _sample(testbed: Testbed, flow: FlowSpec) -> TcpInfo | None:
    diag = in_network_namespace(testbed.host(flow.source).namespace, TcpDiag)
    try:
        return next(iter(diag.sample([data_connection(testbed, flow)])), None)
    finally:
        diag.close()


def _carries_data(testbed: Testbed, flow: FlowSpec) -> bool:
    info = _sample(testbed, flow)
    return info is not None and info.bytes_acked > 100_000


def _info_as_ss(info: TcpInfo | None) -> dict[str, str]:
    """The state in the words of `ss -i`."""
    if info is None or info.min_rtt_ns is None or info.pacing_rate_bps is None:
        return {}
    return {
        "minrtt": f"minrtt:{info.min_rtt_ns / 1e6:g}",
        "acked": f"bytes_acked:{info.bytes_acked}",
        "delivered": f"delivered:{info.delivered}",
        "delivery_rate": f"delivery_rate {info.delivery_rate_bps}bps",
        "control": f" {info.congestion_control} ",
    }


def _summary(result: FlowResult) -> dict[str, Any]:
    return {
        "id": result.flow.id,
        "state": result.state,
        "error": result.error,
        "launched_ns": result.launched_ns,
        "late_s": result.late_s,
        "bytes_sent": result.bytes_sent,
        "bytes_received": result.bytes_received,
    }


def _processes_named(name: str) -> list[int]:
    """Ids of the running processes with that name in the sandbox."""
    found = []
    for status in Path("/proc").glob("[0-9]*/comm"):
        try:
            if status.read_text().strip() == name:
                found.append(int(status.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return found


SCENARIOS: dict[str, Callable[[StopToken, Path], dict[str, Any]]] = {
    scenario.__name__: scenario
    for scenario in (
        measured_flows,
        played_flows,
        drawn_datagrams,
        background_in_threads,
        lacking_congestion_control,
        paced_flow,
        sampled_flows,
        silenced_hosts,
        cut_flow,
        stopped_flows,
        socket_against_ss,
    )
}
