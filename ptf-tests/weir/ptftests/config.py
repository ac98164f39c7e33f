# SPDX-License-Identifier: Apache-2.0
"""The settings of a run, which the runner passes to the tests, and the port map file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from finsy.proto import p4i
from google.protobuf import text_format

from weir.ptf.links import Port

PORTS = (1, 2, 3, 4)
"""The tests' own port numbers: hosts at 1 and 2, collectors at 3 and 4."""


class PortMapError(Exception):
    """The port map file cannot be used; the message says why and what would be valid."""


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files: the authority of the switch's certificate; for mutual TLS a certificate and its key."""

    ca: str
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class RunConfig:
    """The switch under test: its target, addresses, ports and program."""

    target: str
    address: str
    device_id: int
    ports: tuple[Port, ...]
    p4info: str
    program: str
    """The file that the switch runs: for bmv2 and weir-switch p4c's JSON."""
    tls: Tls | None = None
    thrift_port: int | None = None
    """Port of bmv2's Thrift service, for queues and registers."""
    packet_socket: str | None = None
    """nanomsg address of the switch's packet ports, in place of the ports' interfaces."""

    def port(self, number: int) -> Port:
        """The port with a number of the tests."""
        return next(port for port in self.ports if port.number == number)

    @property
    def architecture(self) -> str:
        """The program's architecture, by its P4Info: v1model, tna or t2na."""
        arch: str = text_format.Parse(Path(self.p4info).read_text(), p4i.P4Info()).pkg_info.arch
        return arch

    def save(self, path: Path) -> None:
        """Write the settings as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2))

    @classmethod
    def load(cls, path: Path) -> RunConfig:
        """Read a file that `save` wrote."""
        found: dict[str, Any] = json.loads(path.read_text())
        found["ports"] = tuple(Port(**port) for port in found["ports"])
        found["tls"] = Tls(**found["tls"]) if found["tls"] else None
        return cls(**found)


def read_port_map(path: Path) -> tuple[Port, ...]:
    """Ports of a port map file: a JSON list of `{"ptf_port": 1, "p4_port": 132, "iface_name": "eth1"}`.

    Raises:
        PortMapError: the file is no such list, or does not have exactly the ports that the tests use.
    """
    valid = f'valid: a JSON list of {{"ptf_port": …, "p4_port": …, "iface_name": …}} for ptf_port {PORTS}'
    try:
        entries = json.loads(path.read_text())
        ports = tuple(
            Port(int(entry["ptf_port"]), int(entry["p4_port"]), str(entry["iface_name"])) for entry in entries
        )
    except OSError as error:
        raise PortMapError(f"{path}: {error.strerror}; {valid}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise PortMapError(f"{path}: {error}; {valid}") from error
    if sorted(port.number for port in ports) != sorted(PORTS):
        raise PortMapError(f"{path}: ptf_port {[port.number for port in ports]}; {valid}")
    return ports
