# SPDX-License-Identifier: Apache-2.0
"""Hosts as network namespaces, each wired to the switch by a veth pair without offloads.

namespace server1         namespace server2         namespace collector
┌────────────────┐        ┌────────────────┐        ┌────────────────┐
│ eth0           │        │ eth0           │        │ eth0           │
│ 10.0.0.2/24    │        │ 10.0.0.3/24    │        │ 10.0.0.9/24    │
└──────┬─────────┘        └──────┬─────────┘        └──────┬─────────┘
       │ veth                    │ veth                    │ veth
┌──────┴─────────────────────────┴─────────────────────────┴─────────┐
│    weir1 (no address)        weir2                    weir3        │
│    the sandbox's root namespace: the switch owns these ends,       │
│    port N is interface weirN; P4Runtime listens on its loopback    │
└────────────────────────────────────────────────────────────────────┘
"""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from weir.topo.congestion import congestion_problem
from weir.topo.draining import Draining
from weir.topo.hosts import HOST_SYSCTLS, HostPort, Receiver, TestbedError
from weir.topo.line import Line
from weir.topo.linux import NETNS_FOLDER, in_network_namespace
from weir.topo.process import LoggedProcess, ProcessError, bare_python, run_tool
from weir.topo.program import Program
from weir.topo.receive_queue import SHOW_QUEUES, QueueCounts, ReceiveQueue, queue_counts
from weir.topo.sandbox import is_inside
from weir.topo.tools import find_tool

SUBNET = IPv4Network("10.0.0.0/24")
MTU_BYTES = 1500
HOST_INTERFACE = "eth0"
_LINK_ACTIVE_S = 10.0
_LINK_POLL_S = 0.01
# tc-fq(8). The limits in packets are out of reach: the switch gives frames 1 ms ahead. By default a frame may
# leave 10 µs after its time.
_KEEP_DEPARTURES = "qdisc replace dev {} root fq limit 1000000 flow_limit 1000000 timer_slack 0\n"

# Offloads that must be off so that switch and captures see frames as on a wire: no larger than the MTU, with
# checksums filled in. Short names are those of `ethtool -K`, long names those of `ethtool --json -k`.
_OFFLOADS = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "tx": "tx-checksumming",
    "rx": "rx-checksumming",
    "sg": "scatter-gather",
    # With them, veth keeps 802.1Q tags in metadata and not in the frame, where AF_PACKET readers look.
    "txvlan": "tx-vlan-offload",
    "rxvlan": "rx-vlan-offload",
}

# Receivers count the first two, senders the last one.
_THROWN_AWAY = ("OfoPruned", "RcvPruned", "TCPSACKReneging")

# For a host with an IPv6 address, in this order: no link-local address, no router solicitation.
_IPV6_SYSCTLS = {
    f"net/ipv6/conf/{HOST_INTERFACE}/addr_gen_mode": "1",
    f"net/ipv6/conf/{HOST_INTERFACE}/accept_ra": "0",
    f"net/ipv6/conf/{HOST_INTERFACE}/router_solicitations": "0",
    f"net/ipv6/conf/{HOST_INTERFACE}/disable_ipv6": "0",
    "net/ipv6/conf/lo/disable_ipv6": "0",
}


@dataclass(frozen=True)
class HostSpec:
    """One host to build. `address` defaults to the next free one of 10.0.0.0/24, `address6` to none.

    Without a `line`, its frames leave as fast as the processor makes them.
    """

    name: str
    address: str | None = None
    address6: str | None = None
    line: Line | None = None
    receive_queue: ReceiveQueue | None = None


@dataclass(frozen=True)
class LinkDrops:
    """Frames that the veth pair of one host dropped, by direction; both must be 0 in a valid run."""

    to_switch: int
    from_switch: int


