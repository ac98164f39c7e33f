# SPDX-License-Identifier: Apache-2.0
"""Runs the experiment's TCP and UDP flows with iperf3: each flow has a separate server, ports and deadline.

iperf3 opens two connections per flow: a control connection from an ephemeral port (50000 and above, see
`testbed`) and the data connection, whose source port `--cport` sets. Only the latter is the flow. Its data
starts about five round trips after the launch: control handshake, parameters, data handshake.
"""

import itertools
import json
import selectors
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal

from weir.topo.hosts import Hosts, Receiver
from weir.topo.program import Program
from weir.topo.script import Script
from weir.topo.stop import StopToken
from weir.topo.tcpdiag import Connection

# Below the ephemeral range of the host namespaces; the two ranges do not overlap, so a port shows its role.
FIRST_DESTINATION_PORT = 5201
FIRST_SOURCE_PORT = 20_000
MAX_FLOWS = FIRST_SOURCE_PORT - FIRST_DESTINATION_PORT
MAX_SOURCE_OFFSET = 15_000

_SERVER_READY_S = 10.0
_CONNECT_S = 5.0
_LONGEST_CONNECT_MS = 2**31 - 1  # of iperf3
_LONGEST_SLEEP_S = 3600.0  # epoll_wait(2) takes 24 days at most
_INTERRUPT_GRACE_S = 2.0
_OUTPUT_S = 10.0
_LAST_MESSAGES = 3
"""Messages of iperf3's client after its test, each in answer to one of the server: end, results, done."""
_VIRTUAL_PACING_TIMER_US = 2000
"""Interval at which iperf3 compares its rate in virtual time: four system calls each. Its default is 1 ms."""
_VIRTUAL_DATAGRAM_BUFFER_BYTES = 1024
"""Buffer of a UDP socket in virtual time, which Linux raises to what one full datagram takes. Until time has
passed since its start, iperf3 takes its rate for 0 and sends on, and no time passes before the buffer is
full: with Linux's default, 212,992 bytes, most flows began with 48 datagrams at the rate of the line."""

FlowState = Literal["complete", "failed", "killed"]


class TrafficError(Exception):
    """The flows cannot be run; the text has the flow and what would be valid."""


class PortAllocator:
    """Allocates (source port, destination port) pairs, each port once per run."""

    def __init__(self, source_offset: int = 0) -> None:
        """Start with the first ports; source ports with one above, at most `MAX_SOURCE_OFFSET`."""
        self._numbers = itertools.count()
        self._source = FIRST_SOURCE_PORT + source_offset

    def next(self) -> tuple[int, int]:
        """The next pair. Raises TrafficError after `MAX_FLOWS` flows."""
        number = next(self._numbers)
        if number >= MAX_FLOWS:
            raise TrafficError(f"a run can have at most {MAX_FLOWS} flows")
        return self._source + number, FIRST_DESTINATION_PORT + number


@dataclass(frozen=True)
class FlowSpec:
    """One TCP flow, bulk or application-limited to `rate_bps`; or a UDP flow with a rate or a script.

    `congestion_control` None means UDP, in datagrams of `block_bytes`. `duration_s` is in whole seconds, as
    for iperf3. Ports come from a `PortAllocator`. `weir.topo.played` runs flows with a `script`, whose server
    is the source; iperf3 runs all others.
    """

    id: str
    source: str
    destination: str
    congestion_control: str | None
    source_port: int
    destination_port: int
    duration_s: int
    start_s: float = 0.0
    rate_bps: int | None = None
    block_bytes: int | None = None
    pacing_bps: int | None = None
    script: Script | None = None
    ip_version: int = 4
    message_s: float = 0.0
    """How long a message to its destination may take beyond the delay: queues, and loss on the way."""


@dataclass(frozen=True)
class FlowResult:
    """The result of one flow.

    `launched_ns` and `ended_ns` are CLOCK_REALTIME; `late_s` is the delay of the launch after its due time.
    `report` is the sender's JSON from iperf3, or the results of a script's ends in the same form, or None. A
    flow that has not ended by the end of the grace period after its duration is "killed".
    """

    flow: FlowSpec
    state: FlowState
    error: str | None
    launched_ns: int
    ended_ns: int
    late_s: float
    report: dict[str, Any] | None

    @property
    def bytes_sent(self) -> int | None:
        """Payload bytes that the sender wrote to its socket."""
        return _count(self.report, "sum_sent", "bytes")

    @property
    def bytes_received(self) -> int | None:
        """Payload bytes that the receiver read from its socket."""
        return _count(self.report, "sum_received", "bytes")

    @property
    def retransmits(self) -> int | None:
        """Segments that the sender's kernel retransmitted."""
        return _count(self.report, "sum_sent", "retransmits")


