# SPDX-License-Identifier: Apache-2.0
"""The kernel's counters of interfaces of this network namespace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

_FOLDER = Path("/sys/class/net")


@dataclass(frozen=True)
class InterfaceCounters:
    """Frames and bytes (without FCS) of an interface since it was created."""

    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int

    def since(self, before: InterfaceCounters) -> InterfaceCounters:
        """What was counted after ``before``."""
        return InterfaceCounters(
            *(getattr(self, field.name) - getattr(before, field.name) for field in fields(self))
        )

    def mirrored(self) -> InterfaceCounters:
        """As the interface at the other end of the cable counts."""
        return InterfaceCounters(self.tx_packets, self.tx_bytes, self.rx_packets, self.rx_bytes)


def read_interfaces(names: Iterable[str]) -> dict[str, InterfaceCounters]:
    """The counters of interfaces by name. Raises OSError for one that does not exist."""
    return {name: _read(_FOLDER / name / "statistics") for name in names}


def _read(folder: Path) -> InterfaceCounters:
    return InterfaceCounters(*(int((folder / field.name).read_text()) for field in fields(InterfaceCounters)))
