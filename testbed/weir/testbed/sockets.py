# SPDX-License-Identifier: Apache-2.0
"""Samples of TCP sockets on hosts of a testbed: :mod:`weir.topo.tcpdiag`, one process per sending host."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from weir.topo.hosts import Hosts
from weir.topo.program import Program
from weir.topo.sockets import DEFAULT_INTERVAL_S, write_samples
from weir.topo.tcpdiag import TcpInfo
from weir.topo.traffic import FlowSpec, data_connection


class RemoteSocketSampler:
    """A context manager; `stop` writes `sockets.parquet`, with the time of each host's own clock."""

    def __init__(self, hosts: Hosts, path: Path, *, interval_s: float = DEFAULT_INTERVAL_S) -> None:
        """Prepare; nothing runs yet."""
        self._hosts, self._path, self._interval_s = hosts, path, interval_s
        self._logs: list[tuple[str, Path]] = []
        self._programs: list[Program] = []

    def watch(self, flows: Iterable[FlowSpec]) -> None:
        """Sample these TCP flows from now on, in place of the previous ones."""
        self._check()
        connections: dict[str, set[tuple[str, int, str, int]]] = {}
        for flow in (flow for flow in flows if flow.congestion_control is not None):
            source, port, destination, to = data_connection(self._hosts, flow)
            key = (source.hex(), port, destination.hex(), to)
            connections.setdefault(flow.source, set()).add(key)
        folder = self._path.parent / "logs"
        for host, found in connections.items():
            config = folder / f"sockets-{len(self._logs)}-{host}.json"
            config.write_text(json.dumps({"interval_s": self._interval_s, "connections": sorted(found)}))
            log = config.with_suffix(".log")
            self._programs.append(
                self._hosts.start_python(
                    host, f"socket sampler of {host}", "weir.topo.tcpdiag", [], log, stdin=config
                )
            )
            self._logs.append((host, log))

    def stop(self) -> None:
        """End sampling and write the file; the samples of the logs are then deleted."""
        self._check()
        write_samples(self._path, (sample for host, log in self._logs for sample in _samples(host, log)))
        for _, log in self._logs:
            log.unlink()

    def __enter__(self) -> Self:
        """Nothing: `watch` begins."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the processes."""
        self._end()

    def _end(self) -> None:
        for program in self._programs:
            program.stop()
        self._programs = []

    def _check(self) -> None:
        for program in self._programs:
            if program.stop() != 0:
                raise program.error(f"ended with exit code {program.poll()}")


def _samples(host: str, log: Path) -> Iterator[tuple[int, str, TcpInfo]]:
    with log.open() as lines:
        for line in lines:
            time_ns, fields = json.loads(line)
            yield time_ns, host, _info(fields)


def _info(fields: dict[str, Any]) -> TcpInfo:
    source, port, destination, to = fields.pop("connection")
    return TcpInfo(connection=(bytes.fromhex(source), port, bytes.fromhex(destination), to), **fields)
