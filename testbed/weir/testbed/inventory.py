# SPDX-License-Identifier: Apache-2.0
"""The inventory of a testbed as frozen typed objects: the keys of `testbed.yaml`.

The docstrings of models and fields are the descriptions in the JSON Schema.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Interface, IPv6Interface, NetmaskValueError
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr, WithJsonSchema

from weir.controlplane.config import Form
from weir.controlplane.config.schema import as_text, schema_of
from weir.controlplane.config.values import NAME_PATTERN, Mac, Name, PortNumber, SizeBytes, SwitchAddress

Privileges = Literal["root", "sudo", "capabilities"]

SSH_PORT = 22
DEFAULT_PREFIX, DEFAULT_PREFIX6 = 24, 64
DEFAULT_DISK_BYTES = 10**9


def _interface_name(value: str) -> str:
    # dev_valid_name() of the kernel; ethtool and ip take the name as an argument, so it is no option.
    if re.fullmatch(r"(?!\.{1,2}$)[^\s/:-][^\s/:]{0,14}", value) is None:
        raise ValueError(f"{value!r} is not the name of an interface; valid: such as enp1s0")
    return value


def _ssh_host(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_:][A-Za-z0-9._:%-]*", value) is None:
        raise ValueError(
            f"{value!r} is not a host; valid: a name or an address alone, such as 192.0.2.11 "
            "(user and port have keys of their own)"
        )
    return value


def _user(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*\$?", value) is None:
        raise ValueError(f"{value!r} is not the name of a user; valid: such as 'alice'")
    return value


def _absolute(value: str) -> str:
    if not value.startswith("/") or "\0" in value:
        raise ValueError(f"{value!r} is not an absolute path; valid: such as '/var/tmp/weir'")
    return value


def _with_prefix(kind: type[IPv4Interface | IPv6Interface], example: str) -> Callable[[str], str]:
    version, prefix = (4, DEFAULT_PREFIX) if kind is IPv4Interface else (6, DEFAULT_PREFIX6)

    def read(value: str) -> str:
        try:
            interface = kind(value if "/" in value else f"{value}/{prefix}")
        except (AddressValueError, NetmaskValueError, ValueError) as error:
            raise ValueError(
                f"{value!r} is not an IPv{version} address with a prefix; valid: such as {example}"
            ) from error
        return str(interface)

    return read


def _own_name() -> str:
    """The name of the user who runs weir; empty if the user has none, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _json(example: str, **more: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "examples": [example], **more})


SshHost = Annotated[StrictStr, AfterValidator(_ssh_host), _json("192.0.2.11")]
User = Annotated[StrictStr, AfterValidator(_user), _json("alice")]
InterfaceName = Annotated[StrictStr, AfterValidator(_interface_name), _json("enp1s0")]
HostFolder = Annotated[StrictStr, AfterValidator(_absolute), _json("/var/tmp/weir", pattern="^/")]
LocalFile = Annotated[StrictStr, Field(min_length=1), _json("~/.ssh/id_ed25519")]
Address4 = Annotated[
    StrictStr, AfterValidator(_with_prefix(IPv4Interface, "10.0.0.1/24")), _json("10.0.0.1/24")
]
Address6 = Annotated[
    StrictStr, AfterValidator(_with_prefix(IPv6Interface, "2001:db8::1/64")), _json("2001:db8::1/64")
]
TestbedPort = Annotated[StrictInt, Field(ge=1, le=65_535, examples=[1])]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class SshDefaults(_Model):
    """Values of all hosts that do not have their own."""

    port: PortNumber | None = None
    """TCP port of sshd; by default 22."""
    user: User | None = None
    """User to log in as; by default the one who runs weir."""
    identity_file: LocalFile | None = None
    """Private key on this machine. By default the agent's keys, and those of ~/.ssh with OpenSSH's names."""
    known_hosts: LocalFile | None = None
    """File with the keys of the hosts; by default ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts."""


class SshEntry(SshDefaults):
    """How to reach a host's sshd."""

    host: SshHost
    """Name or address."""


