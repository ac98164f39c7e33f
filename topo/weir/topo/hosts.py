# SPDX-License-Identifier: Apache-2.0
"""The hosts of an experiment, wherever they are: namespaces of this machine, or machines of a testbed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from weir.topo.line import Line
from weir.topo.program import Program
from weir.topo.stop import StopToken


class TestbedError(Exception):
    """Hosts cannot be built or used; the text has the host and what would be valid."""

    __test__ = False  # not a pytest class, although its name begins with Test


@dataclass(frozen=True)
class HostPort:
    """A host, and the switch port that it is connected to.

    `namespace` and `switch_interface` are those of a host on this machine; empty for others.
    """

    name: str
    namespace: str
    interface: str
    address: str
    mac: str
    switch_interface: str
    switch_port: int
    address6: str | None = None
    line: Line | None = None

    def ip(self, version: int) -> str:
        """Its address of an IP version. Raises TestbedError if it has none."""
        address = self.address if version == 4 else self.address6
        if address is None:
            raise TestbedError(f"host {self.name!r} has no IPv6 address; valid: give it one")
        return address


@dataclass(frozen=True)
class Receiver:
    """The receiving side of a TCP flow: its running server, and the address of its sender."""

    flow: str
    host: str
    pid: int
    sender: tuple[str, int]
    greedy: bool
    """Its sender always has more data."""


@dataclass(frozen=True)
class Fetched:
    """A file that came from another machine: its bytes there, and those that came in its place."""

    size: int
    travelled: int


class Drains(Protocol):
    """Reads what TCP flows still receive after their servers have exited, as long as the context."""

    def finish(self, names: Iterable[str], stop: StopToken) -> list[str]:
        """Wait until these flows have ended; returns those that have not within the limit.

        Raises what `StopToken.raise_if_stopped` raises.
        """
        ...

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the connections that are still open."""
        ...


class Hosts(Protocol):
    """Starts programs on hosts, and sets what they need of the kernel."""

    @property
    def hosts(self) -> Mapping[str, HostPort]:
        """The hosts by name."""
        ...

    @property
    def virtual_time(self) -> bool:
        """Whether processing takes no time, so that traffic programs avoid needless wake-ups."""
        ...

    def host(self, name: str) -> HostPort:
        """The host with that name. Raises TestbedError with the names that exist."""
        ...

    def start(
        self,
        host: str,
        name: str,
        argv: Sequence[str],
        log: Path,
        *,
        stdin: Path | None = None,
        awaited: bool = True,
    ) -> Program:
        """Start a program that is on the host's PATH; messages use `name`.

        `stdin` is a file of this machine. Raises ToolMissingError or ProcessError.
        """
        ...

    def start_python(
        self, host: str, name: str, module: str, arguments: Sequence[str], log: Path, *, stdin: Path
    ) -> Program:
        """Start a module with `run()` that imports only the standard library. Raises ProcessError."""
        ...

    def output(self, host: str, path: Path) -> str:
        """The name under which a program on the host writes the file that `fetch` brings to `path`."""
        ...

    def fetch(self, host: str, path: Path, *, headers_only: bool = False) -> Fetched | None:
        """Bring a file of the host, which no program writes any more, to `path`; None if it is there already.

        With `headers_only` it is a capture, whose payload need not come from another machine. Raises
        ProcessError.
        """
        ...

    def is_root(self, host: str) -> bool:
        """Whether programs run as root there."""
        ...

    def time_stamps(self, host: str) -> str | None:
        """Type of time stamps that tcpdump asks for (pcap-tstamp(7)); None for its default, the kernel's."""
        ...

    def draining(self, receivers: Sequence[Receiver], logs: Path) -> Drains:
        """What reads the rest of these flows."""
        ...

    def check_congestion_controls(self, wanted: Mapping[str, set[str]]) -> None:
        """Raise TestbedError if a host lacks a congestion control; `wanted` is host → names."""
        ...

    def set_sysctls(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        """Set sysctls of hosts; `wanted` is host → name, such as net.ipv4.tcp_ecn → value.

        Raises TestbedError if the kernel lacks one, or refuses its value.
        """
        ...

    def silence(self) -> None:
        """Stop all hosts from sending IP packets; packets in flight still arrive, are captured and delivered.

        TCP continues after its program has ended: sockets retransmit, flush and close. Call this after the
        last flow and before the captures end, or a packet could be in only one of two captures.
        """
        ...


# Per host: no TCP metrics are kept from earlier runs, and no buffer but the switch's limits a flow.
HOST_SYSCTLS = {
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_timestamps": "1",
    "net/ipv4/tcp_sack": "1",
    "net/ipv4/tcp_dsack": "1",
    "net/ipv4/tcp_window_scaling": "1",
    "net/ipv4/tcp_moderate_rcvbuf": "1",
    # Segments that wait for a lost one take more than their bytes: BBR at 1 Gbit/s over 100 ms outgrew 64 MB.
    "net/ipv4/tcp_rmem": "4096 131072 134217728",
    "net/ipv4/tcp_wmem": "4096 131072 67108864",
    # Many distributions enable the reverse path filter. A silenced host has no route, so the filter would
    # drop packets and reports in flight to it. The kernel uses the larger value of "all" and the interface's.
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/{interface}/rp_filter": "0",
    # For iperf3's control connections, which would otherwise depend on the machine's default.
    "net/ipv4/tcp_congestion_control": "reno",
    # Source ports of iperf3's control connections. Flows use lower ports, which the experiment assigns.
    "net/ipv4/ip_local_port_range": "50000 60999",
}
