# SPDX-License-Identifier: Apache-2.0
"""Programs that this folder's tests run in the sandbox; each writes its report to FOLDER/result.json.

Usage in the sandbox: `python -m weir_tests.topo.scenarios NAME FOLDER`. Scenarios that an ordinary user runs
with the system's Python use only the standard library.
"""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weir.topo.capture import Capture
from weir.topo.collectorproc import REPORT_PORT, CollectorProcess
from weir.topo.hosts import TestbedError
from weir.topo.line import Line
from weir.topo.linux import NETNS_FOLDER, in_network_namespace
from weir.topo.process import ProcessError, run_tool
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess
from weir.topo.testbed import HostSpec, Testbed

Scenario = Callable[[StopToken, Path], dict[str, Any]]
HOSTS = (HostSpec("client"), HostSpec("server1"), HostSpec("server2"), HostSpec("collector", "10.0.0.9"))


_PRIVILEGES = ("Name", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")


def main(stop: StopToken) -> int:
    """Run the scenario named on the command line."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    result = SCENARIOS[name](stop, folder)
    (folder / "result.json").write_text(json.dumps(result))
    return int(result.get("exit_code", 0))


def bridge(testbed: Testbed) -> None:
    """Connect the switch ends of all links with a kernel bridge, for tests that need no P4 switch."""
    ports = [f"link set {host.switch_interface} master bridge0\n" for host in testbed.hosts.values()]
    batch = "link add bridge0 type bridge\nlink set bridge0 up\n" + "".join(ports)
    run_tool("ip", "-batch", "-", input_text=batch)


def describe(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Report the user, process id, interfaces and mounts of the program."""
    return {
        "uid": os.getuid(),
        "pid": os.getpid(),
        "interfaces": _names_in("/sys/class/net"),
        "run": _names_in("/run"),
        "stdin": sys.stdin.read(),
        "privileges": _privileges(os.getpid()),
        "exit_code": 7,
    }


def crash(stop: StopToken, folder: Path) -> dict[str, Any]:
    """End with an unhandled exception."""
    raise ValueError("a bug in the program")


def die(stop: StopToken, folder: Path) -> dict[str, Any]:
    """End by a signal."""
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def orphans(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Leave an orphan, which only process 1 can reap."""
    # A shell does not wait for its background job, and ends while the job is still its child.
    orphan = int(subprocess.run(["sh", "-c", "true & echo $!"], stdout=subprocess.PIPE, check=True).stdout)
    return {"collected": poll_until(lambda: not Path(f"/proc/{orphan}").exists())}


def poll_until(condition: Callable[[], bool], give_up_s: float = 20.0) -> bool:
    """Poll `condition` until it holds (True) or the time is over (False)."""
    end = time.monotonic() + give_up_s
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(0.01)
    return True


def linger(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Build a testbed, start processes in its hosts, print ready, and wait for the stop."""
    with Testbed(HOSTS) as testbed:
        for host in testbed.hosts:
            testbed.popen(host, ["sleep", "100000"])
        namespaces = [(NETNS_FOLDER / host.namespace).stat().st_ino for host in testbed.hosts.values()]
        _say_ready({"namespaces": [Path("/proc/self/ns/net").stat().st_ino, *namespaces]})
        stop.wait()
    return {"reason": stop.reason, "exit_code": 130}


def stop_itself(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Stop by a signal that the program sends to itself, not by the outer process."""
    os.kill(os.getpid(), signal.SIGTERM)
    stop.wait()
    return {"reason": stop.reason, "exit_code": 130}


def let_through(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Leave the interruption uncaught."""
    _say_ready({})
    stop.sleep(100_000)
    return {}


def hang(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Never react to a stop."""
    _say_ready({})
    threading.Event().wait()
    return {}


def connect(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Send a line from every host to the client over TCP, and report the testbed's links and settings."""
    with Testbed(HOSTS) as testbed:
        bridge(testbed)
        client = testbed.host("client")
        server = in_network_namespace(
            client.namespace, lambda: socket.create_server((client.address, 7000), backlog=8)
        )
        server.settimeout(20)
        heard = []
        for host in testbed.hosts.values():
            if host is client:
                continue
            sender = in_network_namespace(
                host.namespace, lambda: socket.create_connection((client.address, 7000), timeout=20)
            )
            with sender:
                sender.sendall(host.name.encode())
            accepted, peer = server.accept()
            with accepted, accepted.makefile("rb") as stream:
                heard.append([stream.read().decode(), peer[0]])
        server.close()
        links = {
            host.name: json.loads(run_tool("ip", "-n", host.namespace, "-json", "addr", "show"))
            for host in testbed.hosts.values()
        }
        sysctls = in_network_namespace(client.namespace, _sysctls)
        hosts = [asdict(host) for host in testbed.hosts.values()]
        drops = {name: asdict(drop) for name, drop in testbed.link_drops().items()}
    left = [link["ifname"] for link in json.loads(run_tool("ip", "-json", "link", "show"))]
    namespaces = _names_in(str(NETNS_FOLDER))
    return {
        "heard": heard,
        "hosts": hosts,
        "links": links,
        "sysctls": sysctls,
        "drops": drops,
        "left": left,
        "namespaces": namespaces,
    }


def over_ipv6(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Send a line over IPv6, silence the hosts, and report all frames."""
    hosts = [HostSpec("client", None, "2001:db8::1"), HostSpec("server1", None, "2001:db8::2")]
    pcap = folder / "client.pcap"
    with Testbed(hosts) as testbed, Capture(testbed, "client", pcap, folder) as capture:
        bridge(testbed)
        capture.wait_ready(stop)
        at = (testbed.host("client").ip(6), 7000)
        server = in_network_namespace("client", lambda: socket.create_server(at, family=socket.AF_INET6))
        server.settimeout(20)
        sender = in_network_namespace("server1", lambda: socket.create_connection(at, timeout=20))
        with sender:
            sender.sendall(b"over IPv6")
        accepted, peer = server.accept()
        with server, accepted, accepted.makefile("rb") as stream:
            heard = [stream.read().decode(), peer[0]]
        testbed.silence()
        stray = in_network_namespace("server1", lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
        with stray:
            try:
                stray.sendto(b"stray", at)
                refused = ""
            except OSError as error:
                refused = errno.errorcode[error.errno or 0]
        capture.stop()
    # The bridge itself sends IGMP over IPv4.
    frames = run_tool("tcpdump", "-n", "-r", str(pcap), "ip6").splitlines()
    others = [line for line in frames if "2001:db8::1.7000" not in line]
    return {"heard": heard, "refused": refused, "frames": len(frames), "others": others}


def first_frames(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Send a frame as soon as the testbed is built, ten times."""

    def broadcast() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sender.sendto(b"first", ("10.0.0.255", 9))

    dropped = 0
    for _ in range(10):
        with Testbed([HostSpec("client"), HostSpec("server1")]) as testbed:
            in_network_namespace("server1", broadcast)
            dropped += testbed.link_drops()["server1"].to_switch
    return {"dropped": dropped}


def _sysctls() -> dict[str, str]:
    names = ("tcp_no_metrics_save", "conf/all/rp_filter", "conf/eth0/rp_filter", "tcp_congestion_control")
    return {name: (Path("/proc/sys/net/ipv4") / name).read_text().strip() for name in names}


def half_built(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Fail while building the testbed: the second host's switch interface exists already."""
    run_tool("ip", "link", "add", "weir2", "type", "veth", "peer", "name", "other")
    message = ""
    try:
        with Testbed(HOSTS):
            pass
    except Exception as error:  # the test checks which one
        message = f"{type(error).__name__}: {error}"
    left = [link["ifname"] for link in json.loads(run_tool("ip", "-json", "link", "show"))]
    return {"message": message, "left": left, "namespaces": _names_in(str(NETNS_FOLDER))}


def congestion_controls(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Check a congestion control that exists and one that does not."""
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    with Testbed(HOSTS) as testbed:
        testbed.check_congestion_controls({"client": set(available)})
        try:
            testbed.check_congestion_controls({"server1": {"nosuchcc"}})
        except TestbedError as error:
            return {"available": available, "message": str(error)}
    return {"available": available, "message": ""}


def sysctls(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Set a sysctl of one host, then one that does not exist, and a value that the kernel refuses."""
    messages = []
    with Testbed(HOSTS) as testbed:
        testbed.set_sysctls({"client": {"net.ipv4.tcp_ecn": "1"}, "server1": {}})
        values = {
            name: in_network_namespace(name, Path("/proc/sys/net/ipv4/tcp_ecn").read_text).strip()
            for name in ("client", "server1")
        }
        for wanted in ({"net.ipv4.tcp_nothing": "1"}, {"net.ipv4.tcp_ecn": "1000"}):
            try:
                testbed.set_sysctls({"server2": wanted})
            except TestbedError as error:
                messages.append(str(error))
    return {"values": values, "messages": messages}


def switch_life(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Start and stop the switch on the testbed's links."""
    with Testbed(HOSTS) as testbed:
        ports = [
            SwitchPort(host.switch_port, host.switch_interface, 1_000_000, 1_000_000_000, 15_000, 256_000)
            for host in testbed.hosts.values()
        ]
        with SwitchProcess(ports, folder) as switch:
            switch.wait_ready(stop)
            privileges = _privileges(switch.pid)
            return {"stats": switch.stop(), "privileges": privileges}


def switch_without_interface(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Start the switch on an interface that does not exist."""
    with SwitchProcess([SwitchPort(1, "weir77")], folder) as switch:
        try:
            switch.wait_ready(stop)
        except ProcessError as error:
            return {"message": str(error)}
    return {"message": ""}


def collector_life(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Start the collector, send it one datagram of garbage, stop it."""
    with Testbed(HOSTS) as testbed:
        output, accounting = folder / "telemetry.parquet", folder / "collector.json"
        with CollectorProcess(testbed, "collector", output, accounting, folder) as collector:
            collector.wait_ready(stop)
            host = testbed.host("collector")
            sender = in_network_namespace(
                host.namespace, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            )
            with sender:
                sender.sendto(b"garbage", (host.address, REPORT_PORT))
            privileges = _privileges(collector.pid)
            accounting_written = collector.stop()
            return {
                "accounting": accounting_written,
                "telemetry_exists": output.exists(),
                "privileges": privileges,
            }


def captured(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Capture nothing, and report the user id in the sandbox."""
    with (
        Testbed([HostSpec("client")]) as testbed,
        Capture(testbed, "client", folder / "client.pcap", folder) as capture,
    ):
        capture.wait_ready(stop)
        return {"uid": os.getuid(), "captured": capture.stop().captured}


LINES = {"plain": None, "fast": Line(20_000_000), "costly": Line(20_000_000, packet_cost_ns=400_000)}
"""Hosts of `lines`; a full frame takes 615 µs at 20 Mbit/s."""


def lines(stop: StopToken, folder: Path) -> dict[str, Any]:
    """Each host of `LINES` sends 100 kB to the client in one write; captures of what leaves them."""
    hosts = [HostSpec("client"), *(HostSpec(name, line=line) for name, line in LINES.items())]
    with Testbed(hosts) as testbed:
        bridge(testbed)
        client = testbed.host("client")
        server = in_network_namespace(
            client.namespace, lambda: socket.create_server((client.address, 7000), backlog=8)
        )
        server.settimeout(20)
        for name in LINES:
            path = folder / f"{name}.pcap"
            with Capture(testbed, name, path, folder, filter_expression="tcp dst port 7000") as capture:
                capture.wait_ready(stop)
                sender = in_network_namespace(
                    testbed.host(name).namespace,
                    lambda: socket.create_connection((client.address, 7000), timeout=20),
                )
                with sender:
                    sender.sendall(bytes(100_000))
                accepted, _ = server.accept()
                with accepted, accepted.makefile("rb") as stream:
                    assert len(stream.read()) == 100_000
                capture.stop()
        server.close()
        return {"drops": {name: asdict(drop) for name, drop in testbed.link_drops().items()}}


def _privileges(pid: int) -> list[dict[str, str]]:
    """What /proc/PID/task/*/status says of privileges, for each thread of a process."""
    threads = []
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        lines = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        threads.append({key: value for key, value in lines.items() if key in _PRIVILEGES})
    return threads


def _names_in(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def _say_ready(facts: dict[str, Any]) -> None:
    print(json.dumps({"ready": True, **facts}), flush=True)


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        describe, crash, die, orphans, linger, stop_itself, let_through, hang,
        connect, first_frames, half_built, congestion_controls, sysctls,
        switch_life, switch_without_interface, collector_life, captured,
        over_ipv6, lines,
    )
}  # fmt: skip


def _traffic_scenarios() -> dict[str, Scenario]:
    # Not at the top, because that module imports this one.
    from weir_tests.topo import traffic_scenarios

    return traffic_scenarios.SCENARIOS


if __name__ == "__main__":
    if sys.argv[1] not in SCENARIOS:
        SCENARIOS.update(_traffic_scenarios())
    inside(main)