@dataclass(frozen=True)
class TrafficResult:
    """The results of all flows of a phase; `start_ns` (CLOCK_REALTIME) is the origin of `start_s`."""

    start_ns: int
    end_ns: int
    flows: tuple[FlowResult, ...]
    undrained: tuple[str, ...] = ()
    """TCP flows whose last data were not acknowledged within the drain limit."""

    @property
    def problems(self) -> list[str]:
        """One line per flow that did not complete."""
        return [f"flow {result.flow.id}: {result.error}" for result in self.flows if result.error is not None]

    @property
    def notes(self) -> list[str]:
        """One line per flow that did not end cleanly, so that losses of its last data are not known."""
        return [f"flow {name} was cut off with data on their way" for name in self.undrained]


def run_flows(
    hosts: Hosts,
    flows: Sequence[FlowSpec],
    log_folder: Path,
    stop: StopToken,
    *,
    grace_s: float = 10.0,
    on_start: Callable[[], None] = lambda: None,
) -> TrafficResult:
    """Run the flows, each from its `start_s` on, and wait for all of them; calls `on_start` when they start.

    Every flow ends at the latest `grace_s` seconds after its duration and the time that iperf3's messages may
    take before and after it; then the remaining data of TCP flows are drained, for at most
    `draining.DRAIN_LIMIT_S`. A flow that fails is a result, not an exception. Raises TrafficError or
    TestbedError for flows that cannot be run here, ProcessError if a server does not start, Interrupted if
    the run is stopped; no iperf3 is left running in any case.
    """
    check_flows(flows)
    for flow in flows:
        hosts.host(flow.destination)
    check_congestion_controls(hosts, flows)
    servers: list[Program] = []
    clients: list[_Client] = []
    try:
        for flow in flows:
            servers.append(_start_server(hosts, flow, log_folder))
        for server in servers:
            server.wait_line("Server listening", _SERVER_READY_S, stop)
        with hosts.draining(_receivers(hosts, flows, servers), log_folder) as draining:
            start_ns = time.time_ns()
            on_start()
            clients = _run_clients(hosts, flows, log_folder, stop, grace_s)
            results = tuple(client.result() for client in clients)
            whole = [r.flow.id for r in results if r.state == "complete" and r.flow.congestion_control]
            undrained = tuple(draining.finish(whole, stop))
        return TrafficResult(start_ns, time.time_ns(), results, undrained)
    finally:
        # A server ends after one test; end those that had none, or whose client was killed.
        for server in servers:
            server.send_signal(signal.SIGTERM)
        for server in servers:
            server.stop(grace_s=_INTERRUPT_GRACE_S)


def check_congestion_controls(hosts: Hosts, flows: Sequence[FlowSpec]) -> None:
    """Raise TestbedError if a flow's congestion control is unavailable; the text lists the available ones."""
    wanted: dict[str, set[str]] = {}
    for flow in flows:
        if flow.congestion_control is not None:
            wanted.setdefault(flow.source, set()).add(flow.congestion_control)
    hosts.check_congestion_controls(wanted)


def _receivers(hosts: Hosts, flows: Sequence[FlowSpec], servers: Sequence[Program]) -> list[Receiver]:
    """The receiving side of each TCP flow."""
    return [
        Receiver(
            flow.id,
            flow.destination,
            server.pid,
            (hosts.host(flow.source).ip(flow.ip_version), flow.source_port),
            greedy=flow.rate_bps is None,
        )
        for flow, server in zip(flows, servers, strict=True)
        if flow.congestion_control is not None
    ]


def data_connection(hosts: Hosts, flow: FlowSpec) -> Connection:
    """The data connection of a flow, from the sender's side."""
    source, destination = (
        ip_address(hosts.host(name).ip(flow.ip_version)).packed for name in (flow.source, flow.destination)
    )
    return source, flow.source_port, destination, flow.destination_port


