# SPDX-License-Identifier: Apache-2.0
"""The hosts of a testbed as :class:`weir.topo.hosts.Hosts`: set up, used, and put back as they were.

this process                                     host
thread of the run ── calls ──► thread with       sshd ── helper (weir.testbed.remote.helper)
                               asyncio, asyncssh           └── iperf3, tcpdump, …
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Coroutine, Mapping, Sequence
from ipaddress import ip_address, ip_interface
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from weir.controlplane.attach import SUBNET
from weir.controlplane.config import COLLECTOR
from weir.rundir.plural import plural
from weir.testbed.clock import ClockReading
from weir.testbed.connection import connect
from weir.testbed.control import HostControl, control
from weir.testbed.draining import RemoteDraining
from weir.testbed.errors import ChangeError, CommandError, HostError
from weir.testbed.features import nic_time_stamps
from weir.testbed.fetching import fetch
from weir.testbed.inventory import TestbedConfig
from weir.testbed.program import RemoteProgram
from weir.testbed.scripts import module_command
from weir.topo.hosts import HOST_SYSCTLS, Fetched, HostPort, Receiver, TestbedError
from weir.topo.program import ProcessError, Program
from weir.topo.stop import StopToken

TOOLS = ["iperf3", "tcpdump", "ethtool", "gzip"]
PREFIX = "run-"
"""Begins the names of a run's files in the work folder."""
FULL_BYTES = 2**20
"""A disk with less space is full: tcpdump writes in blocks."""
_THREAD_S = 10.0

_T = TypeVar("_T")


