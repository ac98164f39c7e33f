# SPDX-License-Identifier: Apache-2.0
"""Switch ports and addresses of hosts and collectors, as assigned by `weir run` or given in the file."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from weir.controlplane.config import ExperimentConfig
from weir.controlplane.config.values import LARGEST_PORT
from weir.controlplane.errors import PlanError

SUBNET = ipaddress.IPv4Network("10.0.0.0/24")
"""The network of hosts for which the file gives no address."""
SWITCH_IP = "10.0.0.254"
SWITCH_MAC = "06:00:00:00:ff:fe"
"""The source addresses of reports; no host has them."""
DEFAULT_COLLECTOR = "collector"


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host's switch port, and the addresses of its interface."""

    port: int
    mac: str
    ip: str
    ip6: str | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its IPv4 address, and its IPv6 address if it has one."""
        return (self.ip,) if self.ip6 is None else (self.ip, self.ip6)

    def address(self, ip_version: int) -> str:
        """The address of a version of IP. Raises :class:`PlanError` if it has none."""
        if ip_version == 4:
            return self.ip
        if self.ip6 is None:
            raise PlanError(f"the host at port {self.port} has no IPv6 address; valid: an address6")
        return self.ip6


@dataclass(frozen=True, slots=True)
class CollectorEndpoint:
    """A collector's switch port and addresses, and the source addresses of reports to it."""

    port: int
    mac: str
    ip: str
    udp_port: int
    switch_mac: str = SWITCH_MAC
    switch_ip: str = SWITCH_IP


@dataclass(frozen=True)
class Attachment:
    """Everything that is connected to the switch, by name."""

    hosts: Mapping[str, HostPort]
    collectors: Mapping[str, CollectorEndpoint]


def attachment_of(experiment: ExperimentConfig) -> Attachment:
    """The ports and addresses in the file; those that it leaves out are as `weir run` assigns them.

    Raises:
        PlanError: two of them have the same port or address, or no port is left for the collector.
    """
    taken = {host.address for host in experiment.hosts.values()} - {None}
    free = (str(address) for address in SUBNET.hosts() if str(address) not in {*taken, SWITCH_IP})
    cables = {name: cable.port for name, cable in experiment.switch.ports.items()}
    hosts: dict[str, HostPort] = {}
    for number, (name, host) in enumerate(experiment.hosts.items(), 1):
        address = host.address or next(free)
        hosts[name] = HostPort(
            cables.get(name) or host.port or number, host.mac or host_mac(address), address, host.address6
        )
    collectors = {
        name: CollectorEndpoint(at.port, at.mac, at.address, at.udp_port)
        for name, at in experiment.telemetry.collectors.items()
    }
    if not collectors:
        address = next(free)
        port = cables.get(DEFAULT_COLLECTOR) or _port_after(hosts)
        endpoint = CollectorEndpoint(port, host_mac(address), address, experiment.telemetry.port)
        collectors = {DEFAULT_COLLECTOR: endpoint}
    attachment = Attachment(hosts, collectors)
    check_attachment(experiment, attachment)
    return attachment


def _port_after(hosts: Mapping[str, HostPort]) -> int:
    """The port after those of hosts, for a collector that the file does not give. Raises PlanError."""
    last = max(hosts, key=lambda name: hosts[name].port)
    port = hosts[last].port + 1
    if port > LARGEST_PORT:
        raise PlanError(
            f"hosts.{last}.port: none is left for the collector after {hosts[last].port}; "
            f"valid: below {LARGEST_PORT}, or telemetry.collectors with a port"
        )
    return port


def check_attachment(experiment: ExperimentConfig, attachment: Attachment) -> None:
    """Raise :class:`PlanError` for a host without a port, or two hosts with the same port or address.

    Collectors may share a port: several may be reached through one router.
    """
    missing = [name for name in experiment.hosts if name not in attachment.hosts]
    if missing:
        raise PlanError(
            f"no switch port for host {', '.join(missing)}; valid: a port for each host of the experiment"
        )
    for what in ("port", "mac", "ip"):
        users: dict[object, str] = {}
        for name, collector in attachment.collectors.items():
            users[getattr(collector, what)] = name
        for name, host in attachment.hosts.items():
            value = getattr(host, what)
            if value in users:
                raise PlanError(f"hosts {users[value]} and {name} both have {what} {value}; valid: one each")
            users[value] = name


def host_mac(address: str) -> str:
    """A locally administered MAC that contains the IPv4 address, so that captures are easy to read."""
    return "02:00:" + ipaddress.IPv4Address(address).packed.hex(":")


def mac_number(mac: str) -> int:
    """A MAC address as the 48-bit number in table keys. Raises :class:`PlanError`."""
    parts = mac.split(":")
    try:
        octets = bytes(int(part, 16) for part in parts)
    except ValueError as error:
        raise PlanError(f"{mac!r} is not a MAC address; valid: such as 02:00:00:00:00:01") from error
    if len(octets) != 6:
        raise PlanError(f"{mac!r} is not a MAC address; valid: such as 02:00:00:00:00:01")
    return int.from_bytes(octets, "big")


def ip_number(address: str) -> int:
    """An IPv4 address as the 32-bit number in table keys. Raises :class:`PlanError`."""
    try:
        return int(ipaddress.IPv4Address(address))
    except ValueError as error:
        raise PlanError(f"{address!r} is not an IPv4 address; valid: such as 10.0.0.1") from error


def ip6_number(address: str) -> int:
    """An IPv6 address as the 128-bit number in table keys. Raises :class:`PlanError`."""
    try:
        return int(ipaddress.IPv6Address(address))
    except ValueError as error:
        raise PlanError(f"{address!r} is not an IPv6 address; valid: such as 2001:db8::1") from error