def check_flows(flows: Sequence[FlowSpec]) -> None:
    """Raise TrafficError if two flows share a port of a host, or iperf3 could not run a flow."""
    servers: dict[tuple[str, int], str] = {}
    sources: dict[tuple[str, int], str] = {}
    for flow in flows:
        if flow.source == flow.destination:
            raise TrafficError(f"flow {flow.id}: source and destination are both {flow.source!r}")
        if flow.duration_s < 1:
            raise TrafficError(f"flow {flow.id}: duration is {flow.duration_s} s; it must be at least 1 s")
        if flow.start_s < 0:
            raise TrafficError(f"flow {flow.id}: start is {flow.start_s} s; it must not be negative")
        if flow.rate_bps is not None and flow.rate_bps < 1:
            raise TrafficError(f"flow {flow.id}: rate is {flow.rate_bps} bit/s; it must be positive")
        if flow.congestion_control is None and flow.rate_bps is None and flow.script is None:
            raise TrafficError(f"flow {flow.id}: UDP without a rate or a script; it must have one")
        for taken, host, port in (
            (servers, flow.destination, flow.destination_port),
            (sources, flow.source, flow.source_port),
        ):
            other = taken.setdefault((host, port), flow.id)
            if other != flow.id:
                raise TrafficError(f"flows {other} and {flow.id} both use port {port} of host {host}")


def _start_server(hosts: Hosts, flow: FlowSpec, log_folder: Path) -> Program:
    address = hosts.host(flow.destination).ip(flow.ip_version)
    argv = ["iperf3", "-s", "-1", "--forceflush", "-B", address, "-p", str(flow.destination_port)]
    log = log_folder / f"{file_name(flow)}-server.log"
    return hosts.start(flow.destination, f"iperf3 server of {flow.id}", argv, log)


def _connect_s(flow: FlowSpec) -> float:
    """How long connecting may take; TCP begins with a timeout of a second, twice that of `message_s`."""
    return max(_CONNECT_S, 2 * flow.message_s)


def _messages_s(flow: FlowSpec) -> float:
    """How long iperf3's messages may take before and after its test, beyond what every flow is granted."""
    return _connect_s(flow) - _CONNECT_S + _LAST_MESSAGES * flow.message_s


def client_arguments(flow: FlowSpec, destination_address: str) -> list[str]:
    """iperf3's arguments for the sending side."""
    argv = ["-c", destination_address, "-p", str(flow.destination_port), "--cport", str(flow.source_port)]
    argv += ["-u"] if flow.congestion_control is None else ["-C", flow.congestion_control]
    argv += ["-t", str(flow.duration_s), "-J"]
    argv += ["--connect-timeout", str(min(round(1000 * _connect_s(flow)), _LONGEST_CONNECT_MS))]
    if flow.rate_bps is not None:
        argv += ["-b", str(flow.rate_bps)]
    if flow.pacing_bps is not None:
        argv += ["--fq-rate", str(flow.pacing_bps)]
    if flow.block_bytes is not None:
        argv += ["-l", str(flow.block_bytes)]
    return argv


class _Client:
    """A running iperf3 client; its JSON goes to a file, so it cannot block on a full pipe."""

    def __init__(self, hosts: Hosts, flow: FlowSpec, due: float, log_folder: Path) -> None:
        self.flow = flow
        self.deadline = 0.0
        self._killed = False
        self._ended_ns = 0
        address = hosts.host(flow.destination).ip(flow.ip_version)
        argv = ["iperf3", *client_arguments(flow, address)]
        if hosts.virtual_time and flow.rate_bps is not None:
            argv += ["--pacing-timer", str(_VIRTUAL_PACING_TIMER_US)]
        if hosts.virtual_time and flow.congestion_control is None:
            argv += ["-w", str(_VIRTUAL_DATAGRAM_BUFFER_BYTES)]
        self._launched_ns = time.time_ns()
        self._late_s = time.monotonic() - due
        output = log_folder / f"{file_name(flow)}.json"
        self.program = hosts.start(flow.source, f"iperf3 of {flow.id}", argv, output, awaited=False)

    def kill(self) -> None:
        self._killed = True
        self.program.send_signal(signal.SIGKILL)

    def finish(self) -> None:
        """Reap the ended process."""
        self.program.wait()
        self._ended_ns = time.time_ns()

    def result(self) -> FlowResult:
        self.program.wait_output(_OUTPUT_S)
        text = self.program.log.read_text(errors="replace")
        report, error = read_report(self.flow, text, self.program.poll())
        state: FlowState = "complete" if error is None else "failed"
        if self._killed:
            state = "killed"
            error = f"did not end in time and was killed ({error or 'its report is whole'})"
        return FlowResult(self.flow, state, error, self._launched_ns, self._ended_ns, self._late_s, report)