class HostEntry(_Model):
    """One host of the testbed."""

    ssh: SshEntry
    """How to reach it: its control address."""
    interface: InterfaceName
    """Its interface in the experiment's network, towards the switch."""
    address: Address4 | None = None
    """IPv4 address of that interface with its prefix length, 24 if left out."""
    address6: Address6 | None = None
    """IPv6 address of that interface with its prefix length, 64 if left out."""
    mac: Mac | None = None
    """MAC address of that interface; without it the interface's own is taken as it is."""
    privileges: Privileges | None = None
    """root: the user is root. sudo: `sudo -n` works, without a password. capabilities: the user's processes
    have CAP_NET_ADMIN and CAP_NET_RAW. By default root for the user root, and sudo for others."""
    time_stamps: Literal["host", "nic"] = "host"
    """Who puts the time on captured packets: the host's kernel, or the network card, whose clock may be
    another; `weir doctor` says whether the card can."""
    switch_port: TestbedPort
    """Port of the switch that the interface is connected to."""
    work_folder: HostFolder | None = None
    """Folder on the host for journal and captures; by default /var/tmp/weir-UID."""
    disk_limit: SizeBytes = DEFAULT_DISK_BYTES
    """Space that weir may need on the disk of that folder; `weir doctor` says whether so much is free."""


class SwitchEntry(_Model):
    """The switch that the hosts are connected to, and that others have started."""

    address: SwitchAddress
    """Its P4Runtime. bfruntime://ADDRESS[:PORT] is the bf_switchd of a Tofino, by default at port 50052."""
    target: Literal["softswitch", "bmv2", "tofino", "tofino2"] = "softswitch"
    """What it is, as `switch.target` of an experiment."""
    device_id: Annotated[StrictInt, Field(ge=0, le=2**64 - 1, examples=[1])] = 1
    """Its device id; of a bf_switchd by default 0."""
    thrift_port: PortNumber | None = None
    """Thrift port of a bmv2 that runs on this machine, through which a run sets its queues."""


class TestbedConfig(_Model):
    """Hosts that weir reaches over SSH, and the switch ports that they are connected to."""

    __test__ = False  # not a pytest class, although its name begins with Test

    name: Name | None = None
    """Name of the testbed."""
    ssh: SshDefaults = SshDefaults()
    """Values of all hosts that do not have their own."""
    switch: SwitchEntry | None = None
    """The switch; experiments that run here use it in place of their own. `weir doctor` needs none."""
    hosts: Annotated[dict[Name, HostEntry], Field(min_length=1)]
    """The hosts by name; an experiment's hosts have the same names. The host `collector` receives the reports
    of a run."""

    def ssh_of(self, name: str) -> SshAccess:
        """How to reach a host, with all defaults filled in."""
        entry = self.hosts[name].ssh
        known_hosts = entry.known_hosts or self.ssh.known_hosts
        identity = entry.identity_file or self.ssh.identity_file
        return SshAccess(
            host=entry.host,
            port=entry.port or self.ssh.port or SSH_PORT,
            user=entry.user or self.ssh.user or _own_name(),
            identity_file=None if identity is None else Path(identity).expanduser(),
            known_hosts=None if known_hosts is None else Path(known_hosts).expanduser(),
        )

    def privileges_of(self, name: str) -> Privileges:
        """How a host's programs get their privileges."""
        given = self.hosts[name].privileges
        return given or ("root" if self.ssh_of(name).user == "root" else "sudo")


class SshAccess(_Model):
    """How to reach a host, without defaults."""

    host: str
    port: int
    user: str
    identity_file: Path | None = None
    """None: the agent's keys, and those of ~/.ssh with OpenSSH's names."""
    known_hosts: Path | None = None
    """None: ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts."""


NO_PASSWORDS = "passwords are neither read nor stored; valid: a key (identity_file), or an agent (ssh-add)"

TESTBED = Form(
    TestbedConfig,
    "testbed",
    "name, ssh, switch, hosts",
    {("flows",): "this is an experiment, not a testbed; valid: `weir run` of this file"},
)


def schema_text() -> str:
    """JSON Schema of testbed files as text that ends with a newline; deterministic."""
    schema = schema_of(TestbedConfig, "weir testbed")
    schema["properties"]["hosts"]["propertyNames"] = {"pattern": f"^{NAME_PATTERN}$"}
    return as_text(schema)
