# SPDX-License-Identifier: Apache-2.0
"""Flows that follow a script: application-limited sources and replays of recorded traffic, over TCP or UDP.

The flow's source is the script's server, its destination the client, which connects. The script defines when
and how much each side writes (zeros); the kernel transmits it.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weir.topo.draining import DRAIN_LIMIT_S
from weir.topo.hosts import Hosts
from weir.topo.process import StartedTogether
from weir.topo.program import ProcessError, Program
from weir.topo.script import Script, Side
from weir.topo.stop import StopToken
from weir.topo.traffic import (
    FlowResult,
    FlowSpec,
    TrafficError,
    check_congestion_controls,
    check_flows,
    file_name,
)

_READY_S = 15.0
_CONNECT_S = 5.0
_END_GRACE_S = DRAIN_LIMIT_S + 10.0
_CLIENT_GRACE_S = 1.0
_POLL_S = 0.05


class PlayedTraffic(StartedTogether):
    """The processes of scripted flows; a context manager that always ends them.

    After construction they listen; `go` makes them connect, or send their datagrams.
    """

    def __init__(self, hosts: Hosts, flows: Sequence[FlowSpec], folder: Path, stop: StopToken) -> None:
        """Start them. Raises TrafficError, ProcessError, TestbedError for a missing congestion control."""
        super().__init__()
        check_flows(flows)
        check_congestion_controls(hosts, flows)
        self._hosts, self._flows, self._folder, self._stop = hosts, flows, folder, stop
        self._begin, self._begin_ns = time.monotonic(), time.time_ns()
        self._servers: list[Program] = []
        self._clients: list[Program] = []
        self._folder.mkdir(parents=True, exist_ok=True)
        sides: tuple[tuple[Side, list[Program]], ...] = (
            ("server", self._servers),
            ("client", self._clients),
        )
        try:
            for side, processes in sides:
                processes += [self._start(flow, side) for flow in flows]
                for process in processes:
                    process.wait_line("ready", _READY_S, stop)
        except BaseException:
            self._end()
            raise

    def _start(self, flow: FlowSpec, side: Side) -> Program:
        protocol = "udp" if flow.congestion_control is None else "tcp"
        if flow.script is None or flow.script.protocol != protocol:
            raise TrafficError(f"flow {flow.id} has no script of {protocol}; valid: a flow with one")
        ends = {
            "server": (flow.source, flow.source_port),
            "client": (flow.destination, flow.destination_port),
        }
        host, own_port = ends[side]
        peer, port = ends["client" if side == "server" else "server"]
        config = self._folder / f"{file_name(flow)}-{side}-config.json"
        blocks = [{"after": block.after_bytes, "writes": block.writes} for block in flow.script.of(side)]
        config.write_text(
            json.dumps(
                {
                    "own_address": self._hosts.host(host).ip(flow.ip_version),
                    "own_port": own_port,
                    "address": self._hosts.host(peer).ip(flow.ip_version),
                    "port": port,
                    "congestion_control": flow.congestion_control,
                    "pacing_bytes_per_s": None if flow.pacing_bps is None else flow.pacing_bps // 8,
                    "start_s": flow.start_s,
                    "connect_s": _CONNECT_S,
                    "drain_s": DRAIN_LIMIT_S,
                    "peer_bytes": flow.script.bytes_of("client" if side == "server" else "server"),
                    # Over TCP only the server has a limit; its FIN ends the client. Two limits would race.
                    "limit_s": flow.duration_s if side == "server" or protocol == "udp" else None,
                    "last_s": flow.script.last_s,
                    "blocks": blocks,
                }
            )
        )
        process = self._hosts.start_python(
            host,
            f"{side} of {flow.id}",
            "weir.topo.played_process",
            [side],
            self._folder / f"{file_name(flow)}-{side}.log",
            stdin=config,
        )
        self._started.append(process)
        return process

    def go(self) -> None:
        """Start the flows' clock."""
        self._begin, self._begin_ns = time.monotonic(), time.time_ns()
        for flow, server, client in zip(self._flows, self._servers, self._clients, strict=True):
            client.send_signal(signal.SIGUSR1)
            if flow.congestion_control is None:
                server.send_signal(signal.SIGUSR1)

    def finish(self) -> list[FlowResult]:
        """Wait for all flows and return their results. Raises Interrupted when told to stop.

        A flow that does not end in time is stopped, and its state is "killed".
        """
        ends_s = [flow.start_s + flow.duration_s + _END_GRACE_S for flow in self._flows]
        late = [
            not self._wait(server, self._begin + end_s)
            for server, end_s in zip(self._servers, ends_s, strict=True)
        ]
        results = []
        for flow, server, client, is_late in zip(
            self._flows, self._servers, self._clients, late, strict=True
        ):
            # A policer may have dropped the server's RST, and the server's datagrams may still be in flight.
            grace_s = _CLIENT_GRACE_S if flow.congestion_control is not None else DRAIN_LIMIT_S
            self._wait(client, time.monotonic() + grace_s)
            for process in (server, client):
                process.stop()
            results.append(self._result(flow, server, client, is_late))
        return results

    def _wait(self, process: Program, give_up: float) -> bool:
        while process.poll() is None:
            if time.monotonic() >= give_up:
                return False
            self._stop.sleep(_POLL_S)
        return True

    def _result(self, flow: FlowSpec, serving: Program, asking: Program, killed: bool) -> FlowResult:
        server, client = _result_of(serving), _result_of(asking)
        error = server.get("error") or client.get("error")
        used = server.get("congestion_control")  # None for UDP
        if error is None and used != flow.congestion_control:
            error = f"the sender used congestion control {used!r} instead of {flow.congestion_control!r}"
        if killed:
            error = f"did not end in time and was killed ({error or 'nothing else was wrong'})"
        script = flow.script or Script(())
        report = {
            "end": {
                "sum_sent": {"bytes": server.get("sent_bytes", 0)},
                "sum_received": {"bytes": client.get("received_bytes", 0)},
            },
            "script": {
                **script.about,
                "sha256": script.sha256,
                "server_bytes": script.bytes_of("server"),
                "client_bytes": script.bytes_of("client"),
                "whole": bool(server.get("whole") and client.get("whole")),
                "writes": server.get("writes", 0) + client.get("writes", 0),
                "client_bytes_sent": client.get("sent_bytes", 0),
                "late_max_s": server.get("late_max_s"),
            },
        }
        return FlowResult(
            flow=flow,
            state="killed" if killed else "complete" if error is None else "failed",
            error=error,
            launched_ns=self._begin_ns + round(flow.start_s * 1e9),
            ended_ns=max(server.get("ended_ns", 0), client.get("ended_ns", 0)) or time.time_ns(),
            late_s=client.get("start_late_s", 0.0),
            report=report,
        )


def _result_of(program: Program) -> dict[str, Any]:
    """The result that one side printed when it ended; an error if it was killed or crashed before."""
    try:
        found: dict[str, Any] = json.loads(program.wait_line(r"^result (.*)", _READY_S).group(1))
    except ProcessError:
        return {"error": f"the {program.name} said nothing; its log is {program.log.name}"}
    return found