class Testbed:
    """All hosts of one experiment; a context manager that always removes what it created.

    Works only inside the sandbox. The switch opens the switch ends of the links.
    """

    __test__ = False

    def __init__(self, hosts: Sequence[HostSpec], *, virtual_time: bool = False) -> None:
        """Assign addresses and ports; nothing is created yet. Port numbers follow the order, from 1.

        With `virtual_time`, processing takes no time here, and traffic programs avoid needless wake-ups.
        """
        self.virtual_time = virtual_time
        self.hosts: dict[str, HostPort] = {port.name: port for port in lay_out(hosts)}
        self._receive_queues = {host.name: host.receive_queue for host in hosts if host.receive_queue}

    def __enter__(self) -> Self:
        """Create the namespaces and links. Raises TestbedError or ProcessError."""
        if not is_inside():
            raise TestbedError("a testbed is built inside the sandbox only; see weir.topo.sandbox")
        try:
            self._create()
        except BaseException:
            self._destroy()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the namespaces and with them the veth pairs."""
        self._destroy()

    def host(self, name: str) -> HostPort:
        """The host with that name. Raises TestbedError with the names that exist."""
        if name not in self.hosts:
            raise TestbedError(f"there is no host {name!r}; hosts are: {', '.join(self.hosts)}")
        return self.hosts[name]

    def command(self, host: str, argv: Sequence[str]) -> list[str]:
        """The argument list that runs `argv` in the host's namespace.

        nsenter and not `ip netns exec`: it execs the program, so that the process id is the program's, and
        creates no mounts, so that a flow starts on time.
        """
        namespace = NETNS_FOLDER / self.host(host).namespace
        return [find_tool("nsenter"), f"--net={namespace}", "--", *argv]

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
        """Start a program in the host's namespace. Raises ToolMissingError or ProcessError."""
        command = self.command(host, [find_tool(argv[0]), *argv[1:]])
        return LoggedProcess(name, command, log, stdin=stdin, awaited=awaited)

    def start_python(
        self, host: str, name: str, module: str, arguments: Sequence[str], log: Path, *, stdin: Path
    ) -> Program:
        """Start a module in the host's namespace. Raises ProcessError."""
        command = self.command(host, [*bare_python(module), *arguments])
        return LoggedProcess(name, command, log, stdin=stdin)

    def output(self, host: str, path: Path) -> str:
        """The path itself: hosts share the file system."""
        return str(path)

    def fetch(self, host: str, path: Path, *, headers_only: bool = False) -> None:
        """Nothing: the file is there."""

    def is_root(self, host: str) -> bool:
        """Whether this process runs as root."""
        return os.geteuid() == 0

    def time_stamps(self, host: str) -> None:
        """The kernel's: veth pairs have no clock."""

    def draining(self, receivers: Sequence[Receiver], logs: Path) -> Draining:
        """What reads the rest of these flows, in this process."""
        return Draining(
            [(one.flow, one.pid, one.sender) for one in receivers],
            gathered={one.flow for one in receivers if one.greedy and self.virtual_time},
        )

    def popen(self, host: str, argv: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """Start a process in the host's namespace, with options of subprocess.Popen."""
        return subprocess.Popen(self.command(host, argv), **options)

    def check_congestion_controls(self, wanted: Mapping[str, set[str]]) -> None:
        """Raise TestbedError if a host lacks a congestion control; `wanted` is host → names.

        The test sets it on a socket, which also loads the kernel module where that is permitted.
        """
        for host, names in wanted.items():
            namespace = self.host(host).namespace
            for name in sorted(names):
                problem = in_network_namespace(namespace, partial(congestion_problem, name))
                if problem is not None:
                    raise TestbedError(f"host {host}: {problem}")

    def set_sysctls(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        """Set sysctls of hosts; `wanted` is host → name, such as net.ipv4.tcp_ecn → value.

        Raises TestbedError if the kernel lacks one, or refuses its value.
        """
        for host, values in wanted.items():
            problem = in_network_namespace(self.host(host).namespace, partial(_try_sysctls, dict(values)))
            if problem is not None:
                raise TestbedError(f"host {host}: {problem}")

    def keep_departures(self) -> None:
        """Make the switch ends of the links keep frames until their departure times; raises ProcessError.

        For a switch that runs ahead. The kernel needs the queueing discipline fq.
        """
        ends = (host.switch_interface for host in self.hosts.values())
        run_tool("tc", "-batch", "-", input_text="".join(_KEEP_DEPARTURES.format(end) for end in ends))

    def silence(self) -> None:
        """Stop all hosts from sending IP packets; packets in flight still arrive, are captured and delivered.

        TCP continues after its program has ended: sockets retransmit, flush and close. Call this after the
        last flow and before the captures end, or a packet could be in only one of two captures.
        """
        for host in self.hosts.values():
            run_tool("ip", "-n", host.namespace, "route", "delete", str(SUBNET), "dev", host.interface)
            if host.address6 is not None:
                run_tool("ip", "-n", host.namespace, "route", "delete", "::/0", "dev", host.interface)

    def link_drops(self) -> dict[str, LinkDrops]:
        """Frames dropped by each host's link since it was created, by host name.

        A veth end counts a frame as dropped on transmission if the other side's input queue
        (net.core.netdev_max_backlog) was full, and on reception if the other end could not receive it.
        The kernel counts a frame for which that queue is full at both, so the larger of the two is taken.
        """
        switch_side = link_statistics(run_tool("ip", "-s", "-json", "link", "show"))
        drops = {}
        for host in self.hosts.values():
            rx_dropped, tx_dropped = link_statistics(self._links_in(host))[host.interface]
            switch_rx_dropped, switch_tx_dropped = switch_side[host.switch_interface]
            drops[host.name] = LinkDrops(
                to_switch=max(tx_dropped, switch_rx_dropped), from_switch=max(switch_tx_dropped, rx_dropped)
            )
        return drops

    def thrown_away(self) -> dict[str, int]:
        """How often each host's TCP threw away segments that it had acknowledged, by host name.

        For want of memory a receiver may drop what SACK has acknowledged (RFC 2018, section 8). Its sender
        then measures no rate until it has recovered, so that BBR may stay in PROBE_RTT for a minute.
        """
        return {
            host.name: in_network_namespace(host.namespace, _read_thrown_away) for host in self.hosts.values()
        }

    def receive_queues(self) -> dict[str, QueueCounts]:
        """The counters of the receive queues since their creation, by the name of the host."""
        return {
            name: queue_counts(run_tool("tc", "-n", self.host(name).namespace, *SHOW_QUEUES))
            for name in self._receive_queues
        }

    def _create(self) -> None:
        # IPv6 is off where no host needs it: neighbour discovery and router solicitations would add frames to
        # every capture and counter that are not of any flow.
        _write_sysctls({"net/ipv6/conf/default/disable_ipv6": "1"})
        commands = []
        for host in self.hosts.values():
            commands += [
                f"netns add {host.namespace}",
                f"link add {host.interface} netns {host.namespace} address {host.mac} mtu {MTU_BYTES} "
                f"txqueuelen 1000 type veth peer name {host.switch_interface} "
                f"address {_switch_mac(host.switch_port)} mtu {MTU_BYTES} txqueuelen 1000",
            ]
        run_tool("ip", "-batch", "-", input_text="\n".join(commands) + "\n")
        for host in self.hosts.values():
            in_network_namespace(host.namespace, partial(_set_up_host_kernel, host))
            turn_offloads_off([], host.switch_interface)
            turn_offloads_off(self.command(host.name, []), host.interface)
            batch = (
                f"link set lo up\naddr add {host.address}/{SUBNET.prefixlen} dev {host.interface}\n"
                f"link set {host.interface} up\n"
            )
            run_tool("ip", "-n", host.namespace, "-batch", "-", input_text=batch + self._ipv6_commands(host))
            if host.line is not None:
                _set_line(host, host.line)
            if host.name in self._receive_queues:
                _set_receive_queue(host, self._receive_queues[host.name])
        ups = [f"link set {host.switch_interface} up\n" for host in self.hosts.values()]
        run_tool("ip", "-batch", "-", input_text="".join(ups))
        # The kernel detects a carrier asynchronously; until then, the noop qdisc drops all frames.
        for host in self.hosts.values():
            wait_link_active(["-n", host.namespace], host.interface)
            wait_link_active([], host.switch_interface)

    def _ipv6_commands(self, host: HostPort) -> str:
        """The commands that give a host its IPv6 address without sending frames that belong to no flow.

        The address is on the loopback, so its multicast group is not reported on the link (RFC 3810). All
        hosts are on-link and permanent neighbours, so there are no neighbour solicitations (RFC 4861).
        """
        if host.address6 is None:
            return ""
        others = (other for other in self.hosts.values() if other.address6 is not None and other != host)
        neighbours = "".join(
            f"neigh add {other.address6} lladdr {other.mac} dev {host.interface} nud permanent\n"
            for other in others
        )
        return (
            f"addr add {host.address6}/128 dev lo nodad\n"
            f"route add ::/0 dev {host.interface} src {host.address6}\n{neighbours}"
        )

    def _destroy(self) -> None:
        made = [host for host in self.hosts.values() if (NETNS_FOLDER / host.namespace).exists()]
        for host in made:
            # A namespace exists while a process is in it; deleting the link detaches it from the switch now.
            # From the host's side, because after a failure a switch interface of that name may be another's.
            if host.interface in link_statistics(self._links_in(host)):
                run_tool("ip", "-n", host.namespace, "link", "delete", host.interface)
        if made:
            batch = "".join(f"netns delete {host.namespace}\n" for host in made)
            run_tool("ip", "-force", "-batch", "-", input_text=batch)

    @staticmethod
    def _links_in(host: HostPort) -> str:
        return run_tool("ip", "-n", host.namespace, "-s", "-json", "link", "show")


def lay_out(hosts: Sequence[HostSpec]) -> list[HostPort]:
    """Assign an address, MAC and switch port to every host. Raises TestbedError that names the host."""
    if not hosts:
        raise TestbedError("a testbed needs at least one host")
    usable = [str(address) for address in SUBNET.hosts()]
    taken: dict[str, str] = {}
    for host in hosts:
        if host.address is None:
            continue
        wanted = _valid_address(host.name, host.address)
        if wanted in taken:
            raise TestbedError(f"host {host.name!r}: address {wanted} is taken by host {taken[wanted]!r}")
        taken[wanted] = host.name
    _check_ipv6(hosts)
    free = (address for address in usable if address not in taken)
    ports: list[HostPort] = []
    for number, host in enumerate(hosts, start=1):
        if not _is_name(host.name):
            raise TestbedError(
                f"host name {host.name!r} is not valid: use 1 to 63 of A-Z, a-z, 0-9, '-' and '_', "
                "a letter or digit first"
            )
        if any(port.name == host.name for port in ports):
            raise TestbedError(f"two hosts are named {host.name!r}")
        address = host.address if host.address is not None else next(free, None)
        if address is None:
            raise TestbedError(f"host {host.name!r}: no address of {SUBNET} is left")
        ports.append(
            HostPort(
                name=host.name,
                namespace=host.name,
                interface=HOST_INTERFACE,
                address=address,
                mac=_host_mac(IPv4Address(address)),
                switch_interface=f"weir{number}",
                switch_port=number,
                address6=host.address6,
                line=host.line,
            )
        )
    return ports


def _check_ipv6(hosts: Sequence[HostSpec]) -> None:
    """Raise TestbedError for two hosts with the same IPv6 address, or if the kernel has no IPv6."""
    taken: dict[str, str] = {}
    for host in hosts:
        if host.address6 is None:
            continue
        if host.address6 in taken:
            raise TestbedError(
                f"host {host.name!r}: address {host.address6} is taken by host {taken[host.address6]!r}"
            )
        taken[host.address6] = host.name
        if not Path("/proc/sys/net/ipv6").exists():
            raise TestbedError(f"host {host.name!r}: this kernel has no IPv6; valid: no IPv6 address")


def _is_name(name: str) -> bool:
    # It becomes a file name below /run/netns.
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", name) is not None


def _valid_address(host: str, text: str) -> str:
    try:
        address = IPv4Address(text)
    except AddressValueError as error:
        raise TestbedError(f"host {host!r}: {text!r} is not an IPv4 address") from error
    if address not in SUBNET or address in (SUBNET.network_address, SUBNET.broadcast_address):
        valid = f"{SUBNET.network_address + 1} to {SUBNET.broadcast_address - 1}"
        raise TestbedError(f"host {host!r}: address {address} is not usable; use one of {valid}")
    return str(address)


def _host_mac(address: IPv4Address) -> str:
    """A locally administered MAC that contains the IPv4 address, so that captures are easy to read."""
    return "02:00:" + address.packed.hex(":")


def _switch_mac(port: int) -> str:
    return f"06:00:00:00:{port >> 8:02x}:{port & 255:02x}"


def _write_sysctls(values: dict[str, str]) -> None:
    for name, value in values.items():
        path = Path("/proc/sys") / name
        if name.startswith("net/ipv6") and not path.exists():
            continue  # the kernel has no IPv6 to turn off
        path.write_text(value)


def _try_sysctls(values: dict[str, str]) -> str | None:
    """Set sysctls of this namespace; returns the problem of the first that cannot be set."""
    for name, value in values.items():
        path = Path("/proc/sys", *name.split("."))
        try:
            path.write_text(value)
        except FileNotFoundError:
            return f"this kernel has no setting {name} of a network namespace"
        except OSError as error:
            return f"the kernel refuses {name} = {value}: {error.strerror}"
    return None


def _set_up_host_kernel(host: HostPort) -> None:
    _write_sysctls({f"net/ipv6/conf/{scope}/disable_ipv6": "1" for scope in ("all", "default")})
    if host.address6 is not None:
        _write_sysctls(_IPV6_SYSCTLS)
    _write_sysctls({name.format(interface=host.interface): value for name, value in HOST_SYSCTLS.items()})


def _set_line(host: HostPort, line: Line) -> None:
    try:
        run_tool("tc", "-n", host.namespace, "-batch", "-", input_text=line.commands(host.interface))
    except ProcessError as error:
        raise TestbedError(
            f"host {host.name!r}: no line, for which the kernel needs the queueing disciplines htb and tbf; "
            f"valid: neither line_rate nor packet_cost: {error}"
        ) from error


def _set_receive_queue(host: HostPort, queue: ReceiveQueue) -> None:
    try:
        run_tool("ip", "-n", host.namespace, "-batch", "-", input_text=queue.links())
        run_tool("tc", "-n", host.namespace, "-batch", "-", input_text=queue.commands(host.interface))
    except ProcessError as error:
        raise TestbedError(
            f"host {host.name!r}: no receive queue {queue.discipline!r}, for which the kernel needs ifb, "
            "htb, mirred and that queueing discipline; valid: one that this kernel and tc(8) have, or a "
            f"kernel of `weir kernel build`: {error}"
        ) from error


def wait_link_active(where: list[str], interface: str) -> None:
    """Wait until the interface is operational and its qdisc is not noop any more."""
    give_up = time.monotonic() + _LINK_ACTIVE_S
    while True:
        (link,) = json.loads(run_tool("ip", *where, "-json", "link", "show", "dev", interface))
        if link["operstate"] == "UP" and link["qdisc"] != "noop":
            return
        if time.monotonic() >= give_up:
            raise TestbedError(
                f"interface {interface} is not operational {_LINK_ACTIVE_S:g} s after it was set up "
                f"(operstate {link['operstate']}, qdisc {link['qdisc']})"
            )
        time.sleep(_LINK_POLL_S)


def turn_offloads_off(enter: list[str], interface: str) -> None:
    """Turn off every offload of `_OFFLOADS` and check that it is off; `enter` prefixes the commands."""
    ethtool = find_tool("ethtool")
    switches = [word for name in _OFFLOADS for word in (name, "off")]
    # The exit code does not matter: ethtool fails if the kernel fixes the state of any feature.
    subprocess.run([*enter, ethtool, "-K", interface, *switches], capture_output=True, check=False)
    shown = subprocess.run(
        [*enter, ethtool, "--json", "-k", interface], capture_output=True, text=True, check=False
    )
    if shown.returncode != 0:
        raise TestbedError(f"ethtool cannot show the offloads of {interface}: {shown.stderr.strip()}")
    still_on = active_offloads(shown.stdout)
    if still_on:
        raise TestbedError(
            f"offloads of {interface} cannot be turned off: {', '.join(still_on)}; "
            "captures would show frames that were never on the wire"
        )


def turn_offloads_on(interface: str, names: Sequence[str]) -> None:
    """Turn offloads on again that `active_offloads` named. Raises ProcessError."""
    if names:
        run_tool("ethtool", "-K", interface, *(word for name in names for word in (name, "on")))


def active_offloads(ethtool_json: str) -> list[str]:
    """The offloads of `_OFFLOADS` that `ethtool --json -k` shows as on."""
    features = json.loads(ethtool_json)[0]
    return [name for name in _OFFLOADS.values() if features.get(name, {}).get("active")]


def _read_thrown_away() -> int:
    # Not /proc/net, which is that of the process and not of this thread.
    return thrown_away(Path("/proc/thread-self/net/netstat").read_text())


def thrown_away(netstat: str) -> int:
    """The sum of `_THROWN_AWAY` in a `/proc/net/netstat`, whose lines are names and their values in turn."""
    lines = iter(netstat.splitlines())
    counters = {name: int(value) for names in lines for name, value in _pairs(names, next(lines))}
    return sum(counters.get(name, 0) for name in _THROWN_AWAY)


def _pairs(names: str, values: str) -> Iterator[tuple[str, str]]:
    return zip(names.split()[1:], values.split()[1:], strict=True)


def link_statistics(ip_json: str) -> dict[str, tuple[int, int]]:
    """Interface → (frames dropped on reception, on transmission), from `ip -s -json link show`."""
    return {
        link["ifname"]: (
            int(link["stats64"]["rx"]["dropped"]),
            int(link["stats64"]["tx"]["dropped"]),
        )
        for link in json.loads(ip_json)
    }