def _run_clients(
    hosts: Hosts, flows: Sequence[FlowSpec], log_folder: Path, stop: StopToken, grace_s: float
) -> list[_Client]:
    begin = time.monotonic()
    waiting = sorted(flows, key=lambda flow: flow.start_s, reverse=True)
    running: dict[int, _Client] = {}
    ended: dict[str, _Client] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(stop, selectors.EVENT_READ)
        try:
            while waiting or running:
                now = time.monotonic()
                while waiting and begin + waiting[-1].start_s <= now:
                    flow = waiting.pop()
                    client = _Client(hosts, flow, begin + flow.start_s, log_folder)
                    client.deadline = now + flow.duration_s + grace_s + _messages_s(flow)
                    running[client.program.fileno()] = client
                    selector.register(client.program, selectors.EVENT_READ)
                    now = time.monotonic()
                wake_ups = [client.deadline for client in running.values()]
                if waiting:
                    wake_ups.append(begin + waiting[-1].start_s)
                for key, _events in selector.select(min(max(0.0, min(wake_ups) - now), _LONGEST_SLEEP_S)):
                    stop.raise_if_stopped()
                    selector.unregister(key.fd)
                    client = running.pop(key.fd)
                    client.finish()
                    ended[client.flow.id] = client
                for client in running.values():
                    if time.monotonic() >= client.deadline:
                        client.kill()
                        # SIGKILL cannot be ignored; a later deadline only avoids sending it in every round.
                        client.deadline += _INTERRUPT_GRACE_S
        finally:
            _end_clients(list(running.values()))
    return [ended[flow.id] for flow in flows]


def _end_clients(clients: list[_Client]) -> None:
    for client in clients:
        client.program.send_signal(signal.SIGINT)
    give_up = time.monotonic() + _INTERRUPT_GRACE_S
    for client in clients:
        if client.program.wait(max(0.0, give_up - time.monotonic())) is None:
            client.kill()
        client.program.wait(_INTERRUPT_GRACE_S)


def read_report(flow: FlowSpec, text: str, exit_code: int | None) -> tuple[dict[str, Any] | None, str | None]:
    """iperf3's JSON, and an error or None.

    Checks that the data connection had the flow's ports and congestion control, because every later result
    identifies the flow by them.
    """
    # iperf3 prints warnings about large datagrams before its report.
    warnings = itertools.takewhile(lambda line: line.startswith("warning: "), text.splitlines(keepends=True))
    text = text[sum(map(len, warnings)) :]
    try:
        report = json.loads(text)
    except json.JSONDecodeError:
        said = text.strip()[-300:] or "nothing"
        return None, f"iperf3 gave no report (exit code {exit_code}); it said: {said}"
    if not isinstance(report, dict):
        return None, f"iperf3's report is not a JSON object but {text.strip()[:80]}"
    if report.get("error"):
        return report, f"iperf3: {report['error']}"
    if exit_code != 0:
        return report, f"iperf3 ended with exit code {exit_code}"
    connected = (report.get("start") or {}).get("connected") or [{}]
    ports = (connected[0].get("local_port"), connected[0].get("remote_port"))
    if ports != (flow.source_port, flow.destination_port):
        return report, (
            f"the data connection used ports {ports[0]} to {ports[1]} "
            f"instead of {flow.source_port} to {flow.destination_port}"
        )
    used = _nested(report, "end", "sender_tcp_congestion")
    if flow.congestion_control is not None and used != flow.congestion_control:
        return report, f"the sender used congestion control {used!r} instead of {flow.congestion_control!r}"
    return report, None


def _nested(report: dict[str, Any] | None, *keys: str) -> Any:
    value: Any = report
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _count(report: dict[str, Any] | None, *keys: str) -> int | None:
    value = _nested(report, "end", *keys)
    return int(value) if value is not None else None


def file_name(flow: FlowSpec) -> str:
    """The prefix of a flow's file names."""
    return "flow-" + flow.id.replace("/", "-")