class RemoteHosts:
    """Hosts that are changed for one run; a context manager that always puts them back.

    When a host is lost, the run's `stop` token fails, until its capture is fetched.
    """

    virtual_time = False

    def __init__(
        self,
        testbed: TestbedConfig,
        addresses: Mapping[str, str | None],
        stop: StopToken,
        addresses6: Mapping[str, str] | None = None,
    ) -> None:
        """Take hosts by name, with the IPv4 address that the experiment wants; nothing is done yet.

        `addresses6` has the IPv6 addresses of hosts that have one, with prefix lengths.
        """
        self._testbed, self._addresses, self._stop = testbed, addresses, stop
        self._addresses6 = addresses6 or {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="testbed", daemon=True)
        self._helpers: dict[str, HostControl] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._ending = asyncio.Event()
        self._fetching: set[str] = set()
        self._numbers = itertools.count(1)
        self._problems: list[HostError] = []
        self._ports: dict[str, HostPort] = {}
        self._time_stamps: dict[str, str] = {}
        self.notes: list[str] = []
        """What the reader of the run should know of the hosts."""
        self.clocks: dict[str, list[ClockReading]] = {name: [] for name in addresses}
        """Each host's clock against this machine's, as read so far."""

    def __enter__(self) -> Self:
        """Connect to all hosts and set them up, at the same time. Raises HostError; all is put back then."""
        self._thread.start()
        try:
            self._call(self._connect_all())
            self.read_clocks()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Put everything back, and disconnect. Raises HostError for what could not be put back."""
        self._end()
        if not self._problems:
            return
        if error is None:
            raise self._problems[0]
        for problem in self._problems:
            if str(problem) != str(error):
                error.add_note(str(problem))

    @property
    def hosts(self) -> Mapping[str, HostPort]:
        """The hosts by name."""
        return self._ports

    def host(self, name: str) -> HostPort:
        """The host with that name. Raises TestbedError with the names that exist."""
        if name not in self._ports:
            raise TestbedError(f"there is no host {name!r}; hosts are: {', '.join(self._ports)}")
        return self._ports[name]

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
        """Start a program that is on the host's PATH, in its work folder."""
        writes = any(word.startswith(PREFIX) for word in argv)
        return RemoteProgram(
            name,
            log,
            self._helpers[host],
            f"{next(self._numbers)} {name}",
            argv,
            self._loop,
            stdin="" if stdin is None else stdin.read_text(),
            limit_bytes=self._testbed.hosts[host].disk_limit if writes else None,
        )

    def start_python(
        self, host: str, name: str, module: str, arguments: Sequence[str], log: Path, *, stdin: Path
    ) -> Program:
        """Start a module, whose text travels with the command."""
        return self.start(host, name, module_command(module, arguments), log, stdin=stdin)

    def output(self, host: str, path: Path) -> str:
        """A name in the work folder, where programs of the host are started."""
        return f"{PREFIX}{path.name}"

    def fetch(self, host: str, path: Path, *, headers_only: bool = False) -> Fetched:
        """Bring a file, compressed or reduced there; a lost connection is made anew. Raises ProcessError."""
        self._fetching.add(host)
        name = self.output(host, path)
        try:
            return self._call(fetch(name, path, lambda: self._helper(host), headers_only=headers_only))
        except HostError as error:
            raise ProcessError(f"{name} was not fetched: {error}") from error

    def is_root(self, host: str) -> bool:
        """Whether the helper runs as root there."""
        return self._helpers[host].start_report.uid == 0

    def time_stamps(self, host: str) -> str | None:
        """tcpdump's name of the time stamps of the host's network card, if the inventory wants them."""
        return self._time_stamps.get(host)

    def draining(self, receivers: Sequence[Receiver], logs: Path) -> RemoteDraining:
        """What reads the rest of these flows, on their hosts."""
        return RemoteDraining(self, receivers, logs)

    def check_congestion_controls(self, wanted: Mapping[str, set[str]]) -> None:
        """Raise TestbedError if a host lacks a congestion control; `wanted` is host → names."""
        for host, names in wanted.items():
            for name in sorted(names):
                problem = self._ask(host, "congestion_problem", name=name)
                if problem is not None:
                    raise TestbedError(f"host {host}: {problem}")

    def set_sysctls(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        """Set sysctls of hosts; `wanted` is host → name → value. Raises HostError."""
        for host, values in wanted.items():
            for name, value in values.items():
                self._call(self._helpers[host].set_sysctl(name, value))

    def silence(self) -> None:
        """Make the experiment's network unreachable for all hosts. Raises HostError."""
        for name, port in self._ports.items():
            for address in (self._with_prefix(name), self._addresses6.get(name)):
                if address is not None:
                    self._call(self._helpers[name].silence(port.interface, address))

    def counters(self) -> dict[str, dict[str, int]]:
        """The kernel's counters of each host's interface. Raises HostError."""
        return {
            name: self._ask(name, "counters", interface=port.interface) for name, port in self._ports.items()
        }

    def check_disks(self) -> None:
        """Raise ProcessError for a host whose disk is full: tcpdump does not tell that it loses packets."""
        for name in self._ports:
            free = self._ask(name, "free")
            if free < FULL_BYTES:
                folder = self._helpers[name].start_report.folder
                raise ProcessError(f"{name}: {free} bytes are free in {folder}; valid: more space")

    def read_clocks(self) -> None:
        """Compare each host's clock with this machine's. Raises HostError."""
        for name in self._addresses:
            self.clocks[name].append(self._call(self._helpers[name].clock()))

    def _ask(self, host: str, do: str, **values: Any) -> Any:
        return self._call(self._helpers[host].ask(do, **values))

    def _call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _with_prefix(self, name: str) -> str:
        """The address of a host's interface with its prefix length."""
        entry = self._testbed.hosts[name].address
        return entry or f"{self._addresses[name]}/{SUBNET.prefixlen}"

    async def _connect_all(self) -> None:
        """Connect to all, then report the first failure in the order of the file."""
        names = list(self._addresses)
        found = await asyncio.gather(*(self._set_up(name) for name in names), return_exceptions=True)
        for problem in found:
            if isinstance(problem, BaseException):
                raise problem
        macs: dict[str, str] = {}
        for name in names:
            port = self._ports[name]
            other = macs.setdefault(port.mac, name)
            if other != name:
                raise ChangeError(name, f"its interface has the MAC address {port.mac} of {other}'s")
        for name in names:
            if name != COLLECTOR:  # it sends nothing
                await self._check_ways(name)
        for name in self._addresses6:
            for other in self._addresses6.keys() - {name}:
                port, address = self._ports[other], ip_interface(self._addresses6[other]).ip
                await self._helpers[name].add_neighbour(self._ports[name].interface, str(address), port.mac)

    async def _check_ways(self, name: str) -> None:
        """Raise ChangeError if the host reaches another one in another way than by its interface."""
        others = [port for other, port in self._ports.items() if other not in (name, COLLECTOR)]
        addresses = [port.address for port in others]
        if name in self._addresses6:
            addresses += [port.address6 for port in others if port.address6 is not None]
        found = await self._helpers[name].ask("ways", addresses=addresses)
        for address, interface in zip(addresses, found, strict=True):
            if interface != self._ports[name].interface:
                raise ChangeError(
                    name,
                    f"its packets to {address} would not leave by {self._ports[name].interface} but by "
                    f"{interface or 'no interface'}, whose network it is too; valid: addresses of a network "
                    "of their own (address of the inventory)",
                )

    async def _helper(self, name: str) -> HostControl:
        """The helper of a host, newly connected if the last connection is lost. Raises HostError."""
        if not self._helpers[name].is_over:
            return self._helpers[name]
        await self._serving[name]
        return await self._connect(name)

    async def _connect(self, name: str) -> HostControl:
        ready: asyncio.Future[HostControl] = asyncio.get_running_loop().create_future()
        self._serving[name] = asyncio.create_task(self._serve(name, ready))
        self._helpers[name] = await ready
        return self._helpers[name]

    async def _serve(self, name: str, ready: asyncio.Future[HostControl]) -> None:
        """Hold the connection to a host until the end of the run, or its own."""
        entry, privileges = self._testbed.hosts[name], self._testbed.privileges_of(name)
        try:
            async with (
                connect(name, self._testbed.ssh_of(name)) as connection,
                control(connection, entry, privileges) as helper,
            ):
                ready.set_result(helper)
                ended = asyncio.ensure_future(self._ending.wait())
                over = asyncio.ensure_future(helper.wait_over())
                await asyncio.wait([ended, over], return_when=asyncio.FIRST_COMPLETED)
                for task in (ended, over):
                    task.cancel()
                if helper.is_over:
                    self._lost(name, helper.lost())
        except Exception as error:
            if not ready.done():  # whoever waits for it would wait for ever
                ready.set_exception(error)
            elif isinstance(error, HostError):
                self._problems.append(error)
            else:
                raise

    def _lost(self, name: str, error: HostError) -> None:
        if name not in self._fetching and not self._ending.is_set():
            self._stop.fail(error)

    async def _set_up(self, name: str) -> None:
        helper = await self._connect(name)
        entry = self._testbed.hosts[name]
        report = helper.start_report
        if report.undone:
            self.notes.append(f"{name}: changes of an earlier run are undone: {', '.join(report.undone)}")
        if report.left:
            self.notes.append(f"{name}: changes of an earlier run are left: {', '.join(report.left)}")
        missing = await helper.ask("missing", names=TOOLS)
        if missing:
            raise CommandError(
                name,
                f"{', '.join(missing)} not installed; valid: sudo apt-get install {' '.join(missing)} "
                "(`weir doctor --testbed` checks everything)",
            )
        lacks = await helper.ask("iperf3_lacks")
        if lacks:
            raise CommandError(
                name, f"its iperf3 has no {', '.join(lacks)}; valid: a newer version of iperf3"
            )
        left = await helper.ask("delete", prefix=PREFIX)
        if left:
            self.notes.append(
                f"{name}: {plural(left, 'file of an earlier run is', 'files of an earlier run are')} deleted"
            )
        free = await helper.ask("free")
        if free < entry.disk_limit:
            raise ChangeError(
                name,
                f"{free / 1e6:.0f} MB are free in {report.folder}, less than disk_limit "
                f"({entry.disk_limit / 1e6:.0f} MB); valid: more space, or another work_folder",
            )
        interface = await helper.ask("interface", interface=entry.interface)
        if "UP" not in interface["flags"]:
            raise ChangeError(name, f"{entry.interface} is down; valid: ip link set {entry.interface} up")
        if entry.mac is not None and entry.mac != interface["mac"]:
            raise ChangeError(
                name,
                f"{entry.interface} has the MAC address {interface['mac']}, not {entry.mac} of the "
                "inventory; valid: leave mac out",
            )
        if entry.time_stamps == "nic":
            shown = await helper.ask("time_stamp_types", interface=entry.interface)
            found = nic_time_stamps(shown)
            if found is None:
                raise ChangeError(
                    name, f"{entry.interface} makes no time stamps of its own; valid: time_stamps: host"
                )
            self._time_stamps[name] = found
        address6 = self._addresses6.get(name)
        for wanted in filter(None, (self._with_prefix(name), address6)):
            for one in helper.control_addresses:
                if ip_address(one) in ip_interface(wanted).network:
                    raise ChangeError(
                        name,
                        f"the SSH connection uses {one}, which is in the network of {wanted} of "
                        f"{entry.interface}: replies would go to the switch; valid: an address in another "
                        "network, such as 10.77.0.1/24 (address of the inventory)",
                    )
        await helper.add_address(entry.interface, self._with_prefix(name))
        if address6 is not None:
            await helper.set_sysctl(f"net/ipv6/conf/{entry.interface}/disable_ipv6", "0")
            await helper.add_address(entry.interface, address6)
        await helper.turn_offloads_off(entry.interface)
        for sysctl, value in HOST_SYSCTLS.items():
            await helper.set_sysctl(sysctl.format(interface=entry.interface), value)
        self._ports[name] = HostPort(
            name=name,
            namespace="",
            interface=entry.interface,
            address=str(ip_interface(self._with_prefix(name)).ip),
            mac=interface["mac"],
            switch_interface="",
            switch_port=entry.switch_port,
            address6=None if address6 is None else str(ip_interface(address6).ip),
        )

    def _end(self) -> None:
        async def end() -> None:
            for helper in self._helpers.values():
                if not helper.is_over:
                    with contextlib.suppress(HostError):
                        await helper.ask("delete", prefix=PREFIX)
            self._ending.set()
            await asyncio.gather(*self._serving.values(), return_exceptions=True)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_THREAD_S)
