# SPDX-License-Identifier: Apache-2.0
"""What a switch can do, declared, so that an experiment that asks for more fails before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

METERS = frozenset({"sr2c", "sr3c", "tr3c"})
LENGTHS = frozenset({"frame", "l1", "ip"})


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a target offers beside the pipeline itself."""

    port_rate: bool
    """Ports have a shaped egress queue whose rate is in bit/s and whose burst in bytes."""
    port_queue_bytes: bool
    """That queue can be limited in bytes."""
    port_queue_packets: bool
    """That queue can be limited in packets."""
    port_delay: bool
    """Ports delay what leaves through them, and lose a share of it."""
    queue_drops_reported: bool
    """Packets dropped at an egress queue are deflected, and reported one by one; else by their number."""
    links_service: bool
    """Its ports' links and queues are read and set through a service beside P4Runtime."""
    atomic_writes: bool
    """A P4Runtime batch takes effect between two packets, or not at all (DATAPLANE_ATOMIC)."""
    meters: frozenset[str]
    """Of sr2c, sr3c, tr3c."""
    colour_aware: bool
    """Meters take a packet's colour in: it does not become better than it was (RFC 2697, RFC 2698)."""
    lengths: frozenset[str]
    """Of frame, l1, ip: which length of a packet a meter can count."""


@dataclass(frozen=True, slots=True)
class Effective:
    """A token bucket as the target keeps it. The rate need not be whole bytes per second."""

    rate_bps: float
    burst_bytes: int


class Target(Protocol):
    """A kind of switch that runs the pipeline and is controlled over P4Runtime."""

    @property
    def name(self) -> str:
        """The target's name in ``switch.target``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    def effective(self, rate_bytes_per_s: int, burst_bytes: int) -> Effective:
        """The bucket that the target makes of one that P4Runtime writes.

        Raises:
            UnsupportedByTargetError: the target has no such bucket; the message says what is nearest.
        """
        ...

    def read_back(self, rate_bytes_per_s: int, burst_bytes: int) -> tuple[int, int]:
        """What a read of a bucket that was written so returns: rate in bytes/s, burst in bytes.

        Raises as :meth:`effective`.
        """
        ...
