# SPDX-License-Identifier: Apache-2.0
"""Reads the rest of TCP flows on the hosts of a testbed: :mod:`weir.topo.draining`, one process per host."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from weir.topo.draining import DRAIN_LIMIT_S
from weir.topo.hosts import Hosts, Receiver
from weir.topo.program import ProcessError, Program
from weir.topo.stop import StopToken

_READY_S = 15.0
_SAID = re.compile(r"^(drained|lost) (.*)$")


class RemoteDraining:
    """A context manager around the flows; `finish` waits until all are drained."""

    def __init__(self, hosts: Hosts, receivers: Sequence[Receiver], logs: Path) -> None:
        """Start a process on each receiving host."""
        self._flows: dict[str, list[str]] = {}
        self._programs: dict[str, Program] = {}
        for host in dict.fromkeys(receiver.host for receiver in receivers):
            of_host = [one for one in receivers if one.host == host]
            self._flows[host] = [one.flow for one in of_host]
            first = of_host[0].flow.replace("/", "-")
            config = logs / f"draining-{first}-{host}.json"
            config.write_text(json.dumps([[one.flow, one.pid, *one.sender] for one in of_host]))
            self._programs[host] = hosts.start_python(
                host,
                f"draining on {host}",
                "weir.topo.draining",
                [],
                config.with_suffix(".log"),
                stdin=config,
            )

    def finish(self, names: Iterable[str], stop: StopToken, limit_s: float = DRAIN_LIMIT_S) -> list[str]:
        """Wait until these flows have ended; returns those that have not after `limit_s`."""
        wanted, undrained = set(names), set()
        give_up = time.monotonic() + limit_s
        for host, program in self._programs.items():
            left = wanted & set(self._flows[host])
            while left:
                try:
                    match = program.wait_line(_SAID.pattern, max(0.0, give_up - time.monotonic()), stop)
                except ProcessError:
                    undrained |= left
                    break
                left.discard(match[2])
                if match[1] == "lost" and match[2] in wanted:
                    undrained.add(match[2])
        return sorted(undrained)

    def __enter__(self) -> Self:
        """Wait until all of them search. Raises ProcessError."""
        for program in self._programs.values():
            program.wait_line("^ready", _READY_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the processes, and with them their sockets."""
        for program in self._programs.values():
            program.send_signal(signal.SIGTERM)
        for program in self._programs.values():
            program.stop()
